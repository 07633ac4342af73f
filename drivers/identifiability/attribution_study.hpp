#pragma once

// The origin of hidden tokens in the models of a comparison.

#include <string>
#include <vector>

#include "analysis/identifiability/attribution.hpp"
#include "base/settings.hpp"
#include "drivers/compare/compare_problem.hpp"
#include "drivers/study/findings.hpp"

namespace fluxformer {

/// The study of contributions and of their agreement with blanked tokens
/// (analysis/identifiability/attribution.hpp).
class AttributionStudy {
 public:
  /// Reads the keys of the study; `problem` is borrowed. Throws BadInput for invalid values.
  AttributionStudy(const Settings& settings, const CompareProblem& problem);
  /// Adds the axes and whatever is measured once. Collective.
  void begin(StudyRecord& record);
  /// Measures model `name` of the seed with index `seed` and returns a few words for the closing line.
  /// Collective.
  std::string measure(std::size_t seed, const std::string& name, Results& to);

 private:
  const CompareProblem& problem_;
  SampleSet samples_;
  identifiability::AttributionPlan plan_;
};

/// Variables that the study stores.
std::vector<io::Variable> attribution_variables();

}  // namespace fluxformer
