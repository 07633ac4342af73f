#include "drivers/train/train_options.hpp"

#include <algorithm>
#include <string>

#include "base/error.hpp"
#include "drivers/common/run_options.hpp"

namespace fluxformer {
namespace {

void declare_objective(Options& options) {
  options.declare(
      "train.objective", "classes",
      "what the model learns: the classes of samples, or words, which a word head guesses: masked "
      "ones, or (causal) each next one from those before it, for which attention.causal is needed",
      {.choices = {"classes", "masked", "causal"}});
  options.declare(
      "train.masked", 0.15,
      "fraction of the words of a text that are to be guessed: 80 % of them are replaced by <mask>, 10 % by "
      "a random word",
      {.minimum = 0, .maximum = 1, .above_minimum = true, .when = When{"train.objective", "masked"}});
  options.declare("train.contexts", "text",
                  "what a sample of next words is: a text, cut at data.length, or (packed) data.length "
                  "tokens of texts that are "
                  "not cut and joined by <eos>, of which a sample shares one with the next",
                  {.choices = {"text", "packed"}, .when = When{"train.objective", "causal"}});
  options.declare("train.word_matrix", "tied",
                  "output matrix of a new word head: the word table of the embedding, or a matrix of its own",
                  {.choices = {"tied", "own"}, .when = When{"train.objective", {"masked", "causal"}}});
  options.declare("evaluate.stride", 0L,
                  "packed: validation and test samples begin at every so many tokens, and each guesses the "
                  "words that the one "
                  "before did not reach, from data.length - evaluate.stride words before it or more. Costs "
                  "(data.length - 1) / "
                  "evaluate.stride times as much; at most data.length - 1, which is what 0 means",
                  {.unit = "tokens", .minimum = 0, .when = When{"train.contexts", "packed"}});
}

void declare_regularisation(Options& options) {
  options.declare("train.dropout", 0.0, "dropout rate after the embedding and in each branch of a layer",
                  {.minimum = 0, .maximum = 0.9});
  options.declare(
      "train.augment", 0.0,
      "strength of data augmentation: images are rotated, sheared, stretched and shifted (1: by up to 15 "
      "degrees, 15 % and 2.5 pixels); this fraction of the words of a text becomes <unk>",
      {.minimum = 0, .maximum = 1});
  options.declare("train.noise", 0.0,
                  "standard deviation of normal noise on the features of images, drawn anew each time",
                  {.unit = "features", .minimum = 0});
  options.declare("distill.teacher", "",
                  "HDF5 file of the teacher, a trained transformer whose states or attention the model "
                  "learns to match; empty: none");
  options.declare(
      "distill.hidden", 0.0,
      "weight of the relative squared distance |u - U|^2 / |U|^2 to the teacher's states after each layer",
      {.minimum = 0, .when = When{"distill.teacher"}});
  options.declare("distill.attention", 0.0,
                  "weight of the Kullback-Leibler divergence from the teacher's attention in each layer",
                  {.minimum = 0, .when = When{"distill.teacher"}});
  options.declare("distill.copy", true,
                  "start the model with the teacher's embedding, final norm and head where sizes agree",
                  {.when = When{"distill.teacher"}});
}

void declare_descent(Options& options) {
  options.declare("train.epochs", 10L, "passes over the training samples", {.minimum = 1});
  options.declare("train.batch", 32L, "samples per step, over all ranks", {.unit = "samples", .minimum = 1});
  options.declare("train.samples", 0L,
                  "number of training samples used, including those for validation; 0: all", {.minimum = 0});
  options.declare("train.validation", 0.05,
                  "fraction of the training samples held out for validation, chosen by run.seed",
                  {.minimum = 0, .maximum = 0.5});
  options.declare("train.test_samples", 0L, "test samples evaluated after each epoch; 0: all",
                  {.minimum = 0});
  options.declare("train.optimiser", "adamw",
                  "gradient descent with momentum, Adam, or Adam with decoupled weight decay",
                  {.choices = {"sgd", "adam", "adamw"}});
  options.declare("train.rate", 1e-3, "peak learning rate", {.minimum = 0, .above_minimum = true});
  options.declare("train.warm_up", 0.05,
                  "fraction of all steps over which the learning rate warms up to train.rate",
                  {.minimum = 0, .maximum = 1});
  options.declare("train.schedule", "cosine",
                  "learning rate after the warm-up: constant, a half cosine down to train.last_rate, or "
                  "divided by ten after half and after three quarters of all steps",
                  {.choices = {"constant", "cosine", "steps"}});
  options.declare("train.last_rate", 0.0, "cosine: learning rate at the end, relative to train.rate",
                  {.minimum = 0, .maximum = 1, .when = When{"train.schedule", "cosine"}});
  options.declare("train.momentum", 0.9, "sgd: momentum",
                  {.minimum = 0, .maximum = 1, .when = When{"train.optimiser", "sgd"}});
  options.declare("train.beta1", 0.9, "adam, adamw: decay rate of the running mean of the gradient",
                  {.minimum = 0, .maximum = 0.9999999, .when = When{"train.optimiser", {"adam", "adamw"}}});
  options.declare("train.beta2", 0.999, "adam, adamw: decay rate of the running mean of the squared gradient",
                  {.minimum = 0, .maximum = 0.9999999, .when = When{"train.optimiser", {"adam", "adamw"}}});
  options.declare("train.epsilon", 1e-8, "adam, adamw: small number that keeps the denominator from 0",
                  {.minimum = 0, .above_minimum = true, .when = When{"train.optimiser", {"adam", "adamw"}}});
  options.declare(
      "train.decay", 0.01,
      "weight decay of the matrices; biases, LayerNorm, positions and coefficients are not decayed",
      {.minimum = 0});
  options.declare("train.clip", 1.0, "gradients are clipped to this norm; 0: no clipping", {.minimum = 0});
}

void declare_gradient(Options& options) {
  options.declare(
      "train.gradient", "backprop",
      "back-propagation through the layer maps, or PETSc's discrete adjoint of the march through depth",
      {.choices = {"backprop", "adjoint"}});
  options.declare(
      "adjoint.method", AdjointSettings::layer_map_name,
      "march through depth: 1fe is forward Euler on the layer map (with one cell per layer a Transformer), "
      "the other Runge-Kutta methods by PETSc's name and implicit ones solve c du/ds = F(u)",
      {.choices = {AdjointSettings::layer_map_name, "2a", "2b", "3", "3bs", "4", "5f", "5dp", "5bs", "6vr",
                   "7vr", "8vr", "beuler", "cn", "theta"},
       .when = When{"train.gradient", "adjoint"}});
  options.declare(
      "adjoint.theta", 0.5,
      "theta method: position of the stage within the step; 1/2 is second order, 1 is backward Euler",
      {.minimum = 0,
       .maximum = 1,
       .above_minimum = true,
       .when = When{"train.gradient", "adjoint"} && When{"adjoint.method", "theta"}});
  options.declare(
      "adjoint.keep", "stages",
      "what is stored for the backward march: stages: the states of all stages; tapes: their activations as "
      "well, so that nothing is evaluated again (explicit methods whose steps share no stage); segments, "
      "disk: the state every adjoint.segment cells, in memory or on disk, with the rest recomputed",
      {.choices = {"stages", "tapes", "segments", "disk"}, .when = When{"train.gradient", "adjoint"}});
  options.declare(
      "adjoint.folder", "", "folder for the states on disk; empty: the system's temporary folder",
      {.when = When{"train.gradient", "adjoint"} && When{"adjoint.keep", "disk"}, .role = Role::free});
  options.declare(
      "adjoint.segment", 0L,
      "depth cells between stored states; 0: sqrt(cells / 8), which needs the least memory for 1fe",
      {.unit = "cells",
       .minimum = 0,
       .when = When{"train.gradient", "adjoint"} && When{"adjoint.keep", {"segments", "disk"}}});
}

void declare_meshes(Options& options) {
  options.declare(
      "train.cells", std::vector<long>{},
      "numbers of depth cells: each step draws one of them by run.seed, so that the model does not learn one "
      "mesh; evaluations use mesh.cells. Keeps the activations of all of them. Empty: mesh.cells in each "
      "step",
      {.unit = "cells", .minimum = 1, .maximum = 1e6});
}

void declare_output(Options& options) {
  options.declare(
      output_option("train.h5",
                    "HDF5 file to write at the end; <name>.history.h5 can be read during training, "
                    "<name>.best.h5 holds the best weights by validation accuracy"));
  options.declare(overwrite_option());
  options.declare(trust_files_option());
  options.declare("output.snapshots", 0L,
                  "epochs between weight snapshots <name>.epoch<k>.h5 (k = 0: the initial weights); 0: none",
                  {.unit = "epochs", .minimum = 0, .role = Role::output});
  options.declare("output.preconditioner", false,
                  "also store the preconditioner of adam or adamw in weight snapshots: as large as the "
                  "model, gathered by rank 0; hessian.epochs then analyses the preconditioned Hessian",
                  {.when = When{"output.snapshots", Not{0L}}, .role = Role::output});
  options.declare(
      "train.report_depth", true,
      "pde: say at the end how the loss of at most 64 test samples changes on 2, 4 and 8 times as "
      "many depth cells; takes at most 3 % of the training's work",
      {.role = Role::free});
  options.declare(
      seed_option("seed of the built-in data, the order of samples, the validation split and random masks"));
  options.declare(time_limit_option());
  options.declare(
      "checkpoint.every", 0L,
      "number of steps between checkpoints, in addition to those at the end of each epoch; 0: none",
      {.unit = "steps", .minimum = 0, .role = Role::output});
  options.declare(
      "checkpoint.epochs", true,
      "write a checkpoint at the end of each epoch; false: only those of checkpoint.every, and when stopped",
      {.role = Role::output});
  options.declare(restart_option());
}

}  // namespace

void declare_training(Options& options) {
  declare_objective(options);
  declare_minimised(options);
  declare_regularisation(options);
  declare_descent(options);
  declare_sharing(options);
  declare_gradient(options);
  declare_meshes(options);
}

void declare_train(Options& options) {
  declare_model_options(options);
  declare_data_options(options);
  declare_training(options);
  declare_output(options);
}

void declare_minimised(Options& options) {
  options.declare("train.loss", "cross_entropy",
                  "loss function: cross entropy, or the mean squared distance of logits to the class",
                  {.choices = {"cross_entropy", "mean_squared_error"}});
  options.declare("train.label_smoothing", 0.0,
                  "label smoothing: fraction of the label that is spread over all classes",
                  {.minimum = 0, .maximum = 0.9});
  options.declare(
      "train.smoothness", 0.0,
      "strength of the penalty on the change of the weights with depth, between knots or from layer to layer",
      {.minimum = 0});
  options.declare("train.coefficients", "auto",
                  "also train kappa and nu (if they start above 0), alpha and rho; auto: for a pde only",
                  {.choices = {"auto", "yes", "no"}});
}

void declare_sharing(Options& options) {
  options.declare(
      "train.micro_batches", 0L,
      "number of parts into which a group of ranks cuts its share of a batch. With stages of depth "
      "(mesh.ranks_depth), one stage works on a part while the others work on others; a rank keeps the "
      "activations of one part for each stage from its own on. 0: 4 for each stage, 1 without stages",
      {.minimum = 0, .role = Role::free});
  options.declare("train.pipeline", "1f1b",
                  "order of the parts in a stage: forward and backward passes in turn, or all forward passes "
                  "first, which keeps the activations of all parts",
                  {.choices = {"1f1b", "gpipe"}, .role = Role::free});
  options.declare(memory_option());
}

namespace {

SamplesPlan samples_plan(const Settings& settings) {
  return {.data = data_plan(settings),
          .tokens_x = settings.count("mesh.tokens_x"),
          .tokens_y = settings.count("mesh.tokens_y"),
          .training = settings.integer("train.samples"),
          .testing = settings.integer("train.test_samples"),
          .validation = settings.real("train.validation"),
          .batch = settings.count("train.batch"),
          .augment = settings.real("train.augment"),
          .noise = settings.real("train.noise"),
          .packed = settings.word("train.contexts") == "packed",
          .stride = settings.count("evaluate.stride")};
}

ObjectivePlan objective_plan(const Settings& settings) {
  using enum ObjectivePlan::Words;
  const auto& objective = settings.word("train.objective");
  const auto words = objective == "masked" ? masked : objective == "causal" ? next : none;
  return {.loss = {loss_kind(settings.word("train.loss")), settings.real("train.label_smoothing"),
                   words == none ? LossTarget::label : LossTarget::words},
          .words = words,
          .masked_share = settings.real("train.masked"),
          .own_word_matrix = settings.word("train.word_matrix") == "own",
          .dropout = settings.real("train.dropout"),
          .teacher = settings.word("distill.teacher"),
          .distillation = {settings.real("distill.hidden"), settings.real("distill.attention")},
          .copy_teacher = settings.flag("distill.copy")};
}

GradientPlan gradient_plan(const Settings& settings, Precision precision) {
  GradientPlan plan;
  plan.adjoint = settings.word("train.gradient") == "adjoint";
  auto& s = plan.settings;
  s.method = settings.word("adjoint.method");
  s.theta = settings.real("adjoint.theta");
  const auto& keep = settings.word("adjoint.keep");
  s.tapes = keep == "tapes";
  s.on_disk = keep == "disk";
  s.folder = settings.word("adjoint.folder");
  s.tolerate_round_off_of(precision);
  plan.segments = keep == "segments" || keep == "disk";
  plan.segment = settings.count("adjoint.segment");
  return plan;
}

TrainerSettings trainer_plan(const Settings& settings) {
  TrainerSettings s;
  s.optimiser = {method_named(settings.word("train.optimiser")),
                 settings.real("train.momentum"),
                 settings.real("train.beta1"),
                 settings.real("train.beta2"),
                 settings.real("train.epsilon"),
                 settings.real("train.decay")};
  s.schedule.peak = settings.real("train.rate");
  s.schedule.decay = decay_named(settings.word("train.schedule"));
  s.schedule.last = settings.real("train.last_rate") * s.schedule.peak;
  s.clip = settings.real("train.clip");
  s.smoothness = settings.real("train.smoothness");
  return s;
}

TrainPlan::Coefficients trained_coefficients(const std::string& word) {
  using enum TrainPlan::Coefficients;
  return word == "yes" ? yes : word == "no" ? no : of_a_pde;
}

std::vector<int> drawn_cells(const Settings& settings) {
  const auto& cells = settings.integers("train.cells");
  return {cells.begin(), cells.end()};
}

/// Throws BadInput for keys that a march through depth does not support.
void refuse_what_training_ignores(const Settings& settings, const TrainPlan& plan) {
  if (plan.gradient.implicit() && is_mixed(plan.precision))
    throw BadInput("adjoint.method = " + plan.gradient.settings.method +
                   ": residuals of implicit methods cannot become smaller than the rounding of "
                   "run.precision = " +
                   settings.word("run.precision") + "; use an explicit method, or single");
  if (plan.samples.data.set.wrong_labels > 0 && plan.objective.words != ObjectivePlan::Words::none)
    throw BadInput("data.wrong_labels = " + value_text(plan.samples.data.set.wrong_labels) +
                   ": train.objective = " + settings.word("train.objective") +
                   " learns words, not labels; leave the key out");
  if (!plan.cells.empty() && !plan.equation.depth.equal())
    throw BadInput("train.cells: draws cells of equal length; leave mesh.edges out");
  if (plan.equation.epsilon > 0)
    throw BadInput(
        "equation.epsilon: training solves the steady state by a march through depth, which cannot handle "
        "diffusion in depth");
  if (plan.equation.scheme != DepthScheme::shift)
    throw BadInput("depth.scheme = " + settings.word("depth.scheme") +
                   ": training marches through depth; leave the key out and choose train.gradient = adjoint "
                   "with adjoint.method");
}

}  // namespace

TrainPlan plan_of_training(const Settings& settings) {
  constexpr double giga = 1e9;
  const auto precision = precision_of(settings);
  TrainPlan plan{.model = model_plan(settings),
                 .equation = equation_plan(settings),
                 .precision = precision,
                 .samples = samples_plan(settings),
                 .objective = objective_plan(settings),
                 .gradient = gradient_plan(settings, precision),
                 .seed = static_cast<std::uint64_t>(settings.integer("run.seed")),
                 .ranks_token = std::max(1, settings.count("mesh.ranks_token")),
                 .ranks_depth = std::max(1, settings.count("mesh.ranks_depth")),
                 .periodic = settings.flag("mesh.periodic"),
                 .pipeline = {.schedule = pipeline_schedule_named(settings.word("train.pipeline")),
                              .micro_batches = settings.count("train.micro_batches")},
                 .memory = giga * settings.real("run.memory"),
                 .epochs = settings.integer("train.epochs"),
                 .cells = drawn_cells(settings),
                 .trainer = trainer_plan(settings),
                 .warm_up = settings.real("train.warm_up"),
                 .coefficients = trained_coefficients(settings.word("train.coefficients"))};
  refuse_what_training_ignores(settings, plan);
  return plan;
}

TrainOutput output_of_train(const Settings& settings) {
  return {.file = settings.word("output.file"),
          .snapshots = settings.integer("output.snapshots"),
          .preconditioner = settings.flag("output.preconditioner"),
          .checkpoints = settings.integer("checkpoint.every"),
          .every_epoch = settings.flag("checkpoint.epochs"),
          .depth_report = settings.flag("train.report_depth")};
}

}  // namespace fluxformer
