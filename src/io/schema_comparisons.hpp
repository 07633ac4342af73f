#pragma once

// Names of the comparison experiments: /analysis/<experiment>/<model>/<measure>. <model> is transformer, or
// how the PDE model came about: independent, distilled, inherited. Measures of a pair stand with the PDE
// model.

#include <span>
#include <string>
#include <string_view>

#include "io/schema.hpp"

namespace fluxformer {

/// The part of `schema()` that lists them.
std::span<const SchemaEntry> comparison_schema();

namespace names {

inline constexpr const char *seeds = "seed", *level = "level", *files = "files", *parameters = "parameters",
                            *trained = "trained", *seconds = "seconds", *layer_end = "layer_end",
                            *example = "example", *example_labels = "example_labels",
                            *copied_epoch = "copied_epoch", *ceiling = "ceiling",
                            *label_entropy = "label_entropy";

/// /analysis/<experiment>/<model>
std::string comparison(std::string_view which, std::string_view of_model);
/// The axis of the depths of a model.
std::string model_depth(std::string_view of_model);

}  // namespace names

/// The entry of a measure; std::logic_error if there is none.
const SchemaEntry& comparison_entry(std::string_view experiment, std::string_view measure);

}  // namespace fluxformer
