#pragma once

namespace fluxformer {

/// The arithmetic of the kernels. States, parameters and gradients are double in any case.
enum class Precision { single, dbl };

}  // namespace fluxformer
