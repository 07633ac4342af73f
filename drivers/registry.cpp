#include "drivers/evolve_experiment.hpp"
#include "drivers/experiment.hpp"

namespace fluxformer {

const std::vector<ExperimentEntry>& experiments() {
  static const std::vector<ExperimentEntry> all{
      {"evolve", "solves the PDE of a Transformer in time on the depth x token mesh", declare_evolve,
       make_evolve},
  };
  return all;
}

}  // namespace fluxformer
