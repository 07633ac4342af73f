#include "drivers/ablation/ablation_experiment.hpp"
#include "drivers/ablation/ablation_options.hpp"
#include "drivers/common/experiment.hpp"
#include "drivers/compare/attention_experiment.hpp"
#include "drivers/compare/bottleneck_experiment.hpp"
#include "drivers/compare/gradient_flow_experiment.hpp"
#include "drivers/compare/information_flow_experiment.hpp"
#include "drivers/compare/perturbation_experiment.hpp"
#include "drivers/evolve/evolve_experiment.hpp"
#include "drivers/evolve/evolve_options.hpp"
#include "drivers/scaling/scaling_experiment.hpp"
#include "drivers/scaling/scaling_options.hpp"
#include "drivers/train/train_experiment.hpp"
#include "drivers/train/train_options.hpp"

namespace fluxformer {

const std::vector<ExperimentEntry>& experiments() {
  static const std::vector<ExperimentEntry> all{
      {"evolve", "solves the PDE of a Transformer in time on the depth x token mesh", declare_evolve,
       make_evolve},
      {"train", "fits the weights of a Transformer, or of its PDE, to labelled samples", declare_train,
       make_train},
      {"information_flow", "follows the hidden states of a Transformer and of its PDE models through depth",
       declare_information_flow, make_information_flow},
      {"attention", "scores the attention of PDE models against that of a trained Transformer",
       declare_attention, make_attention},
      {"bottleneck", "estimates the information that states hold about input and label, by depth",
       declare_bottleneck, make_bottleneck},
      {"gradient_flow",
       "follows the gradient of the loss back through depth, and the Jacobians of the layers",
       declare_gradient_flow, make_gradient_flow},
      {"perturbation", "perturbs the inputs of a Transformer and of its PDE models: noise, gaps, adversaries",
       declare_perturbation, make_perturbation},
      {"ablation", "trains Transformer and PDE without and with residual connection and normalisation",
       declare_ablation, make_ablation},
      {"scaling", "times steps of evolve or train by phase of the work, on as many ranks as it gets",
       declare_scaling, make_scaling},
  };
  return all;
}

}  // namespace fluxformer
