#pragma once

// Freedom of attention weights in the models of a comparison: how many of them give the same output, and what
// part of them acts.

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/identifiability/weight_accumulator.hpp"
#include "base/settings.hpp"
#include "drivers/compare/compare_problem.hpp"
#include "drivers/study/findings.hpp"

namespace fluxformer {

/// The study of numbers of heads by length (analysis/identifiability/weight_accumulator.hpp), and of maps of
/// the first sample.
class WeightStudy {
 public:
  /// Reads the keys of the study; `problem` is borrowed. Throws BadInput for invalid values.
  WeightStudy(const Settings& settings, const CompareProblem& problem);
  /// Adds the axes and whatever is measured once. Collective.
  void begin(StudyRecord& record);
  /// Measures model `name` of the seed with index `seed` and returns a few words for the closing line.
  /// Collective.
  std::string measure(std::size_t seed, const std::string& name, Results& to);

 private:
  /// Samples of at least the length with index `length`, cut to it; for the last length all samples, whole.
  SampleSet cut(std::size_t length) const;
  identifiability::WeightAccumulator meter(const Parameters& parameters, const SampleSet& samples) const;
  /// Adds maps and counts of the first sample.
  void look_at_first(const Parameters& parameters, Results& to) const;

  const CompareProblem& problem_;
  std::vector<long> lengths_;  // the last one is the number of tokens of the data
  int rows_, joint_tokens_, head_;
  std::uint64_t seed_;
  identifiability::WordClasses words_;
  std::size_t heads_ = 0;  // number in the model that has most
};

/// Variables that the study stores.
std::vector<io::Variable> weight_variables();

}  // namespace fluxformer
