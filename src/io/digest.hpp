#pragma once

// Digests of stored numbers, which tell whether they were damaged. Not cryptographic: they find errors of disks
// and networks, not intentions.

#include <hdf5.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "io/hdf5/hdf5_objects.hpp"

namespace fluxformer::io {

/// The sum, modulo 2^64, of a hash of each number's bits and its place in the array. The digests of the parts
/// of an array add up to that of the whole, whatever rank holds which part. For a fixed place the hash is a
/// bijection of the bits, so that a single changed number is always found.
std::uint64_t digest_of(const double* numbers, std::size_t count, std::uint64_t first_place = 0);

/// The same for text: of its bytes in groups of eight, the last one filled with zeros, and of its length.
std::uint64_t digest_of(std::string_view text);

/// An attribute's whole number with the same bits, and back.
inline long as_attribute(std::uint64_t digest) {
  return static_cast<long>(digest);
}

/// The digest stored with an open dataset or group, if there is one. Rank-local.
std::optional<std::uint64_t> stored_digest(hid_t object);

/// What a named value, or a dataset with this digest, adds to the digest of its group.
std::uint64_t digest_of_item(const std::string& name, const AttributeValue& value);

}  // namespace fluxformer::io
