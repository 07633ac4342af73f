#pragma once

// The words of a sample, as counts of words need them.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "data/dataset.hpp"

namespace fluxformer::data {

/// The words of sample `index` of `data`, whose tokens are words: those of its real tokens, in their order. Not
/// collective.
std::vector<std::uint32_t> words_of(const Dataset& data, std::size_t index);

}  // namespace fluxformer::data
