#include "drivers/train/train_options.hpp"

#include <string>
#include <utility>

#include "drivers/common/data_options.hpp"
#include "drivers/common/model_options.hpp"
#include "drivers/common/run_options.hpp"

namespace fluxformer {
namespace {

void declare_objective(Options& options) {
  const auto declare = [&](Option option) { options.declare(std::move(option)); };
  declare({.name = "train.objective",
           .fallback = std::string("classes"),
           .doc = "what the model learns: the classes of samples, or masked words, which a word head guesses",
           .choices = {"classes", "masked"}});
  declare({.name = "train.masked",
           .fallback = 0.15,
           .doc = "fraction of the words of a text that are to be guessed: 80 % of them are replaced by "
                  "<mask>, 10 % by a random word",
           .minimum = 0,
           .maximum = 1,
           .above_minimum = true,
           .when = When{"train.objective", "masked"}});
  declare({.name = "train.word_matrix",
           .fallback = std::string("tied"),
           .doc = "output matrix of a new word head: the word table of the embedding, or a matrix of its own",
           .choices = {"tied", "own"},
           .when = When{"train.objective", "masked"}});
}

void declare_regularisation(Options& options) {
  const auto declare = [&](Option option) { options.declare(std::move(option)); };
  declare({.name = "train.dropout",
           .fallback = 0.0,
           .doc = "dropout rate after the embedding and in each branch of a layer",
           .minimum = 0,
           .maximum = 0.9});
  declare({.name = "train.augment",
           .fallback = 0.0,
           .doc =
               "strength of data augmentation: images are rotated, sheared, stretched and shifted (1: by up "
               "to 15 degrees, 15 % and 2.5 pixels); this fraction of the words of a text becomes <unk>",
           .minimum = 0,
           .maximum = 1});
  declare({.name = "train.noise",
           .fallback = 0.0,
           .doc = "standard deviation of normal noise on the features of images, drawn anew each time",
           .unit = "features",
           .minimum = 0});
  declare({.name = "distill.teacher",
           .fallback = std::string(),
           .doc = "HDF5 file of the teacher, a trained transformer whose states or attention the model "
                  "learns to match; empty: none"});
  declare({.name = "distill.hidden",
           .fallback = 0.0,
           .doc = "weight of the relative squared distance |u - U|^2 / |U|^2 to the teacher's states after "
                  "each layer",
           .minimum = 0,
           .when = When{"distill.teacher"}});
  declare({.name = "distill.attention",
           .fallback = 0.0,
           .doc = "weight of the Kullback-Leibler divergence from the teacher's attention in each layer",
           .minimum = 0,
           .when = When{"distill.teacher"}});
  declare({.name = "distill.copy",
           .fallback = true,
           .doc = "start the model with the teacher's embedding, final norm and head where sizes agree",
           .when = When{"distill.teacher"}});
}

void declare_descent(Options& options) {
  const auto declare = [&](Option option) { options.declare(std::move(option)); };
  declare({.name = "train.epochs", .fallback = 10L, .doc = "passes over the training samples", .minimum = 1});
  declare({.name = "train.batch",
           .fallback = 32L,
           .doc = "samples per step, over all ranks",
           .unit = "samples",
           .minimum = 1});
  declare({.name = "train.samples",
           .fallback = 0L,
           .doc = "number of training samples used, including those for validation; 0: all",
           .minimum = 0});
  declare({.name = "train.validation",
           .fallback = 0.05,
           .doc = "fraction of the training samples held out for validation, chosen by run.seed",
           .minimum = 0,
           .maximum = 0.5});
  declare({.name = "train.test_samples",
           .fallback = 0L,
           .doc = "test samples evaluated after each epoch; 0: all",
           .minimum = 0});
  declare({.name = "train.optimiser",
           .fallback = std::string("adamw"),
           .doc = "gradient descent with momentum, Adam, or Adam with decoupled weight decay",
           .choices = {"sgd", "adam", "adamw"}});
  declare({.name = "train.rate",
           .fallback = 1e-3,
           .doc = "peak learning rate",
           .minimum = 0,
           .above_minimum = true});
  declare({.name = "train.warm_up",
           .fallback = 0.05,
           .doc = "fraction of all steps over which the learning rate warms up to train.rate",
           .minimum = 0,
           .maximum = 1});
  declare({.name = "train.schedule",
           .fallback = std::string("cosine"),
           .doc = "learning rate after the warm-up: constant, a half cosine down to train.last_rate, or "
                  "divided by ten after half and after three quarters of all steps",
           .choices = {"constant", "cosine", "steps"}});
  declare({.name = "train.last_rate",
           .fallback = 0.0,
           .doc = "cosine: learning rate at the end, relative to train.rate",
           .minimum = 0,
           .maximum = 1,
           .when = When{"train.schedule", "cosine"}});
  declare({.name = "train.momentum",
           .fallback = 0.9,
           .doc = "sgd: momentum",
           .minimum = 0,
           .maximum = 1,
           .when = When{"train.optimiser", "sgd"}});
  declare({.name = "train.beta1",
           .fallback = 0.9,
           .doc = "adam, adamw: decay rate of the running mean of the gradient",
           .minimum = 0,
           .maximum = 0.9999999,
           .when = When{"train.optimiser", {"adam", "adamw"}}});
  declare({.name = "train.beta2",
           .fallback = 0.999,
           .doc = "adam, adamw: decay rate of the running mean of the squared gradient",
           .minimum = 0,
           .maximum = 0.9999999,
           .when = When{"train.optimiser", {"adam", "adamw"}}});
  declare({.name = "train.epsilon",
           .fallback = 1e-8,
           .doc = "adam, adamw: small number that keeps the denominator from 0",
           .minimum = 0,
           .above_minimum = true,
           .when = When{"train.optimiser", {"adam", "adamw"}}});
  declare(
      {.name = "train.decay",
       .fallback = 0.01,
       .doc = "weight decay of the matrices; biases, LayerNorm, positions and coefficients are not decayed",
       .minimum = 0});
  declare({.name = "train.clip",
           .fallback = 1.0,
           .doc = "gradients are clipped to this norm; 0: no clipping",
           .minimum = 0});
}

void declare_gradient(Options& options) {
  const auto declare = [&](Option option) { options.declare(std::move(option)); };
  declare(
      {.name = "train.gradient",
       .fallback = std::string("backprop"),
       .doc =
           "back-propagation through the layer maps, or PETSc's discrete adjoint of the march through depth",
       .choices = {"backprop", "adjoint"}});
  declare({.name = "adjoint.method",
           .fallback = std::string("1fe"),
           .doc = "march through depth: 1fe is forward Euler on the layer map (with one cell per layer a "
                  "Transformer), the other Runge-Kutta methods by PETSc's name and implicit ones solve "
                  "c du/ds = F(u)",
           .choices = {"1fe", "2a", "2b", "3", "3bs", "4", "5f", "5dp", "5bs", "6vr", "7vr", "8vr", "beuler",
                       "cn", "theta"},
           .when = When{"train.gradient", "adjoint"}});
  declare(
      {.name = "adjoint.theta",
       .fallback = 0.5,
       .doc = "theta method: position of the stage within the step; 1/2 is second order, 1 is backward Euler",
       .minimum = 0,
       .maximum = 1,
       .above_minimum = true,
       .when = When{"train.gradient", "adjoint"} && When{"adjoint.method", "theta"}});
  declare({.name = "adjoint.keep",
           .fallback = std::string("stages"),
           .doc = "what is stored for the backward march: stages: the states of all stages; tapes: their "
                  "activations as well, so that nothing is evaluated again (explicit methods whose steps "
                  "share no stage); segments, disk: the state every adjoint.segment cells, in memory or on "
                  "disk, with the rest recomputed",
           .choices = {"stages", "tapes", "segments", "disk"},
           .when = When{"train.gradient", "adjoint"}});
  declare({.name = "adjoint.folder",
           .fallback = std::string(),
           .doc = "folder for the states on disk; empty: the system's temporary folder",
           .when = When{"train.gradient", "adjoint"} && When{"adjoint.keep", "disk"},
           .role = Role::free});
  declare(
      {.name = "adjoint.segment",
       .fallback = 0L,
       .doc = "depth cells between stored states; 0: sqrt(cells / 8), which needs the least memory for 1fe",
       .unit = "cells",
       .minimum = 0,
       .when = When{"train.gradient", "adjoint"} && When{"adjoint.keep", {"segments", "disk"}}});
}

void declare_output(Options& options) {
  const auto declare = [&](Option option) { options.declare(std::move(option)); };
  declare(output_option("train.h5",
                        "HDF5 file to write at the end; <name>.history.h5 can be read during training, "
                        "<name>.best.h5 holds the best weights by validation accuracy"));
  declare(overwrite_option());
  declare({.name = "output.snapshots",
           .fallback = 0L,
           .doc = "epochs between weight snapshots <name>.epoch<k>.h5 (k = 0: the initial weights); 0: none",
           .unit = "epochs",
           .minimum = 0,
           .role = Role::output});
  declare({.name = "output.preconditioner",
           .fallback = false,
           .doc = "also store the preconditioner of adam or adamw in weight snapshots: as large as the "
                  "model, gathered by rank 0; hessian.epochs then analyses the preconditioned Hessian",
           .when = When{"output.snapshots", Not{0L}},
           .role = Role::output});
  declare(
      seed_option("seed of the built-in data, the order of samples, the validation split and random masks"));
  declare(time_limit_option());
  declare(
      {.name = "checkpoint.every",
       .fallback = 0L,
       .doc = "number of steps between checkpoints, in addition to those at the end of each epoch; 0: none",
       .unit = "steps",
       .minimum = 0,
       .role = Role::output});
  declare({.name = "checkpoint.epochs",
           .fallback = true,
           .doc = "write a checkpoint at the end of each epoch; false: only those of checkpoint.every, and "
                  "when stopped",
           .role = Role::output});
  declare(restart_option());
}

}  // namespace

void declare_training(Options& options) {
  declare_objective(options);
  declare_minimised(options);
  declare_regularisation(options);
  declare_descent(options);
  declare_sharing(options);
  declare_gradient(options);
}

void declare_train(Options& options) {
  declare_model_options(options);
  declare_data_options(options);
  declare_training(options);
  declare_output(options);
}

void declare_minimised(Options& options) {
  const auto declare = [&](Option option) { options.declare(std::move(option)); };
  declare({.name = "train.loss",
           .fallback = std::string("cross_entropy"),
           .doc = "loss function: cross entropy, or the mean squared distance of logits to the class",
           .choices = {"cross_entropy", "mean_squared_error"}});
  declare({.name = "train.label_smoothing",
           .fallback = 0.0,
           .doc = "label smoothing: fraction of the label that is spread over all classes",
           .minimum = 0,
           .maximum = 0.9});
  declare({.name = "train.smoothness",
           .fallback = 0.0,
           .doc = "strength of the penalty on the change of the weights with depth, between knots or from "
                  "layer to layer",
           .minimum = 0});
  declare({.name = "train.coefficients",
           .fallback = std::string("auto"),
           .doc = "also train kappa (if it starts above 0), alpha and rho; auto: for a pde only",
           .choices = {"auto", "yes", "no"}});
}

void declare_sharing(Options& options) {
  const auto declare = [&](Option option) { options.declare(std::move(option)); };
  declare(
      {.name = "train.micro_batches",
       .fallback = 0L,
       .doc =
           "number of parts into which a group of ranks cuts its share of a batch. With stages of depth "
           "(mesh.ranks_depth), one stage works on a part while the others work on others; a rank keeps the "
           "activations of one part for each stage from its own on. 0: 4 for each stage, 1 without stages",
       .minimum = 0,
       .role = Role::free});
  declare({.name = "train.pipeline",
           .fallback = std::string("1f1b"),
           .doc = "order of the parts in a stage: forward and backward passes in turn, or all forward passes "
                  "first, which keeps the activations of all parts",
           .choices = {"1f1b", "gpipe"},
           .role = Role::free});
  declare(memory_option());
}

}  // namespace fluxformer
