#pragma once

// The frame of all studies. A study has places, the points of its axes (seeds, models, widths, temperatures,
// ...), and measures named results at each of them:
//
//   for each place: results = measure(place)       // a variable of the file with its values; shapes are checked
//   record the results, and what is derived from them
//
// The places do not depend on each other. Ranks share them, one place for each rank, or for each group of
// ranks where a place needs several. Finished places are kept: a checkpoint holds their results by name, and
// a run that was stopped or killed goes on from it, on any number of ranks. A checkpoint of other settings,
// or of other models and data, is refused.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/settings.hpp"
#include "drivers/common/experiment.hpp"
#include "drivers/common/run_frame.hpp"
#include "drivers/study/findings.hpp"
#include "drivers/study/study_record.hpp"

namespace fluxformer {

/// The part of a study that is its own.
class Study {
 public:
  virtual ~Study() = default;
  /// Text that --validate prints: what would be measured, in a few lines.
  virtual std::string describe() const = 0;
  /// All places, in the order in which they are measured.
  virtual std::vector<Place> places() const = 0;
  /// The word for places in messages.
  virtual std::string unit() const { return "points"; }
  /// Number of ranks that measure a place together, a divisor of the number of ranks: ranks 0 .. n - 1 are the
  /// first such group, and so on. Places measured by one rank have the same numbers on any number of ranks.
  virtual int ranks_of_place() const { return 1; }
  /// Answer of a study whose places all ranks measure together, however many there are.
  static constexpr int all_ranks = 0;

  /// Something that the results depend on and that the settings only name: a file, or a data set.
  struct Source {
    std::string called = {};   ///< key and value for messages: "models.transformer = t.h5"
    std::uint64_t digest = 0;  ///< digest of what was read, the same on all ranks
  };
  /// Everything that the results depend on; a checkpoint with other digests is refused. Collective.
  virtual std::vector<Source> sources() const { return {}; }

  /// Variables that `measure` can give for `conclude` alone, beside the measures of the file's contents.
  virtual std::vector<io::Variable> kept() const { return {}; }
  /// Adds the coordinates, that of the seeds among them, and whatever is known before the first place. Not
  /// collective.
  virtual void begin(StudyRecord& record) = 0;
  /// Measures a place. Collective over the ranks of the place, and over no others; throws on all of them or
  /// on none. The results of the first of them count. A place of one rank may throw on its own.
  virtual void measure(const Place& place, Results& to) = 0;
  /// True if the first unfinished place is half measured, so that `save` keeps what a checkpoint needs to go on
  /// within it and `load` takes it over, before the place is measured. Only for places that all ranks measure
  /// together (Results::go_on). Collective.
  virtual bool half_way() const { return false; }
  virtual void save(io::CheckpointWriter&) const {}
  virtual void load(const Place&, const io::CheckpointReader&) {}
  /// True where what was measured is worth a checkpoint even if none is due: asked after each round of places,
  /// and within a place by Results::go_on. The same on all ranks. Without effect if checkpoint.every is 0.
  virtual bool worth_keeping() const { return false; }
  /// Adds what is derived from the results of several places; measures of single places were added before.
  /// Returns false if the run was asked to stop meanwhile. Collective. By default adds the wall time of each
  /// group at each seed.
  virtual bool conclude(const Findings& found, RunFrame& frame, StudyRecord& record);
  /// The result in a few words or a short table, for the end of the run; by default the words of all places.
  virtual std::string summary(const Findings& found) const;
};

/// Adds the wall time of the places of these groups, summed for each seed.
void add_seconds(const Findings& found, const std::vector<std::string>& groups, StudyRecord& record);

/// Makes a study from the settings, which outlive it. Collective; throws BadInput (agreed).
using MakeStudy = std::function<std::unique_ptr<Study>(const Settings& settings, MPI_Comm comm)>;

/// Makes an experiment that runs a study, whose file has these contents. Needs the keys of declare_study_run.
/// Collective; throws BadInput (agreed).
std::unique_ptr<Experiment> make_study(const Settings& settings, const RunContext& context,
                                       const study::Contents& contents, const MakeStudy& make);

/// Turns the settings of a deck into those that the run stores, for keys that the study or its files decide.
/// Throws BadInput, the same on all ranks.
using OwnSettings = std::function<Settings(const Settings&)>;

/// Completes the registry entry of a study: what its file contains, and how it is made.
ExperimentEntry study_entry(ExperimentEntry entry, study::Contents (*contents)(), const MakeStudy& make,
                            const OwnSettings& own = {});

/// The same for a class with a static `contents()` and a constructor from settings and communicator, which is
/// collective and throws BadInput (agreed).
template <class OwnStudy>
ExperimentEntry study_entry(ExperimentEntry entry, const OwnSettings& own = {}) {
  const auto make = [](const Settings& s, MPI_Comm comm) { return std::make_unique<OwnStudy>(s, comm); };
  return study_entry(std::move(entry), OwnStudy::contents, make, own);
}

/// Declares the keys of a study's run: output.*, checkpoint.* and run.time_limit. `file`: the default of
/// output.file.
void declare_study_run(Options& options, const std::string& file);

}  // namespace fluxformer
