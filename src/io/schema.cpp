#include "io/schema.hpp"

#include <iterator>
#include <stdexcept>
#include <vector>

#include "io/schema_ablation.hpp"
#include "io/schema_comparisons.hpp"
#include "io/schema_gradient_flow.hpp"
#include "io/schema_perturbation.hpp"
#include "io/schema_scaling.hpp"

namespace fluxformer {

namespace {

constexpr SchemaEntry entries[] = {
    {"/@schema_version", "", "", "version of this format"},
    {"/@experiment", "", "", "name of the experiment"},
    {"/@created", "", "", "when the run began, ISO 8601, UTC"},
    {"/@git_revision", "", "", "revision of the source"},
    {"/@git_dirty", "", "", "true if the source differed from that revision"},
    {"/@command_line", "", "", "how the program was called"},
    {"/@deck", "", "", "the input deck, verbatim"},
    {"/@settings", "", "", "every setting as resolved, as a deck that repeats the run"},
    {"/@seed", "", "", "seed of all random streams"},
    {"/@ranks", "", "", "number of MPI ranks"},
    {"/@compiler", "", "", "compiler and version"},
    {"/@petsc", "", "", "version of PETSc"},
    {"/@petsc_options", "", "", "PETSC_OPTIONS of the environment, if it is set"},
    {"/@hdf5", "", "", "version of HDF5"},
    {"/@mpi", "", "", "version of MPI"},
    {"/@blas", "", "", "matrix product library and kernel in use"},
    {"/@host", "", "", "machine of rank 0"},
    {"/@cites", "", "", "sources whose numbers or methods the run uses"},
    {"/@status", "", "", "running, done, failed or interrupted"},
    {"/@message", "", "", "why the status is not done"},
    {"<dataset>@unit", "", "", "unit of the numbers; 1 for a pure number"},
    {"<dataset>@long_name", "", "", "what the numbers are"},
    {"/depth", "depth", "layer", "depth of the cells"},
    {"/token", "token", "", "token index, y * tokens_x + x"},
    {"/token_x", "token", "", "column of each token in the lattice"},
    {"/token_y", "token", "", "row of each token in the lattice"},
    {"/stored_depth", "stored_depth", "layer", "depth of the stored rows where not all are stored"},
    {"/time", "time", "time", "propagation time of the stored states"},
    {"/step", "step", "", "time step, or step of a training"},
    {"/epoch", "epoch", "", "epoch of a training, counted from 1"},
    {"/sample", "sample", "", "sample of the batch"},
    {"/channel", "channel", "", "channel of the hidden state"},
    {"/layer", "layer", "", "layer, counted from 1"},
    {"/head", "head", "", "attention head"},
    {"/query", "query", "", "token that looks"},
    {"/key", "key", "", "token that is looked at"},
    {"/extent_<n>", "extent_<n>", "",
     "dimension of length n without a coordinate (extent_<n>_2: its second use)"},
    {"/field/u", "time, depth, token, sample, channel", "", "hidden state"},
    {"/field/u@tokens_x", "", "", "columns of the token lattice (of every field)"},
    {"/field/u@tokens_y", "", "", "rows of the token lattice (of every field)"},
    {"/history/time", "step", "time", "propagation time at the end of the step"},
    {"/history/step_size", "step", "time", "length of the step"},
    {"/history/cfl", "step", "", "Courant number c dt/h"},
    {"/history/wall_time", "step", "s", "wall time since the program (or its restart) began"},
    {"/history/norm", "step, depth", "", "norm of the hidden state (root mean square)"},
    {"/history/rate", "step, depth", "1/time", "norm of its rate of change (root mean square)"},
    {"/history/distance", "step, depth", "", "distance to the steady state over the steady state's norm"},
    {"/history/token_variance", "step, depth", "", "mean square distance to the token mean"},
    {"/history/dirichlet_energy", "step, depth", "", "Dirichlet energy over the tokens"},
    {"/history/flux", "step, depth", "1/time", "flux through depth, c <u> - epsilon d<u>/ds"},
    {"/analysis/evolve/arrival_time", "depth", "time", "arrival of the front; NaN where it has not arrived"},
    {"/analysis/evolve/attention_entropy", "depth, head", "",
     "mean entropy of the attention rows over log n"},
    {"/attention/weights", "layer, sample, head, query, key", "", "attention weights"},
    {"/training@samples", "", "", "samples that are trained on"},
    {"/training@validation_samples", "", "", "samples held back for validation"},
    {"/training@test_samples", "", "", "samples of the test set"},
    {"/training@trained_parameters", "", "", "numbers that the optimiser changes"},
    {"/training@baseline_accuracy", "", "", "test accuracy of a naive Bayes classifier (text only)"},
    {"/training/loss", "step", "", "mean cross entropy of the batch, before the step"},
    {"/training/depth_loss", "step", "",
     "loss between hidden states and given ones, layer by layer (distillation), before the step"},
    {"/training/penalty", "step", "", "penalty on how fast the weights change with depth, before the step"},
    {"/training/batch_accuracy", "step", "",
     "share of the batch that is classified correctly, before the step"},
    {"/training/gradient_norm", "step", "", "Euclidean norm of the gradient, before it is clipped"},
    {"/training/learning_rate", "step", "", "learning rate of the step"},
    {"/training/samples_per_second", "step", "1/s", "samples per second of wall time"},
    {"/training/train_loss", "epoch", "", "mean loss over the batches of the epoch, each before its step"},
    {"/training/train_accuracy", "epoch", "",
     "mean accuracy over the batches of the epoch, each before its step"},
    {"/training/validation_loss", "epoch", "", "mean loss over the validation samples, after the epoch"},
    {"/training/validation_accuracy", "epoch", "",
     "share of the validation samples that is classified correctly, after the epoch"},
    {"/training/test_loss", "epoch", "", "mean loss over the test samples, after the epoch"},
    {"/training/test_accuracy", "epoch", "",
     "share of the test samples that is classified correctly, after the epoch"},
    {"/training/wall_time", "epoch", "s", "wall time since the training (or its restart) began"},
    {"/timing/<phase>", "extent_3", "s", "wall time: least, mean and greatest over the ranks"},
    {"/timing@statistics", "", "", "what the three numbers of each phase are"},
    {"/model@kind", "", "", "transformer or pde"},
    {"/model@weights", "", "", "constant (one set per layer) or linear (between depth knots)"},
    {"/model@layers", "", "", "number of layers S"},
    {"/model@knots", "", "", "number of parameter sets: S, or depth knots K"},
    {"/model@cells", "", "", "depth cells the weights were trained on; 0: not known"},
    {"/model@width", "", "", "channels d"},
    {"/model@heads", "", "", "attention heads"},
    {"/model@ffn", "", "", "hidden width of the feed-forward network"},
    {"/model@activation", "", "", "gelu_erf, gelu_tanh or relu"},
    {"/model@norm", "", "", "pre, post, sphere or none"},
    {"/model@order", "", "", "sequential, parallel or macaron"},
    {"/model@residual", "", "", "on or off"},
    {"/model@causal", "", "", "on: a token sees itself and earlier ones only; or off"},
    {"/model@subflow", "", "", "euler or midpoint"},
    {"/model@kernel", "", "", "dot or l2"},
    {"/model@normalisation", "", "", "softmax or sinkhorn"},
    {"/model@iterations", "", "", "Sinkhorn half-steps"},
    {"/model/layers/<l>/W_Q", "d, d", "", "query weights; l counts layers (or knots) from 1"},
    {"/model/layers/<l>/b_Q", "d", "", "query bias"},
    {"/model/layers/<l>/W_K", "d, d", "", "key weights"},
    {"/model/layers/<l>/b_K", "d", "", "key bias"},
    {"/model/layers/<l>/W_V", "d, d", "", "value weights"},
    {"/model/layers/<l>/b_V", "d", "", "value bias"},
    {"/model/layers/<l>/W_O", "d, d", "", "output weights"},
    {"/model/layers/<l>/b_O", "d", "", "output bias"},
    {"/model/layers/<l>/W_1", "ffn, d", "", "feed-forward weights, first"},
    {"/model/layers/<l>/b_1", "ffn", "", "feed-forward bias, first"},
    {"/model/layers/<l>/W_2", "d, ffn", "", "feed-forward weights, second"},
    {"/model/layers/<l>/b_2", "d", "", "feed-forward bias, second"},
    {"/model/layers/<l>/norm1_gain", "d", "", "gain of the LayerNorm of attention"},
    {"/model/layers/<l>/norm1_bias", "d", "", "bias of the LayerNorm of attention"},
    {"/model/layers/<l>/norm2_gain", "d", "", "gain of the LayerNorm of the reaction"},
    {"/model/layers/<l>/norm2_bias", "d", "", "bias of the LayerNorm of the reaction"},
    {"/model/layers/<l>/half_<name>", "", "",
     "macaron: the same of the first reaction half step, if it has its own"},
    {"/model/layers/<l>/kappa", "1 or d", "", "token diffusion"},
    {"/model/embedding/W", "d, inputs", "", "embedding weights"},
    {"/model/embedding/b", "d", "", "embedding bias"},
    {"/model/embedding/words", "V, d", "", "word vectors, for tokens that are words"},
    {"/model/embedding/vocabulary", "V", "", "the words, in the order of their vectors"},
    {"/model/embedding/position", "n, d", "", "learned positions"},
    {"/model/final_norm/gain", "d", "", "gain of the final LayerNorm"},
    {"/model/final_norm/bias", "d", "", "bias of the final LayerNorm"},
    {"/model/head/W", "classes, d", "", "weights of the classifier"},
    {"/model/head/b", "classes", "", "bias of the classifier"},
    {"/model/equation/alpha", "1", "1/time", "strength of attention"},
    {"/model/equation/rho", "1", "1/time", "strength of the reaction"},
    {"/state/<name>", "any", "",
     "checkpoint: what shapes the next step (fields: [cell, token, sample, channel])"},
    {"/state@<name>", "", "", "checkpoint: numbers and words that shape the next step"},
    {"/state@complete", "", "", "checkpoint: 1, written after everything else"},
};

std::string with_suffix(const std::string& output, const std::string& suffix) {
  const std::string usual = ".h5";
  const bool has = output.size() > usual.size() && output.ends_with(usual);
  return (has ? output.substr(0, output.size() - usual.size()) : output) + suffix;
}

}  // namespace

std::span<const SchemaEntry> schema() {
  static const std::vector<SchemaEntry> all = [] {
    std::vector<SchemaEntry> list(std::begin(entries), std::end(entries));
    for (const auto& more : {comparison_schema(), ablation_schema(), perturbation_schema(),
                             gradient_flow_schema(), scaling_schema()})
      list.insert(list.end(), more.begin(), more.end());
    return list;
  }();
  return all;
}

const SchemaEntry& schema_entry(std::string_view name) {
  for (const SchemaEntry& entry : schema())
    if (entry.name == name) return entry;
  throw std::logic_error("the format has no " + std::string(name));
}

io::Meaning meaning_of(std::string_view path) {
  const auto& entry = schema_entry(path);
  return {std::string(entry.unit), std::string(entry.doc)};
}

std::string schema_table() {
  std::string table = "| name | dimensions | unit | meaning |\n| --- | --- | --- | --- |\n";
  for (const SchemaEntry& entry : schema()) {
    table += "| `" + std::string(entry.name) + "` | " + std::string(entry.dimensions);
    table += " | " + std::string(entry.unit) + " | " + std::string(entry.doc) + " |\n";
  }
  return table;
}

std::string names::anonymous_axis(std::size_t size, std::size_t use) {
  std::string name = "extent_" + std::to_string(size);
  return use == 1 ? name : name + "_" + std::to_string(use);
}

std::string names::model_layer(int l) {
  return "/model/layers/" + std::to_string(l);
}

std::string checkpoint_path(const std::string& output) {
  return with_suffix(output, ".checkpoint.h5");
}
std::string previous_checkpoint_path(const std::string& output) {
  return with_suffix(output, ".checkpoint.previous.h5");
}
std::string side_car_path(const std::string& output) {
  return with_suffix(output, ".xdmf");
}
std::string history_path(const std::string& output) {
  return with_suffix(output, ".history.h5");
}
std::string weights_path(const std::string& output, const std::string& what) {
  return with_suffix(output, "." + what + ".h5");
}

}  // namespace fluxformer
