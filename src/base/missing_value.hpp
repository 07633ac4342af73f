#pragma once

#include <limits>

namespace fluxformer {

/// What a measure gives where it is not defined or was not taken. Files mark it as missing.
inline constexpr double missing_value = std::numeric_limits<double>::quiet_NaN();

}  // namespace fluxformer
