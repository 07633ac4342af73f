#pragma once

// Curves of pruning in several orders and what a file holds of them, for networks of attention paths and for
// Transformers.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "analysis/paths/head_pruning.hpp"
#include "drivers/study/study_record.hpp"

namespace fluxformer {

/// Scores of heads by rule: a small theory score or sensitivity, or a large entropy, means that a head is
/// worth little.
struct HeadWorth {
  std::vector<double> theory, entropies, sensitivities;  ///< head after head, layer by layer
};

/// Numbers of one network: accuracies by order, then scores by rule and layer, divided by the largest.
using PruningNumbers = std::vector<double>;

/// Silences heads in all orders and returns the curves. Calls `accuracy` once for each set of heads;
/// collective if that is.
PruningNumbers pruning_curves(const HeadWorth& worth, const std::vector<int>& heads, std::uint64_t seed,
                              std::size_t random, const paths::PrunedAccuracy& accuracy);
/// Summary, e.g. "95.1 %, without 2 heads of the least score 94 %, of the largest 71 %".
std::string pruning_summary(const PruningNumbers& numbers, const std::vector<int>& heads);

/// Width and temperature at which the theory gives the scores.
struct ScoresAt {
  double width, temperature;
};
/// Adds the notes, and all axes but those of layers and heads.
void add_pruning_axes(StudyRecord& record, const std::vector<int>& heads, std::size_t random,
                      const ScoresAt& scores);
/// Variables of one network with their values.
std::vector<std::pair<io::Variable, std::vector<double>>> pruning_results(const std::vector<int>& heads,
                                                                          std::size_t random,
                                                                          const PruningNumbers& numbers);

/// Variables, coordinates and notes that a file of pruning holds.
std::vector<io::Variable> prune_measures();
std::vector<io::Variable> prune_coordinates();
std::vector<io::Attribute> prune_notes();

}  // namespace fluxformer
