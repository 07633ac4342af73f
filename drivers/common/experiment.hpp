#pragma once

// An experiment of the command line: declare its keys, set up (which finds every error in a deck), run.

#include <mpi.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/settings.hpp"
#include "io/variable.hpp"

namespace fluxformer {

/// Context of a run that is not a setting.
struct RunContext {
  MPI_Comm comm = MPI_COMM_NULL;
  std::string experiment;  ///< its name
  std::string cites;       ///< sources whose numbers or methods it uses
  std::string command_line;
  std::string deck;    ///< verbatim
  bool quiet = false;  ///< no progress bar
};

/// How a run ended.
struct Report {
  ExitCode code = ExitCode::done;
  std::string summary;  ///< printed by rank 0 at the end
};

/// A run that is set up: an error in its deck has been thrown before.
class Experiment {
 public:
  virtual ~Experiment() = default;
  /// What --validate prints: what would run, in a line or two.
  virtual std::string describe() const = 0;
  /// Collective.
  virtual Report run() = 0;
};

/// One line of the registry.
struct ExperimentEntry {
  std::string name;
  std::string family;    ///< name of its folder in drivers, analysis, input, ...
  std::string sentence;  ///< what it does, for the list of experiments
  std::string cites;     ///< sources whose numbers or methods it uses
  Options::Declare declare;
  /// The contents of its files.
  std::function<void(io::Description&)> describe;
  /// Collective; throws BadInput (agreed) for anything in the settings that cannot run on these ranks.
  std::function<std::unique_ptr<Experiment>(const Settings&, const RunContext&)> make;
};

}  // namespace fluxformer
