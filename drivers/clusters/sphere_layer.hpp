#pragma once

// Attention over tokens on the unit sphere as one layer of a Transformer whose norm is the sphere: what the closed forms of
// analysis/clusters are held against. On this rank; not collective.

#include <memory>
#include <vector>

#include "analysis/clusters/evenly_spread.hpp"
#include "model/depth_model.hpp"
#include "model/parameters.hpp"

namespace fluxformer {

/// One head with scaled identities as weights: logits beta <x, y>, values v x. States are [token][channel].
class SphereLayer {
 public:
  /// The layer for as many tokens as these, in their dimension, with or without a residual connection.
  SphereLayer(const clusters::Tokens& tokens, double beta, double value, bool residual);
  SphereLayer(const SphereLayer&) = delete;
  SphereLayer& operator=(const SphereLayer&) = delete;

  /// The change of the velocity P_x A(x) with the tokens x along `displacement`.
  std::vector<double> velocity_along(const std::vector<double>& x, const std::vector<double>& displacement);
  /// The tokens behind the layer with step h; without residual h = 1.
  std::vector<double> layer(const std::vector<double>& x, double step);
  /// Their change along `displacement`, h = 1.
  std::vector<double> layer_along(const std::vector<double>& x, const std::vector<double>& displacement);

 private:
  TokenLine line_;
  SlabContext context_;
  Parameters parameters_;
  std::unique_ptr<DepthModel> model_;
};

}  // namespace fluxformer
