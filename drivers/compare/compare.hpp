#pragma once

// The experiments that compare a Transformer with its PDE models. Registry entries (ExperimentEntry) of each:
// the contents of the files, the keys, and the run. The make_ functions are collective and throw BadInput
// (agreed).

#include <memory>

#include "drivers/common/experiment.hpp"

namespace fluxformer {

/// Registry entries of `information_flow`: how the hidden states of a Transformer and of its PDE models change with depth, and how
/// similar they are.
void describe_information_flow(io::Description& description);
void declare_information_flow(Options& options);
std::unique_ptr<Experiment> make_information_flow(const Settings& settings, const RunContext& context);

/// Registry entries of `spectrum_of_states`: how many directions the hidden states of a sample's tokens span, by depth.
void describe_spectrum_of_states(io::Description& description);
void declare_spectrum_of_states(Options& options);
std::unique_ptr<Experiment> make_spectrum_of_states(const Settings& settings, const RunContext& context);

/// Registry entries of `attention`: similarity of the attention of a Transformer and of its PDE models, with the scores of rows
/// that do not depend on the input as baselines.
void describe_attention(io::Description& description);
void declare_attention(Options& options);
std::unique_ptr<Experiment> make_attention(const Settings& settings, const RunContext& context);

/// Registry entries of `bottleneck`: mutual information of hidden states with the input and with the label, by depth and over
/// training, with several estimators.
void describe_bottleneck(io::Description& description);
void declare_bottleneck(Options& options);
std::unique_ptr<Experiment> make_bottleneck(const Settings& settings, const RunContext& context);

/// Registry entries of `gradient_flow`: how the gradient of the loss propagates back through depth in a Transformer and its PDE
/// models, and the Jacobians of their layers.
void describe_gradient_flow(io::Description& description);
void declare_gradient_flow(Options& options);
std::unique_ptr<Experiment> make_gradient_flow(const Settings& settings, const RunContext& context);

/// Registry entries of `perturbation`: response of a Transformer and its PDE models to noise, blanked tokens and adversarial
/// steps.
void describe_perturbation(io::Description& description);
void declare_perturbation(Options& options);
std::unique_ptr<Experiment> make_perturbation(const Settings& settings, const RunContext& context);

}  // namespace fluxformer
