#pragma once

// The points of `paths.study = prune`: trained networks of attention paths whose heads are silenced in
// several orders.

#include <string>
#include <vector>

#include "base/settings.hpp"
#include "drivers/common/point_sweep.hpp"
#include "drivers/compare/study_record.hpp"
#include "drivers/paths/path_tasks.hpp"

namespace fluxformer {

/// The trained networks as points, one for each seed. The theory's scores are those of its smallest width at
/// the first temperature.
class PrunePoints final : public SweepPoints {
 public:
  /// Reads the keys of pruning; `tasks` is borrowed. Throws BadInput, on every rank, unless the task has
  /// trained networks.
  PrunePoints(const Settings& settings, PathTasks& tasks, double width, double temperature);

  std::size_t count() const override { return tasks_.seeds().size(); }
  std::size_t numbers(std::size_t point) const override;
  std::vector<double> measure(std::size_t point) override;

  /// Lines for the start (`describe`) and the end (`summary`) of a run.
  std::string describe() const;
  std::string summary(const std::vector<std::vector<double>>& found) const;
  void add_axes(StudyRecord& record) const;
  /// Adds the measures of all seeds; `found` holds the results by seed.
  void add(const std::vector<std::vector<double>>& found, StudyRecord& record) const;

 private:
  PathTasks& tasks_;
  double width_, temperature_;
  std::size_t random_;
};

}  // namespace fluxformer
