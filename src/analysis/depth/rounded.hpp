#pragma once

#include <vector>

namespace fluxformer::depth {

/// Numbers without the digits that depend on the order of a sum, so that any number of ranks decides alike:
/// multiples of 1e-10 of the power of ten above the largest size.
std::vector<double> rounded(std::vector<double> numbers);

}  // namespace fluxformer::depth
