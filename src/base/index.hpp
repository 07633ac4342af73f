#pragma once

#include <cstddef>

namespace fluxformer {

/// Type of all sizes and offsets: signed, 64 bits, the same as Eigen::Index. Containers take it as it is;
/// `std::ssize` gives it.
using Index = std::ptrdiff_t;

}  // namespace fluxformer
