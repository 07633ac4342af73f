#pragma once

// The deck of a run: an INI file, or a file of the program, whose stored settings are read.

#include <mpi.h>

#include <string>

#include "base/settings.hpp"

namespace fluxformer {

/// Settings as text, and where they come from.
struct Deck {
  std::string text;
  Origin origin = Origin::deck;
};

/// Rank 0 reads the file and sends the text to the others; of an HDF5 file only its settings. Collective. Throws
/// BadInput (agreed) for what is not a regular file, longer than a deck can be, not one of ours, or of another
/// experiment than this.
Deck read_deck_file(MPI_Comm comm, const std::string& path, const std::string& experiment);

}  // namespace fluxformer
