#include "drivers/common/model_options.hpp"

#include <utility>

#include "drivers/common/run_options.hpp"

namespace fluxformer {
namespace {

/// Declares a key that a model file decides.
void declare_of_model(Options& options, Option option) {
  option.role = Role::model;
  options.declare(std::move(option));
}

void declare_mesh(Options& options) {
  const auto declare = [&](Option option) { options.declare(std::move(option)); };
  declare_of_model(options, {.name = "mesh.layers",
                             .fallback = 12L,
                             .doc = "number of layers, which is also the depth S of the domain",
                             .minimum = 1});
  declare({.name = "mesh.cells",
           .fallback = 0L,
           .doc = "number of depth cells M, a multiple of mesh.layers if weights are constant in each layer; "
                  "0: as in the training of model.file, otherwise one per layer",
           .minimum = 0});
  declare({.name = "mesh.tokens_x",
           .fallback = 0L,
           .doc = "number of token columns if the data do not set it; 0: as in the data, otherwise 1",
           .minimum = 0});
  declare(
      {.name = "mesh.tokens_y",
       .fallback = 0L,
       .doc = "number of token rows (1: a line) if the data do not set it; 0: as in the data, otherwise 1",
       .minimum = 0});
  declare({.name = "mesh.ranks_depth",
           .fallback = 0L,
           .doc = "MPI ranks along depth; 0: evolve chooses for the least communication, train takes 1",
           .minimum = 0,
           .role = Role::free});
  declare({.name = "mesh.ranks_token",
           .fallback = 0L,
           .doc = "MPI ranks over tokens; 0: evolve chooses for the least communication, train takes 1",
           .minimum = 0,
           .role = Role::free});
  declare({.name = "mesh.periodic",
           .fallback = false,
           .doc = "make the token lattice periodic; otherwise there is no flux across its boundary"});
}

void declare_equation(Options& options) {
  const auto declare = [&](Option option) { options.declare(std::move(option)); };
  declare({.name = "equation.c",
           .fallback = 1.0,
           .doc = "speed of transport through depth",
           .unit = "layers/time",
           .minimum = 0});
  declare({.name = "equation.epsilon",
           .fallback = 0.0,
           .doc = "diffusion in depth",
           .unit = "layers^2/time",
           .minimum = 0});
  declare_of_model(options, {.name = "equation.kappa",
                             .fallback = 0.0,
                             .doc = "diffusion over tokens; if given, it overrides model.file",
                             .unit = "token spacings^2/time",
                             .minimum = 0});
  declare_of_model(options, {.name = "equation.alpha",
                             .fallback = 1.0,
                             .doc = "strength of attention; if given, it overrides model.file",
                             .unit = "1/time"});
  declare_of_model(
      options, {.name = "equation.rho",
                .fallback = 1.0,
                .doc = "strength of the reaction (feed-forward network); if given, it overrides model.file",
                .unit = "1/time"});
}

void declare_depth(Options& options) {
  const auto declare = [&](Option option) { options.declare(std::move(option)); };
  declare({.name = "depth.scheme",
           .fallback = std::string("shift"),
           .doc = "how depth is discretised: shift applies the layer map of a Transformer to the cell "
                  "upstream, upwind and upwind2 are one-sided differences of order 1 and 2",
           .choices = {"shift", "upwind", "upwind2"}});
  declare_of_model(options,
                   {.name = "depth.order",
                    .fallback = std::string("sequential"),
                    .doc = "order of the sub-layers of a layer: attention then reaction, both at once, or "
                           "half a reaction before and after attention",
                    .choices = {"sequential", "parallel", "macaron"}});
  declare_of_model(
      options,
      {.name = "depth.norm",
       .fallback = std::string("pre"),
       .doc = "normalisation: LayerNorm before each sub-layer, LayerNorm after it, projection to the "
              "unit sphere after it, or none",
       .choices = {"pre", "post", "sphere", "none"}});
  declare_of_model(options,
                   {.name = "depth.residual",
                    .fallback = true,
                    .doc = "each sub-layer adds to the state; false: it replaces the state (an ablation)"});
  declare_of_model(
      options, {.name = "depth.weights",
                .fallback = std::string("auto"),
                .doc = "weights over depth: one set per layer, or linear between knots; auto: constant for a "
                       "transformer, linear for a pde",
                .choices = {"auto", "constant", "linear"}});
  declare_of_model(options,
                   {.name = "depth.halves",
                    .fallback = std::string("shared"),
                    .doc = "macaron: the two half steps of the reaction share weights or have their own",
                    .choices = {"shared", "own"},
                    .when = When{"depth.order", "macaron"}});
  declare_of_model(
      options, {.name = "depth.subflow",
                .fallback = std::string("euler"),
                .doc = "how a sub-layer advances over its step: forward Euler as in a Transformer, or the "
                       "explicit midpoint rule",
                .choices = {"euler", "midpoint"}});
}

void declare_attention_term(Options& options) {
  declare_of_model(options, {.name = "attention.heads",
                             .fallback = 4L,
                             .doc = "attention heads; must divide model.width",
                             .minimum = 1});
  declare_of_model(
      options,
      {.name = "attention.kernel",
       .fallback = std::string("dot"),
       .doc = "attention kernel: scaled dot product of query and key, or a Gaussian of their distance",
       .choices = {"dot", "l2"}});
  declare_of_model(
      options,
      {.name = "attention.normalisation",
       .fallback = std::string("softmax"),
       .doc = "attention weights sum to 1 over each row, or over each row and column (doubly stochastic); "
              "linear: they are the logits themselves (kernel dot)",
       .choices = {"softmax", "sinkhorn", "linear"}});
  declare_of_model(options,
                   {.name = "attention.iterations",
                    .fallback = 20L,
                    .doc = "sinkhorn: number of half-steps; odd ones normalise rows, even ones columns",
                    .minimum = 1,
                    .when = When{"attention.normalisation", "sinkhorn"}});
  declare_of_model(options, {.name = "attention.causal",
                             .fallback = false,
                             .doc = "causal mask: a token attends only to itself and earlier tokens"});
}

void declare_model_sizes(Options& options) {
  declare_of_model(
      options,
      {.name = "model.kind",
       .fallback = std::string("transformer"),
       .doc = "transformer: each layer has its own weights; pde: weights are linear in depth between knots",
       .choices = {"transformer", "pde"}});
  declare_of_model(options, {.name = "model.width",
                             .fallback = 64L,
                             .doc = "width d of the hidden state",
                             .unit = "channels",
                             .minimum = 1});
  declare_of_model(options, {.name = "model.ffn",
                             .fallback = 256L,
                             .doc = "hidden width of the feed-forward network",
                             .unit = "channels",
                             .minimum = 1});
  declare_of_model(options, {.name = "model.activation",
                             .fallback = std::string("gelu_erf"),
                             .doc = "activation of the feed-forward network",
                             .choices = {"gelu_erf", "gelu_tanh", "relu"}});
  declare_of_model(options, {.name = "model.knots",
                             .fallback = 0L,
                             .doc = "number K of depth knots of linear weights; 0: one per layer",
                             .minimum = 0});
  declare_of_model(options, {.name = "model.kappa",
                             .fallback = std::string("scalar"),
                             .doc = "token diffusion: one kappa for all channels, or one per channel",
                             .choices = {"scalar", "channel"}});
}

void declare_initial_weights(Options& options) {
  const auto declare = [&](Option option) { options.declare(std::move(option)); };
  declare({.name = "model.file",
           .fallback = std::string(),
           .doc = "HDF5 file to read the weights from, written by the import command or by an earlier run; "
                  "empty: initialise"});
  declare({.name = "model.initial",
           .fallback = std::string("standard"),
           .doc = "weights without model.file: Xavier-uniform, or scaled identities (interacting particles)",
           .choices = {"standard", "identity"}});
  declare({.name = "model.beta",
           .fallback = 1.0,
           .doc = "identity weights: inverse temperature, the logits are beta q.k",
           .minimum = 0,
           .when = When{"model.initial", "identity"}});
  declare({.name = "model.value",
           .fallback = 1.0,
           .doc = "identity weights: factor of the identity in W_V",
           .when = When{"model.initial", "identity"}});
  declare({.name = "model.seed", .fallback = 1L, .doc = "seed of the initial weights", .minimum = 0});
}

}  // namespace

void declare_model_options(Options& options) {
  declare_mesh(options);
  declare_equation(options);
  declare_depth(options);
  declare_attention_term(options);
  declare_model_sizes(options);
  declare_initial_weights(options);
  options.declare(precision_option());
}

void leave_model_to_file(Settings& settings) {
  if (settings.options()->find("model.file") == nullptr || settings.word("model.file").empty()) return;
  for (const Option& option : settings.options()->all())
    if (option.role == Role::model) settings.leave_to_file(option.name);
}

}  // namespace fluxformer
