#pragma once

// A second implementation of a model's layer map and field, directly from the formulas of docs/model.md:
// arrays looked up by name, knots interpolated one array at a time, sub-layers written out. The reference for
// SlabModel.

#include <map>
#include <string>
#include <vector>

#include "model/depth_model.hpp"
#include "model/parameters.hpp"
#include "tests/support/reference_terms.hpp"

namespace fluxformer::test::naive {

/// The parameters at one depth, array by array.
class WeightsAt {
 public:
  WeightsAt(const Parameters& parameters, const DepthPoint& at);
  WeightsAt(const WeightsAt&) = delete;
  WeightsAt& operator=(const WeightsAt&) = delete;
  /// Views into this object.
  const Weights& views() const { return views_; }

 private:
  std::map<std::string, std::vector<double>> arrays_;
  std::vector<double> qkv_, b_qkv_, alpha_, rho_;
  Weights views_;
};

/// kappa Lap u, alpha A(u) or rho R(u); for norm = sphere attention and reaction projected to the tangent
/// space.
Slab field(const Tokens& tokens, const Parameters& parameters, const DepthPoint& at, FieldTermKind part,
           const Slab& u);

/// G_s(u; h)
Slab layer_map(const Tokens& tokens, const Parameters& parameters, const DepthPoint& at, double h,
               const Slab& u);

}  // namespace fluxformer::test::naive
