#include "drivers/evolve/evolve_attention.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <sstream>

#include "base/error.hpp"
#include "base/reductions.hpp"
#include "base/vector_arrays.hpp"
#include "io/schema.hpp"
#include "mesh/ghosts.hpp"

namespace fluxformer {
namespace {

constexpr std::size_t most_tokens = 1024, most_rows = std::size_t{1} << 25;

/// Of one depth cell.
double weights_of_cell(const Mesh& mesh, const Equation& equation) {
  const double n = mesh.token_line().tokens();
  return n * n * mesh.spec().samples * equation.model().spec().attention.heads;
}

/// -sum p ln p
double entropy(const double* p, std::size_t n) {
  double sum = 0;
  for (std::size_t y = 0; y < n; ++y)
    if (p[y] > 0) sum -= p[y] * std::log(p[y]);
  return sum;
}

/// Calls row(cell, sample, head, query, weights of the n keys) for all queries of this rank. Collective over
/// the mesh.
using AttentionRow = std::function<void(std::size_t, std::size_t, std::size_t, std::size_t, const double*)>;
void for_attention_rows(const Mesh& mesh, const Equation& equation, Vec u,
                        const std::vector<double>& inflow_slab, const AttentionRow& row) {
  auto& model = equation.model();
  const auto& context = model.context();
  const auto& line = *context.line;
  const auto& spec = equation.spec();
  const auto samples = static_cast<std::size_t>(context.samples);
  const auto heads = static_cast<std::size_t>(model.spec().attention.heads);
  const auto local = static_cast<std::size_t>(line.block().count()),
             n = static_cast<std::size_t>(line.tokens());
  // The layer map of `shift` sees the cell upstream.
  const bool shift = spec.scheme == DepthScheme::shift;
  const double h = shift ? spec.depth.spacing() / spec.speed : 0.0;
  DepthGhosts ghosts(mesh, 1, 0);
  ghosts.set_inflow(inflow_slab.data());
  ghosts.begin(u);
  ghosts.end();
  const Reading state(u);
  std::vector<double> k(samples * heads * local * n);
  for (int i = 0; i < mesh.cells(); ++i) {
    const int cell = mesh.first_cell() + i, below = i - (shift ? 1 : 0);
    const double* const seen =
        below < 0 ? ghosts.below(0) : state.values + static_cast<std::size_t>(below) * context.size();
    const auto point = shift ? cell_entry(cell, spec.depth.layers, spec.depth.cells)
                             : cell_exit(cell, spec.depth.layers, spec.depth.cells);
    model.attention_matrix(point, h, seen, k.data());
    for (std::size_t r = 0; r < samples * heads * local; ++r)
      row(static_cast<std::size_t>(cell - 1), r / (local * heads), r / local % heads,
          static_cast<std::size_t>(line.global_index(line.rank(), static_cast<int>(r % local))),
          k.data() + r * n);
  }
}

}  // namespace

void require_storable_attention(const Mesh& mesh, const Equation& equation) {
  const double numbers = weights_of_cell(mesh, equation) * mesh.total_cells();
  if (numbers <= std::numeric_limits<int>::max()) return;
  std::ostringstream text;
  text << "output.attention: cells * samples * heads * tokens^2 = " << numbers
       << " weights are too many to be gathered; use fewer of inflow.samples, mesh.cells, or leave it out";
  throw BadInput(text.str());
}

void write_attention(io::ArchiveWriter& archive, const Mesh& mesh, const Equation& equation, Vec u,
                     const std::vector<double>& inflow_slab, bool store) {
  const auto cells = static_cast<std::size_t>(mesh.total_cells()),
             samples = static_cast<std::size_t>(mesh.spec().samples);
  const auto heads = static_cast<std::size_t>(equation.model().spec().attention.heads);
  const auto n = static_cast<std::size_t>(mesh.token_line().tokens());
  const bool many = weights_of_cell(mesh, equation) / mesh.token_line().size() > most_rows;
  if (n < 2 || (!store && (many || n > most_tokens))) return;

  std::vector<double> mean(cells * heads, 0.0), all(store ? cells * samples * heads * n * n : 0, 0.0);
  const double share = 1 / (std::log(static_cast<double>(n)) * static_cast<double>(samples * n));
  for_attention_rows(
      mesh, equation, u, inflow_slab,
      [&](std::size_t cell, std::size_t sample, std::size_t head, std::size_t query, const double* p) {
        mean[cell * heads + head] += share * entropy(p, n);
        if (store) std::copy_n(p, n, &all[(((cell * samples + sample) * heads + head) * n + query) * n]);
      });
  sum_over_ranks(mean, mesh.comm());
  archive.axis(io::Axis::index(names::head, heads, "attention head"));
  const auto path = names::in(names::evolve, names::attention_entropy);
  archive.array(path, {cells, heads}, mean.data(), meaning_of(path), {names::depth, names::head});
  if (!store) return;
  sum_over_ranks(all, mesh.comm());
  archive.axis(io::Axis::index(names::layer, cells, "depth cell"));
  archive.axis(io::Axis::index(names::query, n, "token that looks"));
  archive.axis(io::Axis::index(names::key, n, "token looked at"));
  archive.array(names::attention_weights, {cells, samples, heads, n, n}, all.data(),
                meaning_of(names::attention_weights),
                {names::layer, names::sample, names::head, names::query, names::key});
}

}  // namespace fluxformer
