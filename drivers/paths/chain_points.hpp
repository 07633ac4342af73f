#pragma once

// The chains of `paths_sample`: temperature, width, seed, sampler and chain. What a file holds of them
// is mostly made of all chains at a temperature, width and seed together: their draws, whether they agree, and
// how far the theory is from them.

#include <string>
#include <vector>

#include "analysis/paths/posterior_chain.hpp"
#include "base/settings.hpp"
#include "drivers/paths/path_tasks.hpp"
#include "drivers/paths/theory_points.hpp"
#include "drivers/study/findings.hpp"

namespace fluxformer {

/// Settings of the chains.
struct SamplerPlan {
  std::vector<std::string> samplers;
  std::vector<double> widths;  ///< at which the posterior is sampled; empty: at all widths of the theory
  int chains = 4;
  paths::ChainPlan chain;  ///< draws; steps and seed follow from the place of a chain
  int leapfrog = 300;      ///< hmc: leapfrog steps of a draw
  int walk = 50;           ///< wishart: steps of the walk between two draws
};

/// The plan of the chains.
SamplerPlan sampler_plan_of(const Settings& settings);

/// The chains as points, in the order temperature, width, seed, sampler, chain, the last one fastest: ranks
/// work on chains of one kind at a time. They come after the points of the theory.
class ChainPoints {
 public:
  /// Borrows `tasks` and `theory`. Throws BadInput, on every rank, for widths that the theory does not have or
  /// that a sampler cannot draw.
  ChainPoints(SamplerPlan plan, PathTasks& tasks, const TheoryPoints& theory);

  /// All chains, each in the group of its sampler.
  std::vector<Place> places() const;
  const std::vector<std::string>& samplers() const { return plan_.samplers; }
  /// Results of a chain that are kept for those of all chains together.
  std::vector<io::Variable> kept() const;
  /// Memory of the results of all chains and of a chain of the widest network, bytes.
  double bytes() const;
  /// Description, e.g. "; 4 chains of 1000 draws with each of wishart, hmc at N = 10, 30".
  std::string describe() const;
  /// Adds the axes of the measures.
  void begin(StudyRecord& record) const;
  /// Draws the chain of a place.
  void measure(const Place& place, Results& to);
  /// Adds the measures of all chains together.
  void conclude(const Findings& found, StudyRecord& record) const;
  /// Results in one line for each sampler: accuracies, and whether the chains agree.
  std::string summary(const Findings& found) const;

 private:
  /// Chains of one kind: indices of temperature, width (into sampled_), seed and sampler.
  struct Kind {
    std::size_t temperature, width, seed, sampler;
  };
  double width(std::size_t sampled) const { return theory_.widths()[sampled_[sampled]]; }
  /// Effort and seed of the chain of a place.
  paths::ChainPlan chain_plan(const Place& place) const;
  /// Number of chains of a kind.
  std::size_t chain_count() const { return static_cast<std::size_t>(plan_.chains); }
  /// All chains of a kind.
  std::vector<paths::PosteriorChain> chains(const Kind& kind, const Findings& found) const;
  /// The place of the first chain of a kind; the others follow it.
  std::size_t first_of(const Kind& kind) const;
  /// Adds the measures of all chains of a kind.
  void add(const Kind& kind, const Findings& found, StudyRecord& record) const;

  SamplerPlan plan_;
  PathTasks& tasks_;
  const TheoryPoints& theory_;
  std::vector<std::size_t> sampled_;  // indices into the theory's widths
};

/// Variables that a file can hold, and their coordinates.
std::vector<io::Variable> chain_variables();
std::vector<io::Variable> chain_coordinates();

}  // namespace fluxformer
