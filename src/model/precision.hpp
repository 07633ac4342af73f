#pragma once

namespace fluxformer {

/// The arithmetic of the kernels. States, parameters and gradients are double in any case. Mixed: single, but the linear maps of attention
/// and reaction multiply numbers rounded to bfloat16; `mixed_emulated` rounds the same on processors without such products.
enum class Precision { float32, float64, mixed, mixed_emulated };

/// Whether numbers are rounded to bfloat16 somewhere.
constexpr bool is_mixed(Precision precision) {
  return precision == Precision::mixed || precision == Precision::mixed_emulated;
}

}  // namespace fluxformer
