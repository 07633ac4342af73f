#include "model/depth_model.hpp"

#include <stdexcept>

#include "model/slab/slab_model.hpp"

namespace fluxformer {

std::unique_ptr<DepthModel> make_depth_model(const Parameters& parameters, const SlabContext& context,
                                             Precision precision) {
  switch (precision) {
    case Precision::float64:
      return std::make_unique<SlabModel<double>>(parameters, context);
    case Precision::float32:
      return std::make_unique<SlabModel<float>>(parameters, context);
    case Precision::mixed:
      return std::make_unique<SlabModel<float>>(parameters, context, Operands::bfloat16);
    case Precision::mixed_emulated:
      return std::make_unique<SlabModel<float>>(parameters, context, Operands::bfloat16_as_float);
  }
  throw std::logic_error("unknown precision");
}

}  // namespace fluxformer
