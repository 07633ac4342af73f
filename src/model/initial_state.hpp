#pragma once

// The state at t = 0 and the inflow at s = 0.

#include <petscvec.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "data/dataset.hpp"
#include "mesh/mesh.hpp"
#include "model/parameters.hpp"

namespace fluxformer {

/// The keys start.* of a deck.
struct InitialState {
  /// zero         0
  /// inflow       the inflow in every cell
  /// noise        the inflow + scale * (standard normal numbers)
  /// sphere       every token a random point of the unit sphere, uniform
  /// clustered_sphere  points of the unit sphere around the random directions of `groups` groups, token j in group j mod groups:
  ///              direction + scale * (standard normal numbers), scaled to length 1; the directions are the same in every cell and sample
  /// equiangular  equiangular_points, the same in every cell
  /// cosine       scale * cos(mode pi x / n), the mode that token diffusion damps; on a grid a product
  /// quantiles    scale * (quantiles of the normal law), from token to token
  std::string kind = "zero";
  double scale = 1, gamma = 0;
  long mode = 1, groups = 1;
  std::uint64_t seed = 1;
  bool no_zero_vectors = false;  ///< refuse a token with the state 0, which cannot be projected to the sphere
};

/// Fills u with the initial state. Random numbers are keyed by cell, sample, token and channel. Collective
/// over the mesh; throws BadInput.
void set_initial_state(const InitialState& start, const Mesh& mesh, const SlabContext& context,
                       const std::vector<double>& inflow_slab, Vec u);

/// n unit vectors with the inner product gamma of any two, [vector][channel]; lower triangular. Throws
/// BadInput for n > width and for gamma < -1/(n-1).
std::vector<double> equiangular_points(int n, int width, double gamma);

/// slab := this rank's tokens of the embedded samples `indices` of `data`. Not collective.
void fill_with_samples(const data::Dataset& data, const std::vector<std::size_t>& indices,
                       const Parameters& parameters, const SlabContext& context, double* slab);
/// slab := standard normal numbers, keyed by index, token and channel. Not collective.
void fill_with_noise(const std::vector<std::size_t>& indices, std::uint64_t seed, const SlabContext& context,
                     double* slab);

}  // namespace fluxformer
