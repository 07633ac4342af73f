#include "drivers/registry.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "drivers/ablation/ablation_experiment.hpp"
#include "drivers/compare/compare.hpp"
#include "drivers/evolve/evolve_experiment.hpp"
#include "drivers/evolve/evolve_options.hpp"
#include "drivers/hessian/hessian_spectrum.hpp"
#include "drivers/hessian/layer_study.hpp"
#include "drivers/identifiability/identifiability_experiment.hpp"
#include "drivers/paths/path_training.hpp"
#include "drivers/paths/paths_experiment.hpp"
#include "drivers/paths/pruning_experiment.hpp"
#include "drivers/scaling/scaling_experiment.hpp"
#include "drivers/train/train_experiment.hpp"
#include "drivers/train/train_options.hpp"

namespace fluxformer {
namespace {

std::vector<ExperimentEntry>& registry() {
  static std::vector<ExperimentEntry> all{
      {"evolve", "evolve", "solves the PDE of a Transformer in time on the depth x token mesh",
       "MODEL: docs/model.md; arXiv 2408.09523; arXiv 1906.02762", declare_evolve, describe_evolve,
       make_evolve},
      {"train", "train", "fits the weights of a Transformer, or of its PDE, to labelled samples",
       "MODEL: docs/model.md; arXiv 1711.05101; arXiv 2601.09026", declare_train, describe_train, make_train},
      {"information_flow", "compare",
       "follows the hidden states of a Transformer and of its PDE models through depth",
       "docs/model.md; arXiv 2408.09523; arXiv 1905.00414", declare_information_flow,
       describe_information_flow, make_information_flow},
      {"spectrum_of_states", "compare",
       "counts the directions that the states of a sample's tokens span, by depth",
       "docs/model.md; Roy, Vetterli, EUSIPCO 2007, 606; arXiv 2103.03404", declare_spectrum_of_states,
       describe_spectrum_of_states, make_spectrum_of_states},
      {"attention", "compare", "scores the attention of PDE models against that of a trained Transformer",
       "docs/model.md; arXiv 2408.09523", declare_attention, describe_attention, make_attention},
      {"bottleneck", "compare",
       "estimates the mutual information of hidden states with input and label, by depth",
       "docs/model.md; arXiv 2408.09523; arXiv 1703.00810; arXiv 1706.02419; Phys. Rev. E 69 (2004) 066138; "
       "PLoS ONE 9 (2014) e87357",
       declare_bottleneck, describe_bottleneck, make_bottleneck},
      {"gradient_flow", "compare",
       "follows the gradient of the loss back through depth, and the Jacobians of the layers",
       "docs/model.md; arXiv 2408.09523; Golub, Kahan, SIAM J. Numer. Anal. B 2 (1965) 205; Benettin et al., "
       "Meccanica 15 (1980) 9",
       declare_gradient_flow, describe_gradient_flow, make_gradient_flow},
      {"perturbation", "compare",
       "perturbs the inputs of a Transformer and of its PDE models: noise, blanked tokens, attacks",
       "docs/model.md; arXiv 2408.09523, 1412.6572, 1706.06083", declare_perturbation, describe_perturbation,
       make_perturbation},
      {"ablation", "ablation",
       "trains Transformer and PDE with and without residual connection and normalisation",
       "docs/model.md; arXiv 2408.09523", declare_ablation, describe_ablation, make_ablation},
      {"hessian_spectrum", "hessian",
       "measures the Hessian of trained models: ends and density of its spectrum, blocks",
       "docs/model.md; arXiv 2410.10986; arXiv 2402.16788; Stewart, SIAM J. Matrix Anal. Appl. 23 (2002) "
       "601; "
       "arXiv 2010.09649",
       declare_hessian_spectrum, describe_hessian_spectrum, make_hessian_spectrum, "hessian"},
      {"hessian_blocks", "hessian",
       "sizes of the entries of the Hessian of one attention layer, block by block, at random weights",
       "docs/model.md; arXiv 2410.10986", declare_hessian_blocks, describe_hessian_blocks,
       make_hessian_blocks, "hessian"},
      {"hessian_scaling", "hessian",
       "follows how the blocks of the Hessian of attention layers grow with the size of the embeddings",
       "docs/model.md; arXiv 2410.10986", declare_hessian_scaling, describe_hessian_scaling,
       make_hessian_scaling, "hessian"},
      {"identifiability", "identifiability",
       "tells what attention weights and hidden tokens say: how many weights do as well, where tokens go",
       "docs/model.md; arXiv 1908.04211; arXiv 2005.00928; arXiv 2004.10102; Hutchinson, Commun. Stat. "
       "Simul. "
       "Comput. 19 (1990) 433",
       declare_identifiability, describe_identifiability, make_identifiability},
      {"paths_theory", "paths",
       "deep attention with frozen queries and keys: what its paths weigh at finite width, by theory",
       "docs/model.md; arXiv 2405.15926", declare_paths_theory, describe_paths_theory, make_paths_theory,
       "paths"},
      {"paths_sample", "paths",
       "draws from the posterior of deep attention with frozen queries and keys, beside the theory",
       "docs/model.md; arXiv 2405.15926", declare_paths_sample, describe_paths_sample, make_paths_sample,
       "paths"},
      {"paths_train", "paths",
       "trains networks of attention paths on one-shot examples, queries and keys included",
       "docs/model.md; arXiv 2405.15926", declare_paths_train, describe_paths_train, make_paths_train,
       "paths"},
      {"paths_prune", "paths",
       "silences heads of trained networks of attention paths, one after another, beside the theory",
       "docs/model.md; arXiv 2405.15926", declare_paths_prune, describe_paths_prune, make_paths_prune,
       "paths"},
      {"pruning", "paths",
       "silences attention heads of trained Transformers, one after another, by the theory of attention "
       "paths "
       "and by usual rules",
       "docs/model.md; arXiv 2405.15926; arXiv 1905.10650", declare_pruning, describe_pruning, make_pruning},
      {"scaling", "scaling", "times the steps of evolve or train by phase, on any number of ranks",
       "docs/performance.md", declare_scaling, describe_scaling, make_scaling},
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
