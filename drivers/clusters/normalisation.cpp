#include "drivers/clusters/normalisation.hpp"

#include "analysis/clusters/cluster_variables.hpp"

namespace fluxformer {

using clusters::Weights;

void declare_normalisation(Options& options) {
  options.declare(
      "clusters.normalisation", group_of(Weights::softmax),
      "attention: the mean of all tokens weighed by k = e^{beta (cos - 1)}, divided by the mean k "
      "(softmax) or by 1 (unnormalised)",
      {.choices = {group_of(Weights::softmax), group_of(Weights::unnormalised)}});
}

Weights normalisation_of(const Settings& settings) {
  return settings.word("clusters.normalisation") == group_of(Weights::softmax) ? Weights::softmax
                                                                               : Weights::unnormalised;
}

const char* group_of(Weights normalisation) {
  return normalisation == Weights::softmax ? clusters::variables::softmax : clusters::variables::unnormalised;
}

}  // namespace fluxformer
