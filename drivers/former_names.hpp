#pragma once

// Names that experiments had before. `hessian` and `paths` were one experiment each, and a key chose one of
// its studies. Each of them is an experiment of its own now:
//
//   hessian with hessian.study = blocks    is    hessian_blocks
//
// Decks, command lines and output files with the old names still run. ExperimentEntry::former tells which
// experiments had a name together; without the key the first of them in the registry that has all keys of the
// deck is meant.

#include <string>
#include <vector>

#include "drivers/common/deck_file.hpp"
#include "drivers/common/experiment.hpp"

namespace fluxformer {

/// The experiment of this name or, for a former name, all that had it. Throws BadInput, which names those
/// that there are and the commands, for any other name.
std::vector<const ExperimentEntry*> experiments_called(const std::string& name);

/// The names that a deck which is an output file may say, for a run of `name`: its own first.
std::vector<std::string> names_in_files(const std::string& name);

/// A run in the names of today.
struct Request {
  const ExperimentEntry* experiment;
  std::string deck;                   ///< text of the deck or of the stored settings
  std::vector<std::string> settings;  ///< settings of the command line, "section.key=value"
};

/// Translates a run of `name`: the study is that of the command line, else that of the deck, else the first
/// that has all of their keys, else the first. Keys of other studies are left out of stored settings and,
/// under the former name, wherever they have their default. Throws BadInput for other keys of other studies,
/// for the key of the study beside a name of today, and for an output file of another study. `source` names
/// the deck in messages. Not collective: the same on all ranks.
Request in_names_of_today(const std::string& name, const Deck& deck, const std::vector<std::string>& settings,
                          const std::string& source);

}  // namespace fluxformer
