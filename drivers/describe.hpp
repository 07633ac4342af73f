#pragma once

// A machine-readable description of the program: experiments, their keys, and the contents of their files.
// Used to generate documents and by the scripts of postprocess/.

#include <string>
#include <vector>

#include "drivers/common/experiment.hpp"

namespace fluxformer {

/// {"schema_version": ..., "experiments": [{"name", "family", "sentence", "cites", "keys": [...],
/// "variables": [{"path", "axes", "unit", "meaning"}]}]}. Not collective.
std::string description_as_json(const std::vector<const ExperimentEntry*>& experiments);

}  // namespace fluxformer
