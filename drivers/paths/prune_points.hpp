#pragma once

// The points of `paths_prune`: trained networks of attention paths whose heads are silenced in
// several orders.

#include <string>
#include <vector>

#include "drivers/paths/path_tasks.hpp"
#include "drivers/paths/pruning_record.hpp"
#include "drivers/study/findings.hpp"

namespace fluxformer {

/// The trained networks as points, one for each seed. The theory's scores are those of its smallest width at
/// the first temperature.
class PrunePoints {
 public:
  /// Heads are silenced in `random` random orders, too; the scores are those at `scores`. Borrows `tasks`.
  /// Throws BadInput, on every rank, unless the task has trained networks.
  PrunePoints(std::size_t random, PathTasks& tasks, const ScoresAt& scores);

  /// One place for each seed.
  std::vector<Place> places() const;
  /// Description in a line, for the start of a run.
  std::string describe() const;
  /// Adds the notes and axes of pruning.
  void begin(StudyRecord& record) const;
  /// Silences the heads of the network of a seed.
  void measure(const Place& place, Results& to);

 private:
  PathTasks& tasks_;
  ScoresAt scores_;
  std::size_t random_;
};

}  // namespace fluxformer
