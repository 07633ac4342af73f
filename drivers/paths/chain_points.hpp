#pragma once

// The chains of `paths.study = sample`: temperature, width, seed, sampler and chain.

#include <string>
#include <vector>

#include "analysis/paths/posterior_chain.hpp"
#include "base/settings.hpp"
#include "drivers/compare/study_record.hpp"
#include "drivers/paths/path_tasks.hpp"
#include "drivers/paths/theory_points.hpp"

namespace fluxformer {

/// The chains as points, in the order temperature, width, seed, sampler, chain, the last one fastest: ranks
/// work on chains of one kind at a time.
class ChainPoints final : public SweepPoints {
 public:
  /// Reads the keys of the chains; `tasks` and `theory` are borrowed. Throws BadInput, on every rank, also
  /// for widths that a sampler cannot draw.
  ChainPoints(const Settings& settings, PathTasks& tasks, const TheoryPoints& theory);

  std::size_t count() const override;
  std::size_t numbers(std::size_t point) const override;
  std::vector<double> measure(std::size_t point) override;
  /// Memory of the results of all chains and of a chain of the widest network, bytes.
  double bytes() const;
  /// Description, e.g. "; 4 chains of 1000 draws with each of wishart, hmc at N = 10, 30".
  std::string describe() const;
  /// Results in one line for each sampler: accuracies, and whether the chains agree.
  std::string summary(const std::vector<std::vector<double>>& found) const;

  /// Adds the axes of the measures.
  void add_axes(StudyRecord& record) const;
  /// Adds the measures of all points to the record. `found` and `seconds` are by point; `theory` holds the
  /// results of the theory's points.
  void add(const std::vector<std::vector<double>>& found, const std::vector<double>& seconds,
           const std::vector<std::vector<double>>& theory, StudyRecord& record) const;

 private:
  struct ChainIndex {
    std::size_t temperature, width, seed, sampler, chain;  // width: index into sampled_
  };
  ChainIndex index_of(std::size_t point) const;
  std::size_t point(const ChainIndex& at) const;
  double width(std::size_t sampled) const { return theory_.widths()[sampled_[sampled]]; }
  paths::ChainPlan plan(const ChainIndex& at) const;
  /// All chains at a temperature, width, seed and sampler.
  std::vector<paths::PosteriorChain> chains(ChainIndex at,
                                            const std::vector<std::vector<double>>& found) const;

  PathTasks& tasks_;
  const TheoryPoints& theory_;
  std::vector<std::string> samplers_;
  std::vector<std::size_t> sampled_;  // indices into the theory's widths
  std::size_t chains_;
  paths::ChainPlan plan_;
  int leapfrog_, walk_;
};

}  // namespace fluxformer
