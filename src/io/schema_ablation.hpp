#pragma once

// Names of the ablation: /analysis/ablation/<model>/<measure>, <model> as in transformer_pre or
// pde_none_no_residual.

#include <span>

#include "io/schema.hpp"

namespace fluxformer {

/// The part of `schema()` that lists them.
std::span<const SchemaEntry> ablation_schema();

namespace names {

inline constexpr const char *diverged = "diverged", *loss_limit = "loss_limit";

}  // namespace names
}  // namespace fluxformer
