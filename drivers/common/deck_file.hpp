#pragma once

// The deck of a run: an INI file, or a file of the program, whose stored settings are read.

#include <mpi.h>

#include <string>
#include <vector>

#include "base/settings.hpp"

namespace fluxformer {

/// Settings as text, with their origin.
struct Deck {
  std::string text;
  Origin origin = Origin::deck;
  std::string experiment = {};  ///< the one that wrote stored settings
};

/// Reads a deck on rank 0 and sends its text to the others; of an HDF5 file only the settings. Collective.
/// Throws BadInput (agreed) for a path that is not a regular file, a file longer than a deck can be, an HDF5
/// file that is not ours, and one of another experiment than these, the names of the one that is to run.
Deck read_deck_file(MPI_Comm comm, const std::string& path, const std::vector<std::string>& experiments);

}  // namespace fluxformer
