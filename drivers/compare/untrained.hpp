#pragma once

// The control of a trained model: the same model with the random weights that a training starts from.

#include <cstdint>

#include "drivers/compare/compare_models.hpp"

namespace fluxformer {

/// Parameters of `model` as a training initialises them, for this seed of the comparison. The random numbers
/// are those of no training. Not collective.
Parameters untrained(const ComparedModel& model, std::uint64_t draws, long seed);

}  // namespace fluxformer
