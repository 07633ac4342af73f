#include "drivers/common/deck_file.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/error.hpp"
#include "base/mpi.hpp"
#include "io/archive_reader.hpp"
#include "io/from_root.hpp"
#include "io/layout.hpp"

namespace fluxformer {
namespace {

constexpr std::size_t longest_deck = std::size_t{1} << 20;  // bytes

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw BadInput(path + ": " + why + "; the deck is an INI file (see input/) or an output file");
}

bool is_hdf5(const std::string& text) {
  return text.starts_with("\x89HDF\r\n");
}

/// Reads the whole text, or the beginning of an HDF5 file.
std::string read_text(const std::string& path) {
  std::error_code problem;
  const auto kind = std::filesystem::status(path, problem).type();
  if (kind == std::filesystem::file_type::not_found) refuse(path, "no such file");
  // A folder reads as empty, which would be a deck of defaults; a pipe would be waited for.
  if (problem || kind != std::filesystem::file_type::regular) refuse(path, "cannot be read as a file");
  std::ifstream in(path, std::ios::binary);
  std::string text(longest_deck + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!in.is_open() || in.bad()) refuse(path, "cannot be read");
  text.resize(in.gcount());
  if (is_hdf5(text)) return text.substr(0, 8);
  if (text.size() > longest_deck)
    refuse(path, "is longer than " + std::to_string(longest_deck) + " bytes, the most a deck can have");
  return text;
}

}  // namespace

Deck read_deck_file(MPI_Comm comm, const std::string& path, const std::vector<std::string>& experiments) {
  auto text = io::from_root(comm, mpi::is_root(comm), [&] { return read_text(path); });
  if (!is_hdf5(text)) return {std::move(text)};
  const io::ArchiveReader archive(comm, path, "deck ");
  if (!archive.has_attribute(names::settings))
    throw BadInput(archive.called() + ": holds no settings; only the output of a run can be a deck");
  const auto of = archive.text(names::experiment);
  if (std::ranges::find(experiments, of) == experiments.end())
    throw BadInput(archive.called() + ": is the output of " + of + ", whose settings are not those of " +
                   experiments.front());
  return {archive.text(names::settings), Origin::stored, of};
}

}  // namespace fluxformer
