#pragma once

// Clusters among the tokens of each depth cell in a state of equation (1) that ranks share along depth and tokens: the states of tokens as
// points x = u / |u| on the unit sphere. A token whose vector is 0 has no direction and is left out, as padding is.
//
//   N_2 = n^2 / sum_ij k_ij,   N_1 = exp(-mean log(z_i / n)),   E = sum_ij k_ij / (2 beta n^2)
//   k_ij = e^{beta (<x_i, x_j> - 1)},   z_i = sum_j k_ij
//
// Components of tokens at most delta apart: analysis/clusters/leaders.hpp.

#include <petscvec.h>

#include <array>
#include <iterator>
#include <optional>
#include <vector>

#include "analysis/clusters/cluster_variables.hpp"
#include "analysis/clusters/evenly_spread.hpp"
#include "analysis/clusters/sphere.hpp"
#include "mesh/mesh.hpp"
#include "operators/slab.hpp"

namespace fluxformer::clusters {

/// How tokens are measured.
struct FieldClusterSettings {
  double beta = 0;       ///< of the kernel
  double delta = 0;      ///< angle up to which two tokens belong together, in radians, below 2 pi / 3
  Index leaders = 4096;  ///< the most that may stand for the tokens of a cell and sample
};

/// Measures one state after another.
class FieldClusters {
 public:
  /// `mesh` and `context` are borrowed; beta and delta are above 0.
  FieldClusters(const Mesh& mesh, const SlabContext& context, const FieldClusterSettings& settings);

  const FieldClusterSettings& settings() const { return settings_; }
  /// Numbers of a state: measures * cells * samples.
  Index size() const { return measures * mesh_.total_cells() * context_.samples; }
  /// [measure][cell][sample], the measures in the order of variables::of_fields::all. Cost: n^2 d for the n tokens of each cell and sample.
  /// Collective over the mesh; the same on all ranks: counts whatever their number, sums up to their order.
  std::vector<double> measure(Vec u);
  /// Bytes that each rank takes for it, besides the results.
  double bytes() const;

 private:
  static constexpr Index measures = std::ssize(variables::of_fields::all);
  /// Tokens with a direction, those of all ranks, by their global index. Collective over the token line.
  Tokens tokens_of(const double* slab, int sample) const;
  /// Collective over the token line.
  std::array<double, measures> measures_of(const double* slab, int sample);

  const Mesh& mesh_;
  const SlabContext& context_;
  FieldClusterSettings settings_;
  std::optional<SphereAttention> attention_;  // of so many tokens, until their number changes
  Index attended_ = 0;
};

}  // namespace fluxformer::clusters
