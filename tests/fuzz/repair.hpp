#pragma once

// Checksums of mutated files. Most damage would otherwise be refused at the first of them. What is too
// damaged to find its checksums is left as it is.

#include "tests/fuzz/reader.hpp"

namespace fluxformer::fuzz {

/// CRC-32 and length of a file of one member.
void repair_gzip(Bytes& bytes);
/// CRC-32 of the members that are stored without compression.
void repair_zip(Bytes& bytes);
/// Sums of the headers.
void repair_tar(Bytes& bytes);
/// CRC-32 of the chunks, Adler-32 of the pixels.
void repair_png(Bytes& bytes);
/// Checksums of the metadata (superblock, object headers and their continuations, heaps, B-trees).
void repair_hdf5(Bytes& bytes);

}  // namespace fluxformer::fuzz
