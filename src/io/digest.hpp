#pragma once

// Digests of stored numbers, which tell whether they were damaged. Not cryptographic: they find errors of
// disks and networks, not intentions.

#include <hdf5.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/index.hpp"
#include "io/hdf5/hdf5_objects.hpp"

namespace fluxformer::io {

/// Digest of numbers: the sum, modulo 2^64, of a hash of each number's bits and its place in the array. The
/// digests of the parts of an array add up to the digest of the whole, whatever rank holds which part. For a
/// fixed place the hash is a bijection of the bits, so that a single changed number is always found. Pure.
std::uint64_t digest_of(const double* numbers, Index count, Index first_place = 0);

/// Digest of a text: of its bytes in groups of eight, the last one filled with zeros, and of its length.
/// Pure.
std::uint64_t digest_of(std::string_view text);

/// The whole number with the bits of a digest, as attributes hold it.
inline long as_attribute(std::uint64_t digest) {
  return static_cast<long>(digest);
}

/// The digest stored with an open dataset or group; std::nullopt if there is none. Rank-local.
std::optional<std::uint64_t> stored_digest(hid_t object);

/// Contribution of an attribute, or of a dataset with this digest, to the digest of its group (a sum modulo
/// 2^64).
std::uint64_t digest_of_item(const std::string& name, const AttributeValue& value);

}  // namespace fluxformer::io
