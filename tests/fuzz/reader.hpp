#pragma once

// The readers of strangers' files, in one table, and what they are held to.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace fluxformer::fuzz {

using Bytes = std::vector<std::uint8_t>;

/// A reader of one format, single-rank: it throws BadInput for bytes it refuses and nothing for others.
/// Anything else it throws or does is a finding.
struct Reader {
  std::string name;
  std::string seeds;  ///< folder of its seeds in the corpus
  void (*read)(std::span<const std::uint8_t>) = nullptr;
  /// Repairs the checksums of mutated bytes, so that damage behind them is reached; may be null.
  void (*repair)(Bytes&) = nullptr;
};

/// The groups of the table. A new reader is a line in one of them.
std::vector<Reader> deck_readers();
std::vector<Reader> data_readers();
std::vector<Reader> archive_readers();
std::vector<Reader> program_readers();
/// Readers that crash, hang, ... when told to: tests/fuzz/findings_test.py sees that each is noticed.
std::vector<Reader> misbehaving_readers();

/// The readers of strangers' files; those that misbehave only by their name.
std::vector<Reader> readers_called(const std::string& name);

/// Outcome of reading some bytes.
struct Outcome {
  enum class Kind { accepted, refused, finding } kind = Kind::accepted;
  std::string what;  ///< the message of the exception
};

/// Reads the bytes; no exception gets out.
Outcome judge(const Reader& reader, std::span<const std::uint8_t> bytes);

/// A folder in memory, which is this process's own; its files are overwritten by the next input.
const std::string& scratch_folder();
/// Makes it; `folder` must outlive the readers' use.
void use_scratch_folder(const std::string& folder);
/// Writes the bytes to a file of the scratch folder and returns its path.
std::string in_file(std::span<const std::uint8_t> bytes, const std::string& name);

}  // namespace fluxformer::fuzz
