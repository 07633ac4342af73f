#pragma once

// The layer map and the parts of the field as cases of the conformance suite.

#include <vector>

#include "tests/support/conformance.hpp"

namespace fluxformer::test {

std::vector<TermCase> every_model_term();

}  // namespace fluxformer::test
