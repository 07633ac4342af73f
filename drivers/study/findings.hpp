#pragma once

// What a study has found so far: named results of its finished places, and their form in a checkpoint.
//
// A checkpoint holds, under /state, the results by name: `results` has a line "place name count" for each of
// them, `numbers` their values in the same order. Numbers that are not those of these settings are refused.

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/settings.hpp"
#include "drivers/study/study_record.hpp"
#include "io/checkpoint.hpp"

namespace fluxformer {

/// Results of one place.
struct Found {
  std::vector<std::pair<std::string, std::vector<double>>> results = {};  ///< by the name of their variable
  std::string words = {};                                                 ///< words for the closing line
  double seconds = 0;                                                     ///< wall time
};

class Findings;

/// Takes the results of a place while it is measured. Not collective except `go_on`.
class Results {
 public:
  /// Answer of the run to a place that takes long (Results::go_on).
  using GoOn = std::function<bool(double share, const std::string& note)>;
  /// Begins the results of a place; `of`, which declares the variables, is borrowed.
  Results(const Findings& of, const Place& place, GoOn go_on = {})
      : of_(of), place_(place), go_on_(std::move(go_on)) {}

  /// Adds a variable with its values, row-major over the axes along which the place has no index. Throws
  /// std::logic_error for a variable that the study did not declare, one that was put before, and a number of
  /// values that does not fit its axes.
  void put(const io::Variable& variable, std::vector<double> values);
  /// Adds a few words, in one line, for the end of the run.
  void say(const std::string& words);
  /// For a place that takes long and that all ranks measure together: reports the share of it that is done,
  /// from 0 to 1, and writes a checkpoint if one is due, with what Study::save adds. Returns false if the run
  /// is asked to stop: the place then returns at once, without results. Collective over all ranks.
  bool go_on(double share, const std::string& note) { return !go_on_ || go_on_(share, note); }
  /// The results that were put.
  const Found& found() const { return found_; }

 private:
  const Findings& of_;
  const Place& place_;
  GoOn go_on_;
  Found found_;
};

/// The results of all finished places, the same on all ranks.
class Findings {
 public:
  /// Starts without results at these places, which can give these variables; `record`, which knows their axes, is
  /// borrowed.
  Findings(const StudyRecord& record, std::vector<Place> places, const std::vector<io::Variable>& variables);

  const std::vector<Place>& places() const { return places_; }
  /// Number of finished places: those before it are finished.
  std::size_t count() const { return found_.size(); }
  const Found& of(std::size_t place) const { return found_.at(place); }
  /// Values of a variable at a place; throws std::logic_error if the place did not give it.
  const std::vector<double>& at(std::size_t place, const io::Variable& variable) const;

  /// The variable of this name; throws std::logic_error if it was not declared.
  const io::Variable& declared(const std::string& name) const;
  /// How many numbers a place gives of a variable (StudyRecord::numbers).
  std::size_t numbers(const Place& place, const io::Variable& variable) const {
    return record_.numbers(place, variable);
  }

  /// Takes over the results of the next places, `mine` of this rank if it is the first of its group: of each
  /// `together` ranks, the results of the first one count. There are `groups` such places. Collective.
  void share(MPI_Comm comm, std::size_t groups, int together, const Found& mine);

  /// Writes the results into a checkpoint, and reads them: BadInput if they do not fit these places.
  /// Collective.
  void save(io::CheckpointWriter& file) const;
  void load(const io::CheckpointReader& file);

 private:
  const StudyRecord& record_;
  std::vector<Place> places_;
  std::map<std::string, io::Variable> variables_;  // by name
  std::vector<Found> found_;
};

}  // namespace fluxformer
