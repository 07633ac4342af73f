#pragma once

// Names of the perturbation experiment: /analysis/perturbation/<model>/<kind>_<measure>.

#include <span>

#include "io/schema.hpp"

namespace fluxformer {

/// The part of `schema()` that lists them.
std::span<const SchemaEntry> perturbation_schema();

namespace names {

inline constexpr const char *noise_level = "noise_level", *feature_noise_level = "feature_noise_level",
                            *dropped_share = "dropped_share", *attack_level = "attack_level",
                            *feature_attack_level = "feature_attack_level";

}  // namespace names
}  // namespace fluxformer
