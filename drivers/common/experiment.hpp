#pragma once

// An experiment of the command line: declare its keys, set up (which finds every error in a deck), run.

#include <mpi.h>

#include <functional>
#include <memory>
#include <string>

#include "base/error.hpp"
#include "base/settings.hpp"
#include "io/variable.hpp"

namespace fluxformer {

/// Context of a run that is not a setting.
struct RunContext {
  MPI_Comm comm = MPI_COMM_NULL;
  std::string experiment;  ///< name of the experiment
  std::string cites;       ///< sources whose numbers or methods the experiment uses
  std::string command_line;
  std::string deck;    ///< text of the deck, verbatim
  bool quiet = false;  ///< true: no progress bar
};

/// Outcome of a run.
struct Report {
  ExitCode code = ExitCode::done;
  std::string summary;  ///< printed by rank 0 at the end
};

/// A run that is set up: errors in its deck have been thrown before.
class Experiment {
 public:
  virtual ~Experiment() = default;
  /// Text that --validate prints: what would run, in a line or two.
  virtual std::string describe() const = 0;
  /// Does the work and writes the files. Collective.
  virtual Report run() = 0;
};

/// An entry of the registry.
struct ExperimentEntry {
  std::string name;
  std::string family;    ///< name of the folder in drivers, analysis, input, ...
  std::string sentence;  ///< description for the list of experiments
  std::string cites;     ///< sources whose numbers or methods the experiment uses
  Options::Declare declare = {};
  /// Describes the contents of the experiment's files.
  std::function<void(io::Description&)> describe = {};
  /// Sets up the run. Collective; throws BadInput (agreed) for anything in the settings that cannot run on
  /// these ranks.
  std::function<std::unique_ptr<Experiment>(const Settings&, const RunContext&)> make = {};
  /// Name that it had before, together with other experiments; "" for none. See drivers/former_names.hpp.
  std::string former = {};
};

}  // namespace fluxformer
