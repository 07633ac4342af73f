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
