#pragma once

// The attributes that describe a run in every file it writes.

#include <string>
#include <utility>
#include <vector>

#include "base/settings.hpp"
#include "drivers/common/experiment.hpp"
#include "io/hdf5/hdf5_objects.hpp"

namespace fluxformer {

/// Attributes of the root of a file: experiment, command line, deck, settings, seed (if there is a run.seed),
/// ranks, versions, cites. The same on all ranks; not collective.
std::vector<std::pair<std::string, io::AttributeValue>> run_attributes(const Settings& settings,
                                                                       const RunContext& context);

}  // namespace fluxformer
