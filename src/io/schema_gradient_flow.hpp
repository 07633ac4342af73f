#pragma once

// Names of the gradient_flow experiment: /analysis/gradient_flow/<model>/<measure>.

#include <span>

#include "io/schema.hpp"

namespace fluxformer {

/// The part of `schema()` that lists them.
std::span<const SchemaEntry> gradient_flow_schema();

namespace names {

inline constexpr const char *knot = "knot", *exponent = "exponent", *jacobian_samples = "jacobian_samples";

}  // namespace names
}  // namespace fluxformer
