#include "analysis/clusters/field_clusters.hpp"

#include <algorithm>
#include <cmath>

#include "analysis/clusters/leaders.hpp"
#include "base/mpi.hpp"
#include "base/statistics.hpp"
#include "base/vector_arrays.hpp"
#include "operators/layer_norm.hpp"

namespace fluxformer::clusters {

FieldClusters::FieldClusters(const Mesh& mesh, const SlabContext& context,
                             const FieldClusterSettings& settings)
    : mesh_(mesh), context_(context), settings_(settings) {}

double FieldClusters::bytes() const {
  const auto& line = mesh_.token_line();
  const double n = line.tokens(), leaders = std::min<double>(n, static_cast<double>(settings_.leaders));
  // All tokens of a cell and sample; vectors of attention and blocks of keys; the leaders of two radii.
  return (n + 12 * std::ceil(n / line.size()) + 2 * leaders) * context_.width * sizeof(double);
}

Tokens FieldClusters::tokens_of(const double* slab, int sample) const {
  const auto& line = mesh_.token_line();
  const Index width = context_.width, tokens = line.tokens(), samples = context_.samples;
  Tokens found{context_.width, std::vector<double>(tokens * width, 0.0)};
  for (Index local = 0; local < line.block().count(); ++local)
    std::copy_n(slab + (local * samples + sample) * width, width,
                found.x.begin() + width * line.global_index(line.rank(), static_cast<int>(local)));
  sum_over_ranks(found.x, line.comm());
  const Index real = std::min<Index>(tokens, context_.real_tokens(sample));
  double* end = found.x.data();
  for (Index token = 0; token < real; ++token) {
    double* const x = found.x.data() + token * width;
    if (!put_on_sphere(x, context_.width)) continue;
    if (end != x) std::copy_n(x, width, end);
    end += width;
  }
  found.x.resize(end - found.x.data());
  return found;
}

std::array<double, FieldClusters::measures> FieldClusters::measures_of(const double* slab, int sample) {
  const MPI_Comm comm = mesh_.token_line().comm();
  const auto all = tokens_of(slab, sample);
  const Index n = all.count();
  const auto zero_tokens =
      static_cast<double>(std::min(mesh_.token_line().tokens(), context_.real_tokens(sample)) - n);
  if (n == 0) {
    return {missing_value, missing_value, missing_value, missing_value,
            missing_value, missing_value, zero_tokens};
  }
  if (attended_ != n) {
    attention_.emplace(n, all.dimension, settings_.beta, comm);
    attended_ = n;
  }
  const auto first = all.x.begin() + attention_->first() * all.dimension;
  const Tokens mine{all.dimension, {first, first + attention_->count() * all.dimension}};
  const auto found = clusters_on_sphere(mine, settings_.delta, settings_.leaders, comm);
  const auto soft = attention_->sums(mine.x);
  return {known_count(found.fewest),
          known_count(found.most),
          found.compact_share,
          soft.number_2,
          soft.number_1,
          soft.energy,
          zero_tokens};
}

std::vector<double> FieldClusters::measure(Vec u) {
  const Index samples = context_.samples, rows = samples * mesh_.total_cells();
  std::vector<double> found(measures * rows, 0.0);
  {
    const ReadArray state(u);
    for (Index cell = 0; cell < mesh_.cells(); ++cell)
      for (int sample = 0; sample < context_.samples; ++sample) {
        const auto one = measures_of(state.values + cell * context_.size(), sample);
        if (mesh_.token_line().rank() != 0) continue;
        // Cells count from 1. One rank of each token line adds its cells; the other rows stay 0.
        const Index row = (mesh_.first_cell() + cell - 1) * samples + sample;
        for (Index measure = 0; measure < measures; ++measure) found[measure * rows + row] = one[measure];
      }
  }
  sum_over_ranks(found, mesh_.comm());
  return found;
}

}  // namespace fluxformer::clusters
