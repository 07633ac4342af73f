#pragma once

// The points of `paths`: first those of the theory, then chains if the posterior is sampled, or trained
// networks that are pruned.

#include <memory>
#include <string>
#include <vector>

#include "base/settings.hpp"
#include "drivers/paths/chain_points.hpp"
#include "drivers/paths/prune_points.hpp"
#include "drivers/paths/theory_points.hpp"

namespace fluxformer {

/// Points of the theory, of chains and of pruning as one sweep.
class PathPoints final : public SweepPoints {
 public:
  /// Reads the keys of all points; `tasks` is borrowed. Throws BadInput, on every rank.
  PathPoints(const Settings& settings, PathTasks& tasks);

  std::size_t count() const override {
    return theory_.count() + (chains_ ? chains_->count() : 0) + (pruned_ ? pruned_->count() : 0);
  }
  std::size_t numbers(std::size_t point) const override;
  std::vector<double> measure(std::size_t point) override;
  int ranks_of_point() const override { return ranks_of_point_; }
  /// The file of paths.attention.
  Source source() const override { return source_; }
  /// Memory of the results of all chains and of a chain of the widest network, bytes; 0 without chains.
  double bytes() const { return chains_ ? chains_->bytes() : 0; }

  /// Lines for the start (`describe`) and the end (`summary`) of a run.
  std::string describe() const;
  std::string summary(const std::vector<std::vector<double>>& found) const;
  void add_axes(StudyRecord& record);
  /// Adds the measures of all points; `found` and `seconds` are by point.
  void add(const std::vector<std::vector<double>>& found, const std::vector<double>& seconds,
           StudyRecord& record) const;

 private:
  TheoryPoints theory_;
  int ranks_of_point_;
  Source source_;
  /// Chains or pruned networks; both are null if `paths.study` is theory.
  std::unique_ptr<ChainPoints> chains_;
  std::unique_ptr<PrunePoints> pruned_;
};

}  // namespace fluxformer
