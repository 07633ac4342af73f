#pragma once

// The experiments of the program. To add one, define its entry in a source of drivers/<family>/, declare it
// here, and add it to the list in registry.cpp; from outside, call register_experiment before
// run_command_line.

#include <vector>

#include "drivers/common/experiment.hpp"

namespace fluxformer {

/// All experiments, in the order they are listed.
const std::vector<ExperimentEntry>& experiments();

/// Appends an experiment to the list. Throws std::logic_error if the name is taken.
void register_experiment(ExperimentEntry entry);

/// The entries of the experiments, each defined with its experiment.
ExperimentEntry evolve_experiment();
ExperimentEntry train_experiment();
ExperimentEntry information_flow_experiment();
ExperimentEntry spectrum_of_states_experiment();
ExperimentEntry attention_experiment();
ExperimentEntry bottleneck_experiment();
ExperimentEntry gradient_flow_experiment();
ExperimentEntry perturbation_experiment();
ExperimentEntry ablation_experiment();
ExperimentEntry hessian_spectrum_experiment();
ExperimentEntry hessian_blocks_experiment();
ExperimentEntry hessian_scaling_experiment();
ExperimentEntry identifiability_experiment();
ExperimentEntry paths_theory_experiment();
ExperimentEntry paths_sample_experiment();
ExperimentEntry paths_train_experiment();
ExperimentEntry paths_prune_experiment();
ExperimentEntry pruning_experiment();
ExperimentEntry refinement_experiment();
ExperimentEntry removal_experiment();
ExperimentEntry influence_experiment();
ExperimentEntry interventions_experiment();
ExperimentEntry generate_experiment();
ExperimentEntry clusters_growth_experiment();
ExperimentEntry clusters_circle_experiment();
ExperimentEntry clusters_sphere_experiment();
ExperimentEntry clusters_noise_experiment();
ExperimentEntry clusters_context_experiment();
ExperimentEntry clusters_models_experiment();
ExperimentEntry scaling_experiment();

}  // namespace fluxformer
