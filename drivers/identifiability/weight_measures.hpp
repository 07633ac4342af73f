#pragma once

// How many attention weights of the models of a comparison give the same output, and what part of them acts.

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/identifiability/weight_accumulator.hpp"
#include "base/settings.hpp"
#include "drivers/compare/compare_problem.hpp"
#include "drivers/compare/study_record.hpp"

namespace fluxformer {

/// Numbers of heads by length (analysis/identifiability/weight_accumulator.hpp), and maps of the first sample.
class WeightMeasures {
 public:
  /// `problem` is borrowed. Throws BadInput for invalid values of its keys.
  WeightMeasures(const Settings& settings, const CompareProblem& problem);
  /// Collective, as `measure`.
  void begin(StudyRecord& record);
  /// Returns a few words for the closing line.
  std::string measure(std::size_t seed, const std::string& name, StudyRecord& record);

 private:
  /// The samples that are at least as long, cut; for the last length all samples, whole.
  SampleSet cut(std::size_t length) const;
  identifiability::WeightAccumulator meter(const Parameters& parameters, const SampleSet& samples) const;
  /// Maps and counts of the first sample.
  void look_at_first(const std::string& name, const Parameters& parameters, StudyRecord& record) const;

  const CompareProblem& problem_;
  std::vector<long> lengths_;  // the last: tokens of the data
  int rows_, joint_tokens_, head_;
  std::uint64_t seed_;
  identifiability::WordClasses words_;
  std::size_t heads_ = 0;  // of the model that has most
};

/// Its variables.
std::vector<io::Variable> weight_variables();

}  // namespace fluxformer
