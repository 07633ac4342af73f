#include "analysis/attention/field_attention.hpp"

#include <algorithm>
#include <cmath>

#include "base/mpi.hpp"
#include "base/vector_arrays.hpp"
#include "mesh/ghosts.hpp"

namespace fluxformer::attention {

double row_entropy(const double* p, Index n) {
  double sum = 0;
  // -sum_y p_y ln p_y, where 0 ln 0 = 0
  for (Index y = 0; y < n; ++y)
    if (p[y] > 0) sum -= p[y] * std::log(p[y]);
  return sum;
}

void for_attention_rows(const Mesh& mesh, const Equation& equation, Vec u,
                        const std::vector<double>& inflow_slab, const RowOfAttention& row) {
  auto& model = equation.model();
  const auto& context = model.context();
  const auto& line = *context.line;
  const auto& spec = equation.spec();
  const Index samples = context.samples, heads = model.spec().attention.heads, local = line.block().count(),
              n = line.tokens();
  // `shift` applies the layer map G_i(.; h_i/c), with linear weights at s_{i-1}, to the cell upstream. The
  // upwind schemes take the cell itself, with those at s_i, and the step 0 (docs/model.md, 3).
  const bool shift = spec.scheme == DepthScheme::shift;
  DepthGhosts ghosts(mesh, 1, 0);
  ghosts.set_inflow(inflow_slab.data());
  ghosts.begin(u);
  ghosts.end();
  const ReadArray state(u);
  std::vector<double> k(samples * heads * local * n);
  for (int i = 0; i < mesh.cells(); ++i) {
    const int cell = mesh.first_cell() + i, below = i - (shift ? 1 : 0);
    const double* const seen = below < 0 ? ghosts.below(0) : state.values + below * context.size();
    const auto point = shift ? spec.depth.entry(cell) : spec.depth.exit(cell);
    const double step = shift ? spec.depth.length(cell) / spec.speed : 0.0;
    model.attention(point, step, seen, nullptr, k.data());
    for (Index r = 0; r < samples * heads * local; ++r)  // k is [sample][head][query of this rank][key]
      row(cell - 1, r / (local * heads), r / local % heads, line.global_index(line.rank(), r % local),
          k.data() + r * n);
  }
}

FieldAttention field_attention(const Mesh& mesh, const Equation& equation, Vec u,
                               const std::vector<double>& inflow_slab, StoredAttention store) {
  const Index cells = mesh.total_cells(), samples = mesh.spec().samples,
              heads = equation.model().spec().attention.heads, n = mesh.token_line().tokens();
  FieldAttention found;
  found.entropy.assign(cells * heads, 0.0);
  if (store == StoredAttention::entropy_and_weights)
    found.weights.assign(cells * samples * heads * n * n, 0.0);
  // Entropy = mean over samples and queries of -sum_y p ln p / ln n; each rank adds its own queries.
  const double share = 1 / (std::log(n) * (samples * n));
  for_attention_rows(
      mesh, equation, u, inflow_slab,
      [&](Index cell, Index sample, Index head, Index query, const double* p) {
        found.entropy[cell * heads + head] += share * row_entropy(p, n);
        if (!found.weights.empty())
          std::copy_n(p, n, &found.weights[(((cell * samples + sample) * heads + head) * n + query) * n]);
      });
  sum_over_ranks(found.entropy, mesh.comm());
  // Each weight is set on one rank and 0 on the others.
  if (!found.weights.empty()) sum_over_ranks(found.weights, mesh.comm());
  return found;
}

}  // namespace fluxformer::attention
