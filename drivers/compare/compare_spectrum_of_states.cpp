#include "drivers/compare/compare.hpp"

#include <algorithm>

#include "analysis/states/state_spectrum.hpp"
#include "analysis/states/state_variables.hpp"
#include "drivers/compare/model_study.hpp"

namespace fluxformer {
namespace {

using namespace states::variables;

class SpectrumOfStates final : public ModelStudy {
 public:
  SpectrumOfStates(const Settings& settings, MPI_Comm comm) : ModelStudy(settings, comm) {
    for (const auto& name : problem().models().names())
      modes_ = std::max(modes_, problem().models().at(0, name).parameters.spec.width);
    modes_ = std::min(modes_, problem().line().tokens());
  }
  static study::Contents contents() { return {{mode}, {}, {}, {singular_value, effective_rank}}; }
  std::vector<io::Variable> measures() const override { return contents().measures; }

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

}  // namespace

void describe_spectrum_of_states(io::Description& description) {
  compare::describe_comparison(description, "spectrum_of_states", SpectrumOfStates::contents());
}

void declare_spectrum_of_states(Options& options) {
  declare_compared(options);
  declare_study_run(options, "spectrum_of_states.h5");
}

std::unique_ptr<Experiment> make_spectrum_of_states(const Settings& settings, const RunContext& context) {
  return make_study_of<SpectrumOfStates>(settings, context);
}

}  // namespace fluxformer
