#pragma once

// Token identifiability of the models of a comparison, trained and not, and over their training.

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/identifiability/identity_rates.hpp"
#include "base/settings.hpp"
#include "drivers/compare/compare_problem.hpp"
#include "drivers/compare/study_record.hpp"
#include "io/variable.hpp"

namespace fluxformer {

/// Rates by depth (analysis/identifiability/identity_rates.hpp).
class IdentityMeasures {
 public:
  /// `problem` is borrowed. Throws BadInput for invalid values of its keys.
  IdentityMeasures(const Settings& settings, const CompareProblem& problem);
  /// Collective, as `measure`.
  void begin(StudyRecord& record);
  /// Returns a few words for the closing line.
  std::string measure(std::size_t seed, const std::string& name, StudyRecord& record);

 private:
  identifiability::IdentityRates rates(const Parameters& parameters, bool mlp) const;

  const CompareProblem& problem_;
  identifiability::IdentityPlan plan_;
  identifiability::IdentitySamples samples_;
  std::vector<long> epochs_;
  std::uint64_t draws_;
};

/// Its variables.
std::vector<io::Variable> identity_variables();

}  // namespace fluxformer
