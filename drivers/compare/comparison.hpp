#pragma once

// The common part of experiments that compare models: set up, loop over models and seeds, write.

#include <memory>
#include <string>

#include "drivers/common/experiment.hpp"
#include "drivers/compare/compare_problem.hpp"
#include "drivers/study/study_record.hpp"

namespace fluxformer {

/// The measurements of one experiment. Constructed after the problem, which it borrows; the constructor
/// throws BadInput for invalid values of its own keys.
class Comparison {
 public:
  virtual ~Comparison() = default;
  /// Adds the axes of the measures and whatever is measured only once. Collective.
  virtual void begin(StudyRecord& record) = 0;
  /// Measures model `name` of the seed with index `seed`; all numbers added to the record must be the same on
  /// all ranks. Called seed by seed, the Transformer first. Collective.
  virtual void measure(std::size_t seed, const std::string& name, StudyRecord& record) = 0;
  /// The result in a few words or a short table, for the end of the run; "" if there is nothing to say.
  virtual std::string summary() const { return {}; }
};

/// Constructs the measurements of an experiment from models and data. Throws BadInput.
using MakeComparison =
    std::function<std::unique_ptr<Comparison>(const Settings& settings, const CompareProblem& problem)>;

/// Makes an experiment that compares models. Collective; throws BadInput (agreed).
std::unique_ptr<Experiment> make_comparison(const Settings& settings, const RunContext& context,
                                            const MakeComparison& make,
                                            ModelNeeds needs = ModelNeeds::classes);

}  // namespace fluxformer
