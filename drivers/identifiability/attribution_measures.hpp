#pragma once

// Where the hidden tokens of the models of a comparison come from.

#include <string>
#include <vector>

#include "analysis/identifiability/attribution.hpp"
#include "base/settings.hpp"
#include "drivers/compare/compare_problem.hpp"
#include "drivers/compare/study_record.hpp"

namespace fluxformer {

/// Contributions and their agreement with blanked tokens (analysis/identifiability/attribution.hpp).
class AttributionMeasures {
 public:
  /// `problem` is borrowed. Throws BadInput for invalid values of its keys.
  AttributionMeasures(const Settings& settings, const CompareProblem& problem);
  /// Collective, as `measure`.
  void begin(StudyRecord& record);
  /// Returns a few words for the closing line.
  std::string measure(std::size_t seed, const std::string& name, StudyRecord& record);

 private:
  const CompareProblem& problem_;
  SampleSet samples_;
  identifiability::AttributionPlan plan_;
};

/// Its variables.
std::vector<io::Variable> attribution_variables();

}  // namespace fluxformer
