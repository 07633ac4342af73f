#pragma once

// Curves of pruning by several orders and what a file holds of them, for networks of attention paths and for Transformers.

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/paths/head_pruning.hpp"
#include "drivers/compare/study_record.hpp"

namespace fluxformer {

/// Scores of heads by rule, a small one being worth little.
struct HeadWorth {
  std::vector<double> theory, entropies, sensitivities;  ///< by layers; a large entropy is worth little
};

/// Accuracies by order, then scores by rule and layer, over the largest: the numbers of one network.
using PruningNumbers = std::vector<double>;

/// Silences heads in all orders. Calls `accuracy` once for each set of heads; collective if that is.
PruningNumbers pruning_curves(const HeadWorth& worth, const std::vector<int>& heads, std::uint64_t seed,
                              std::size_t random, const paths::PrunedAccuracy& accuracy);
/// How many numbers these are.
std::size_t pruning_numbers(const std::vector<int>& heads, std::size_t random);
/// "95.1 %, without 2 heads of the least score 94 %, of the largest 71 %"
std::string pruning_summary(const PruningNumbers& numbers, const std::vector<int>& heads);

/// Width and temperature of the theory.
struct ScoresAt {
  double width, temperature;
};
/// Axes but those of layers and heads, and notes.
void add_pruning_axes(StudyRecord& record, const std::vector<int>& heads, std::size_t random,
                      const ScoresAt& scores);
/// Of the next seed.
void add_pruning(StudyRecord& record, const std::string& model, const std::vector<int>& heads,
                 std::size_t random, const PruningNumbers& numbers);

/// What a file holds of them.
std::vector<io::Variable> prune_measures();
std::vector<io::Variable> prune_coordinates();
std::vector<io::Attribute> prune_notes();

}  // namespace fluxformer
