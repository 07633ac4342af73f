#pragma once

// Digests as the files hold them.

#include <hdf5.h>

#include <cstdint>
#include <optional>
#include <string>

#include "io/digest.hpp"
#include "io/hdf5/hdf5_objects.hpp"

namespace fluxformer::io {

/// The digest stored with an open dataset or group, if there is one. Rank-local.
std::optional<std::uint64_t> stored_digest(hid_t object);

/// What a named value, or a dataset with this digest, adds to the digest of its group.
std::uint64_t digest_of_item(const std::string& name, const AttributeValue& value);

}  // namespace fluxformer::io
