#pragma once

// All points of `paths`: the theory's, then, if the posterior is sampled, chains, or trained networks that are pruned.

#include <memory>
#include <string>
#include <vector>

#include "base/settings.hpp"
#include "drivers/paths/chain_points.hpp"
#include "drivers/paths/prune_points.hpp"
#include "drivers/paths/theory_points.hpp"

namespace fluxformer {

/// One sweep over all.
class PathPoints final : public SweepPoints {
 public:
  /// Throws BadInput, on every rank. `tasks` is used, not copied.
  PathPoints(const Settings& settings, PathTasks& tasks);

  std::size_t count() const override {
    return theory_.count() + (chains_ ? chains_->count() : 0) + (pruned_ ? pruned_->count() : 0);
  }
  std::size_t numbers(std::size_t point) const override;
  std::vector<double> measure(std::size_t point) override;
  int ranks_of_point() const override { return ranks_of_point_; }
  /// The network of paths.attention.
  Source source() const override { return source_; }
  /// Memory of chains.
  double bytes() const { return chains_ ? chains_->bytes() : 0; }

  /// Lines for the start and the end of a run.
  std::string describe() const;
  std::string summary(const std::vector<std::vector<double>>& found) const;
  void add_axes(StudyRecord& record);
  /// `found` and `seconds` by point.
  void add(const std::vector<std::vector<double>>& found, const std::vector<double>& seconds,
           StudyRecord& record) const;

 private:
  TheoryPoints theory_;
  int ranks_of_point_;
  Source source_;
  /// One of them, or none.
  std::unique_ptr<ChainPoints> chains_;
  std::unique_ptr<PrunePoints> pruned_;
};

}  // namespace fluxformer
