#include "drivers/compare/spectrum_of_states_experiment.hpp"

#include <algorithm>

#include "analysis/states/state_spectrum.hpp"
#include "analysis/states/state_variables.hpp"
#include "drivers/compare/compare_options.hpp"
#include "drivers/compare/compare_variables.hpp"
#include "drivers/compare/comparison.hpp"

namespace fluxformer {
namespace {

using namespace states::variables;

class SpectrumOfStates final : public Comparison {
 public:
  explicit SpectrumOfStates(const CompareProblem& problem) : problem_(problem) {
    for (const auto& name : problem.models().names())
      modes_ = std::max(modes_, problem.models().at(0, name).parameters.spec.width);
    modes_ = std::min(modes_, problem.line().tokens());
  }

  void begin(StudyRecord& record) override { record.axis(mode, 1, modes_); }

  void measure(std::size_t seed, const std::string& name, StudyRecord& record) override {
    const auto probe = problem_.probe(problem_.models().at(seed, name).parameters);
    const auto spectrum = states::measure_spectrum(problem_.samples(), *probe, modes_);
    record.add(name, singular_value, spectrum.singular_values());
    record.add(name, effective_rank, spectrum.effective_rank());
  }

 private:
  const CompareProblem& problem_;
  int modes_ = 0;
};

}  // namespace

void describe_spectrum_of_states(io::Description& description) {
  compare::describe_comparison(description, "spectrum_of_states",
                               {{mode}, {}, {}, {singular_value, effective_rank}});
}

void declare_spectrum_of_states(Options& options) {
  declare_compare_options(options, "spectrum_of_states.h5");
}

std::unique_ptr<Experiment> make_spectrum_of_states(const Settings& settings, const RunContext& context) {
  return make_comparison(settings, context, [](const Settings&, const CompareProblem& p) {
    return std::make_unique<SpectrumOfStates>(p);
  });
}

}  // namespace fluxformer
