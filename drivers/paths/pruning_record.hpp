#pragma once

// Curves of pruning in several orders and what a file holds of them, for networks of attention paths and for
// Transformers.

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/paths/head_pruning.hpp"
#include "drivers/study/findings.hpp"
#include "drivers/study/study_record.hpp"

namespace fluxformer {

/// Scores of heads by rule: a small theory score or sensitivity, or a large entropy, means that a head is
/// worth little.
struct HeadWorth {
  std::vector<double> theory, entropies, sensitivities;  ///< head after head, layer by layer
};

/// Results of one network.
struct PruningCurves {
  /// Accuracy after each silenced head, for each order: those of the rules, then the random ones.
  std::vector<std::vector<double>> accuracies = {};
  std::vector<double> scores = {};  ///< scores by rule, layer and head, divided by the largest
};

/// Silences heads in all orders and returns the curves. Calls `accuracy` once for each set of heads;
/// collective if that is.
PruningCurves pruning_curves(const HeadWorth& worth, const std::vector<int>& heads, std::uint64_t seed,
                             std::size_t random, const paths::PrunedAccuracy& accuracy);
/// Puts the results of a network, and a summary after the words `called`, e.g. "95.1 %, without 2 heads of
/// the least score 94 %, of the largest 71 %".
void put_pruning(const PruningCurves& curves, const std::string& called, Results& to);

/// Width and temperature at which the theory gives the scores.
struct ScoresAt {
  double width, temperature;
};
/// Adds the notes, and all axes but those of layers and heads.
void add_pruning_axes(StudyRecord& record, const std::vector<int>& heads, std::size_t random,
                      const ScoresAt& scores);

/// Variables, coordinates and notes that a file of pruning holds.
std::vector<io::Variable> prune_measures();
std::vector<io::Variable> prune_coordinates();
std::vector<io::Attribute> prune_notes();

}  // namespace fluxformer
