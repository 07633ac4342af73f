#pragma once

// Names of the scaling experiment: /scaling.

#include <span>

#include "io/schema.hpp"

namespace fluxformer {

/// The part of `schema()` that lists them.
std::span<const SchemaEntry> scaling_schema();

namespace names {

inline constexpr const char *scaling = "/scaling", *repetition = "repetition",
                            *message_bytes = "message_bytes", *messages = "messages", *bytes = "bytes";

}  // namespace names
}  // namespace fluxformer
