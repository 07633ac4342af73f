#pragma once

// fluxformer evolve: equation (1) in time, from a deck to one HDF5 file.

#include <memory>

#include "drivers/common/experiment.hpp"

namespace fluxformer {

void describe_evolve(io::Description& description);
std::unique_ptr<Experiment> make_evolve(const Settings& settings, const RunContext& context);

}  // namespace fluxformer
