#include "drivers/registry.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace fluxformer {
namespace {

std::vector<ExperimentEntry>& registry() {
  static std::vector<ExperimentEntry> all{
      evolve_experiment(),           train_experiment(),
      information_flow_experiment(), spectrum_of_states_experiment(),
      attention_experiment(),        bottleneck_experiment(),
      gradient_flow_experiment(),    perturbation_experiment(),
      ablation_experiment(),         hessian_spectrum_experiment(),
      hessian_blocks_experiment(),   hessian_scaling_experiment(),
      identifiability_experiment(),  paths_theory_experiment(),
      paths_sample_experiment(),     paths_train_experiment(),
      paths_prune_experiment(),      pruning_experiment(),
      refinement_experiment(),       removal_experiment(),
      interventions_experiment(),    influence_experiment(),
      generate_experiment(),         clusters_growth_experiment(),
      clusters_circle_experiment(),  clusters_sphere_experiment(),
      clusters_noise_experiment(),   clusters_context_experiment(),
      clusters_models_experiment(),  scaling_experiment(),
  };
  return all;
}

}  // namespace

const std::vector<ExperimentEntry>& experiments() {
  return registry();
}

void register_experiment(ExperimentEntry entry) {
  const auto same = [&](const ExperimentEntry& other) { return other.name == entry.name; };
  if (std::ranges::any_of(registry(), same))
    throw std::logic_error("experiment " + entry.name + " is registered twice");
  registry().push_back(std::move(entry));
}

}  // namespace fluxformer
