#include "model/make_depth_model.hpp"

#include "model/slab/slab_model.hpp"

namespace fluxformer {

std::unique_ptr<DepthModel> make_depth_model(const Parameters& parameters, const SlabContext& context,
                                             Precision precision) {
  if (precision == Precision::single) return std::make_unique<SlabModel<float>>(parameters, context);
  return std::make_unique<SlabModel<double>>(parameters, context);
}

}  // namespace fluxformer
