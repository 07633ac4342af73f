#include "io/schema_comparisons.hpp"

namespace fluxformer {
namespace {

constexpr SchemaEntry entries[] = {
    {"/seed", "seed", "", "seed of the models that are compared"},
    {"/<model>_depth", "<model>_depth", "layer", "depth of the states of a model; 0 is the embedded input"},
    {"/analysis/<experiment>@samples", "", "", "test samples that were looked at"},
    {"/analysis/<experiment>/<model>@files", "", "", "model file of each seed"},
    {"/analysis/<experiment>/<model>@parameters", "", "", "numbers in each model"},
    {"/analysis/<experiment>/<model>@trained", "", "", "how each model came by its weights"},
    {"/analysis/<experiment>/<model>@norm", "", "", "pre, post, sphere or none"},
    {"/analysis/<experiment>/<model>@knots", "", "", "parameter sets"},
    {"/analysis/<experiment>/<model>/seconds", "seed", "s", "wall time that this model took"},

    // information_flow
    {"/layer_end", "layer_end", "layer", "depth at which layers end; 0 is the embedded input"},
    {"/example", "example", "", "sample that is shown, its index in the test split"},
    {"/analysis/information_flow@tokens_x", "", "", "columns of the token lattice"},
    {"/analysis/information_flow@tokens_y", "", "", "rows of the token lattice"},
    {"/analysis/information_flow@example_labels", "", "", "class of each example"},
    {"/analysis/information_flow/<model>/norm", "seed, <model>_depth", "",
     "norm of the hidden state (root mean square)"},
    {"/analysis/information_flow/<model>/token_variance", "seed, <model>_depth", "",
     "mean square distance to the token mean"},
    {"/analysis/information_flow/<model>/dirichlet_energy", "seed, <model>_depth", "",
     "Dirichlet energy over the tokens"},
    {"/analysis/information_flow/<model>/correlation", "seed, layer_end", "",
     "Pearson correlation of the state with that one layer before, mean over samples"},
    {"/analysis/information_flow/<model>/drift", "seed, layer_end", "",
     "1 - cos of the state and the embedded input, mean over samples"},
    {"/analysis/information_flow/<model>/step_change", "seed, layer_end", "",
     "norm of the change over a layer over the norm before it, mean over samples"},
    {"/analysis/information_flow/<model>/example_norm", "seed, example, <model>_depth, token", "",
     "norm of the state of each token (root mean square over channels); NaN for padding"},
    {"/analysis/information_flow/<model>/accuracy", "seed", "",
     "share of the samples that is classified correctly"},
    {"/analysis/information_flow/<model>/cka", "seed, transformer_depth, <model>_depth", "",
     "linear CKA of the Transformer's states with those of the PDE model"},
    {"/analysis/information_flow/<model>/cka_unrelated", "seed, transformer_depth, <model>_depth", "",
     "the same for samples paired at random"},
    // attention
    {"/analysis/attention/<model>/cosine", "seed, layer", "",
     "cosine of attention rows with the Transformer's, mean over queries, samples and matched heads"},
    {"/analysis/attention/<model>/cosine_uniform", "seed, layer", "",
     "the same of uniform rows with the Transformer's"},
    {"/analysis/attention/<model>/cosine_permuted", "seed, layer", "",
     "the same of the Transformer's rows with themselves, keys permuted"},
    {"/analysis/attention/<model>/cosine_untrained", "seed, layer", "",
     "the same of an untrained PDE model with the Transformer"},
    {"/analysis/attention/<model>/kl", "seed, layer", "nat",
     "KL(Transformer || PDE model) of attention rows"},
    {"/analysis/attention/<model>/kl_uniform", "seed, layer", "nat",
     "the same of uniform rows with the Transformer's"},
    {"/analysis/attention/<model>/kl_permuted", "seed, layer", "nat",
     "the same of the Transformer's rows with themselves, keys permuted"},
    {"/analysis/attention/<model>/kl_untrained", "seed, layer", "nat",
     "the same of an untrained PDE model with the Transformer"},
    {"/analysis/attention/<model>/js", "seed, layer", "nat", "Jensen-Shannon divergence of attention rows"},
    {"/analysis/attention/<model>/js_uniform", "seed, layer", "nat",
     "the same of uniform rows with the Transformer's"},
    {"/analysis/attention/<model>/js_permuted", "seed, layer", "nat",
     "the same of the Transformer's rows with themselves, keys permuted"},
    {"/analysis/attention/<model>/js_untrained", "seed, layer", "nat",
     "the same of an untrained PDE model with the Transformer"},
    {"/analysis/attention/<model>/tv", "seed, layer", "", "total variation between attention rows"},
    {"/analysis/attention/<model>/tv_uniform", "seed, layer", "",
     "the same of uniform rows with the Transformer's"},
    {"/analysis/attention/<model>/tv_permuted", "seed, layer", "",
     "the same of the Transformer's rows with themselves, keys permuted"},
    {"/analysis/attention/<model>/tv_untrained", "seed, layer", "",
     "the same of an untrained PDE model with the Transformer"},
    {"/analysis/attention/<model>/centred", "seed, layer", "",
     "cosine of attention rows minus 1/n with the Transformer's; 0 where a row is uniform"},
    {"/analysis/attention/<model>/centred_uniform", "seed, layer", "",
     "the same of uniform rows with the Transformer's"},
    {"/analysis/attention/<model>/centred_permuted", "seed, layer", "",
     "the same of the Transformer's rows with themselves, keys permuted"},
    {"/analysis/attention/<model>/centred_untrained", "seed, layer", "",
     "the same of an untrained PDE model with the Transformer"},
    {"/analysis/attention/<model>/centred_heads", "seed, layer, head", "",
     "the centred cosine of each of the Transformer's heads with its match"},
    {"/analysis/attention/<model>/matched_head", "seed, layer, head", "",
     "head of the PDE model that stands for this one; -1: none"},
    {"/analysis/attention/<model>/entropy_transformer", "seed, layer, head", "",
     "mean entropy of the Transformer's rows over log n"},
    {"/analysis/attention/<model>/entropy", "seed, layer, head", "",
     "mean entropy of the matched head's rows over log n"},
    {"/analysis/attention/<model>/flat_rows", "seed, layer, head", "",
     "rows that were uniform, so that the centred cosine counts as 0"},
    {"/analysis/attention/<model>/scored_samples", "seed, layer", "", "samples with at least 2 tokens"},
    {"/analysis/attention/<model>/map", "seed, layer, query, key", "",
     "attention of the first sample, mean over the heads"},
};

}  // namespace

std::span<const SchemaEntry> comparison_schema() {
  return entries;
}

std::string names::comparison(std::string_view experiment, std::string_view model) {
  return in(in(analysis, experiment), model);
}

std::string names::model_depth(std::string_view model) {
  return std::string(model) + "_depth";
}

const SchemaEntry& comparison_entry(std::string_view experiment, std::string_view measure) {
  const bool common = measure == names::seconds;
  return schema_entry(names::in(names::comparison(common ? "<experiment>" : experiment, "<model>"), measure));
}

}  // namespace fluxformer
