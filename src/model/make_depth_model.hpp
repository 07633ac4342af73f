#pragma once

#include <memory>

#include "model/depth_model.hpp"
#include "model/precision.hpp"

namespace fluxformer {

/// `parameters` and `context` are borrowed. Throws BadInput for combinations that are not defined (kappa > 0
/// with a causal mask, sinkhorn with a causal mask, ...).
std::unique_ptr<DepthModel> make_depth_model(const Parameters& parameters, const SlabContext& context,
                                             Precision precision);

}  // namespace fluxformer
