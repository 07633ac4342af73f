#pragma once

// The program described for other programs: experiments, their keys, and what their files hold. Documents and the
// scripts of postprocess/ are made from it.

#include <string>
#include <vector>

#include "drivers/common/experiment.hpp"

namespace fluxformer {

/// {"schema_version": ..., "experiments": [{"name", "family", "sentence", "cites", "keys": [...],
/// "variables": [{"path", "axes", "unit", "meaning"}]}]}; with `only`, that experiment alone. Not collective.
std::string description_as_json(const std::vector<ExperimentEntry>& experiments, const std::string& only);

}  // namespace fluxformer
