#pragma once

// Hidden tokens in the models of a comparison: whether the input token is recognised in them, in trained
// models, untrained ones and over the training; and the input tokens that they come from.

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/identifiability/attribution.hpp"
#include "analysis/identifiability/identity_rates.hpp"
#include "base/settings.hpp"
#include "drivers/compare/compare_problem.hpp"
#include "drivers/study/findings.hpp"

namespace fluxformer {

/// The study of identification rates by depth (analysis/identifiability/identity_rates.hpp).
class IdentityStudy {
 public:
  /// Reads the keys of the study; `problem` is borrowed. Throws BadInput for invalid values.
  IdentityStudy(const Settings& settings, const CompareProblem& problem);
  /// Epochs whose weight snapshots are analysed, too.
  const std::vector<long>& epochs() const { return epochs_; }
  /// Adds the axes and whatever is measured once. Collective.
  void begin(StudyRecord& record);
  /// Measures model `name` of the seed with index `seed` and returns a few words for the closing line.
  /// Collective.
  std::string measure(std::size_t seed, const std::string& name, Results& to);

 private:
  identifiability::IdentityRates rates(const Parameters& parameters, bool mlp) const;

  const CompareProblem& problem_;
  identifiability::IdentityPlan plan_;
  identifiability::IdentitySamples samples_;
  std::vector<long> epochs_;
  std::uint64_t draws_;
};

/// Variables that the study stores.
std::vector<io::Variable> identity_variables();

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
