#include "drivers/evolve/evolve_attention.hpp"

#include <limits>
#include <sstream>

#include "analysis/attention/attention_variables.hpp"
#include "analysis/attention/field_attention.hpp"
#include "base/error.hpp"
#include "drivers/evolve/evolve_variables.hpp"
#include "io/axes.hpp"

namespace fluxformer {
namespace {

constexpr std::size_t most_tokens = 1024, most_rows = std::size_t{1} << 25;

/// Number of attention weights of one depth cell.
double weights_of_cell(const Mesh& mesh, const Equation& equation) {
  const double n = mesh.token_line().tokens();
  return n * n * mesh.spec().samples * equation.model().spec().attention.heads;
}

}  // namespace

void require_storable_attention(const Mesh& mesh, const Equation& equation) {
  const double numbers = weights_of_cell(mesh, equation) * mesh.total_cells();
  if (numbers <= std::numeric_limits<int>::max()) return;
  std::ostringstream text;
  text << "output.attention: cells * samples * heads * tokens^2 = " << numbers
       << " weights are too many to gather; reduce inflow.samples or mesh.cells, or leave it out";
  throw BadInput(text.str());
}

void write_attention(io::ArchiveWriter& archive, const Mesh& mesh, const Equation& equation, Vec u,
                     const std::vector<double>& inflow_slab, bool store) {
  const auto cells = static_cast<std::size_t>(mesh.total_cells());
  const auto heads = static_cast<std::size_t>(equation.model().spec().attention.heads);
  const auto n = static_cast<std::size_t>(mesh.token_line().tokens());
  const bool many = weights_of_cell(mesh, equation) / mesh.token_line().size() > most_rows;
  // Rows of linear attention are no probabilities: they have no entropy.
  const bool normalised = equation.model().spec().attention.normalisation != Normalisation::linear;
  if (n < 2 || (!store && (many || n > most_tokens || !normalised))) return;

  const auto found = attention::field_attention(
      mesh, equation, u, inflow_slab,
      store ? attention::StoredAttention::entropy_and_weights : attention::StoredAttention::entropy);
  archive.axis(axes::head, evolution::indices(heads));
  if (normalised) archive.write(evolution::analysis, attention::variables::attention_entropy, found.entropy);
  if (!store) return;
  archive.axis(evolution::depth_cell, evolution::indices(cells));
  archive.axis(axes::query, evolution::indices(n));
  archive.axis(axes::key, evolution::indices(n));
  archive.write(evolution::attention, attention::variables::weights, found.weights);
}

}  // namespace fluxformer
