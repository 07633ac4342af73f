// `spectrum_of_states`: how many directions the hidden states of a sample's tokens span, by depth.

#include <algorithm>

#include "analysis/states/state_spectrum.hpp"
#include "analysis/states/state_variables.hpp"
#include "drivers/compare/model_study.hpp"
#include "drivers/registry.hpp"

namespace fluxformer {
namespace {

using namespace states::variables;

class SpectrumOfStates final : public ModelStudy {
 public:
  SpectrumOfStates(const Settings& settings, MPI_Comm comm)
      : ModelStudy(settings, comm, {.head = ModelNeeds::Head::none, .transformer = false}) {
    for (const auto& name : problem().models().names())
      modes_ = std::max(modes_, problem().models().at(0, name).parameters.spec.width);
    modes_ = std::min(modes_, problem().line().tokens());
  }
  static study::Contents contents() {
    return compare::with_models({{mode}, {}, {}, {singular_value, effective_rank}});
  }

 protected:
  void add_axes(StudyRecord& record) override { record.axis(mode, 1, modes_); }

  void measure_model(std::size_t seed, const std::string& name, Results& to) override {
    const auto spectrum = states::measure_spectrum(problem().samples(), *probe(seed, name), modes_);
    to.put(singular_value, spectrum.singular_values());
    to.put(effective_rank, spectrum.effective_rank());
  }

 private:
  int modes_ = 0;
};

void declare_spectrum_of_states(Options& options) {
  declare_compared(options);
  declare_study_run(options, "spectrum_of_states.h5");
}

}  // namespace

ExperimentEntry spectrum_of_states_experiment() {
  return study_entry<SpectrumOfStates>(
      {.name = "spectrum_of_states",
       .family = "compare",
       .sentence = "counts the directions that the states of a sample's tokens span, by depth",
       .cites = "docs/model.md; Roy, Vetterli, EUSIPCO 2007, 606; arXiv 2103.03404",
       .declare = declare_spectrum_of_states});
}

}  // namespace fluxformer
