#include "drivers/evolve/evolve_options.hpp"

#include <cmath>

#include "analysis/clusters/leaders.hpp"
#include "base/error.hpp"
#include "drivers/common/run_options.hpp"

namespace fluxformer {
namespace {

void declare_inflow_and_start(Options& options) {
  options.declare("inflow.source", "data",
                  "inflow at s = 0: embedded samples of data.set, normal noise keyed by index, or zeros",
                  {.choices = {"data", "noise", "none"}});
  options.declare("inflow.samples", 1L, "samples solved simultaneously", {.minimum = 1});
  options.declare("inflow.first", 0L, "index of the first sample", {.minimum = 0});
  options.declare("inflow.every", 0.0,
                  "streaming: interval after which the next samples flow in; 0: constant inflow",
                  {.unit = "time", .minimum = 0});

  options.declare("data.split", "test", "split of the data set that samples are taken from",
                  {.choices = {"train", "test"}, .when = When{"inflow.source", "data"}});

  options.declare(
      "start.state", "zero",
      "u at t = 0: zero, the inflow in every cell, the inflow plus normal noise, equiangular or random "
      "points on the unit sphere, groups of points on it, a cosine mode over tokens, or quantiles of a "
      "normal "
      "distribution",
      {.choices = {"zero", "inflow", "noise", "equiangular", "sphere", "clustered_sphere", "cosine",
                   "quantiles"}});
  options.declare("start.gamma", 0.0, "inner product of every pair of equiangular points",
                  {.minimum = -1, .maximum = 1, .when = When{"start.state", "equiangular"}});
  options.declare("start.mode", 1L,
                  "wave number k of the cosine mode cos(pi k (j + 1/2) / n); on a two-dimensional lattice, "
                  "in both directions",
                  {.minimum = 0, .when = When{"start.state", "cosine"}});
  options.declare("start.groups", 7L, "groups of points, around random directions, the same in all cells",
                  {.minimum = 1, .maximum = 1e6, .when = When{"start.state", "clustered_sphere"}});
  options.declare("start.scale", 1.0,
                  "amplitude of the cosine mode, or standard deviation of noise, of quantiles, and of points "
                  "around the direction of their group, in each channel",
                  {.when = When{"start.state", {"noise", "clustered_sphere", "cosine", "quantiles"}}});
}

void declare_time_steps(Options& options) {
  options.declare("evolve.method", "ssp",
                  "time integrator (PETSc TS): strong-stability-preserving Runge-Kutta, other Runge-Kutta, "
                  "forward Euler, or implicit-explicit with implicit diffusion",
                  {.choices = {"ssp", "rk", "euler", "arkimex"}});
  options.declare(
      "evolve.variant", "",
      "scheme within the family of the method, by its PETSc name: ssp: rks2 (default), rks3, rk104; rk: 4 "
      "(default), 5f (default with a tolerance), 3bs, ...; arkimex: 3 (default), 4, ...");
  options.declare("evolve.dt", 0.0, "time step; 0: chosen by evolve.cfl", {.unit = "time", .minimum = 0});
  options.declare("evolve.cfl", 0.5,
                  "time step relative to the largest stable forward Euler step; without diffusion this is "
                  "the Courant number c dt/h",
                  {.minimum = 0, .above_minimum = true});
  options.declare("evolve.time", 0.0, "end time; 0: twice the crossing time S/c, or 1 without transport",
                  {.unit = "time", .minimum = 0, .role = Role::free});
  options.declare("evolve.stop", "time", "when to stop: at the end time, or earlier once the state is steady",
                  {.choices = {"time", "steady"}, .role = Role::free});
  options.declare("evolve.steady", 1e-6,
                  "the state is steady once the largest |du/dt| is below this multiple of the largest |u|",
                  {.unit = "1/time",
                   .minimum = 0,
                   .above_minimum = true,
                   .when = When{"evolve.stop", "steady"},
                   .role = Role::free});
  options.declare("evolve.tolerance", 0.0,
                  "absolute and relative tolerance of error-controlled steps (rk, arkimex); 0: equal steps",
                  {.minimum = 0});
  options.declare("evolve.max_norm", 1e8,
                  "limit of |u|: a larger value anywhere ends the run with exit code 3",
                  {.minimum = 0, .above_minimum = true});
}

void declare_counts(Options& options) {
  options.declare(
      "clusters.measure", false,
      "store numbers of clusters of the tokens, and their energy, by depth cell and sample, at the "
      "times of stored states");
  const Condition counted = When{"clusters.measure"};
  options.declare(
      "clusters.beta", 0.0,
      "inverse temperature of the kernel; 0: model.beta, if weights are scaled identities and it is "
      "not 0, else the root of model.width",
      {.minimum = 0, .maximum = 1e5, .when = counted});
  options.declare(
      "clusters.delta", 0.0,
      "angle up to which two tokens belong to the same cluster, in radians, below 2 pi / 3; 0: 0.3 "
      "/ sqrt(beta), but at most 1, the kernel being about 1 / sqrt(beta) wide",
      {.minimum = 0, .maximum = 2.09, .when = counted});
  options.declare(
      "clusters.leaders", 4096L,
      "tokens that may stand for all others when clusters are counted; a cloud that needs more is "
      "not counted",
      {.minimum = 1, .maximum = 1e5, .when = counted});
}

}  // namespace

void declare_evolution(Options& options) {
  declare_inflow_and_start(options);
  declare_time_steps(options);
}

void declare_evolve(Options& options) {
  declare_model_options(options);
  options.declare_when(When{"inflow.source", "data"}, declare_data_options);
  declare_evolution(options);
  options.declare("front.threshold", 0.05,
                  "the front has arrived once |u - u*| stays <= threshold |u*|, u* being the steady state; "
                  "0: u* is not computed",
                  {.minimum = 0, .maximum = 1});

  options.declare(output_option("evolve.h5", "HDF5 file to write; called <file>.part until it is complete"));
  options.declare(overwrite_option());
  options.declare(trust_files_option());
  options.declare("output.every", 0.0, "time between stored states; 0: start and end only",
                  {.unit = "time", .minimum = 0, .role = Role::output});
  options.declare("output.fields", "u", "field stored over depth and tokens: the hidden state u, or none",
                  {.choices = {"u", "none"}, .role = Role::output});
  options.declare("output.depth_stride", 1L, "store every n-th depth cell",
                  {.unit = "cells", .minimum = 1, .role = Role::output});
  options.declare("output.channel_stride", 1L, "store every n-th channel",
                  {.unit = "channels", .minimum = 1, .role = Role::output});
  options.declare("output.compression", 0L, "deflate level of the stored states; 0: none",
                  {.minimum = 0, .maximum = 9, .role = Role::output});
  options.declare("output.history", 1L, "number of steps between lines of the history",
                  {.unit = "steps", .minimum = 1, .role = Role::output});
  options.declare("output.attention", false,
                  "store the attention weights of every cell and head at the end of the run",
                  {.role = Role::output});
  options.declare("output.logits", false,
                  "store the logits of the model's heads at the last depth at the end of the run: those of "
                  "classes, and those of words at every token",
                  {.role = Role::output});
  options.declare("output.model", true, "store the weights under /model", {.role = Role::output});
  declare_counts(options);

  options.declare(seed_option("seed of the built-in data, of noise and of random starts"));
  options.declare(time_limit_option());

  options.declare("checkpoint.every", 0.0, "time between checkpoints; 0: only when stopped",
                  {.unit = "time", .minimum = 0, .role = Role::output});
  options.declare(restart_option());
}

namespace {

InflowPlan inflow_plan(const Settings& settings) {
  return {.source = settings.word("inflow.source"),
          .data = data_plan(settings),
          .split = settings.word("data.split"),
          .samples = settings.count("inflow.samples"),
          .first = static_cast<std::size_t>(settings.integer("inflow.first")),
          .every = settings.real("inflow.every"),
          .tokens_x = settings.count("mesh.tokens_x"),
          .tokens_y = settings.count("mesh.tokens_y"),
          .seed = static_cast<std::uint64_t>(settings.integer("run.seed"))};
}

EvolveSettings solver_plan(const Settings& settings) {
  EvolveSettings s;
  s.method = settings.word("evolve.method");
  s.variant = settings.word("evolve.variant");
  s.dt = settings.real("evolve.dt");
  s.cfl = settings.real("evolve.cfl");
  s.time = settings.real("evolve.time");
  s.adaptive_tolerance = settings.real("evolve.tolerance");
  s.steady_tolerance = settings.word("evolve.stop") == "steady" ? settings.real("evolve.steady") : 0;
  s.max_norm = settings.real("evolve.max_norm");
  s.inflow_every = settings.real("inflow.every");
  return s;
}

/// The precision of run.precision. Throws BadInput for one that is too coarse for the steady state u*.
Precision precision_for(const Settings& settings, const EquationSpec& equation) {
  const auto precision = precision_of(settings);
  const bool solved = equation.scheme != DepthScheme::shift || equation.epsilon > 0;
  // Only an experiment with this key looks for u*.
  const bool fronts =
      settings.options()->find("front.threshold") != nullptr && settings.real("front.threshold") > 0;
  if (is_mixed(precision) && solved && fronts)
    throw BadInput("run.precision = " + settings.word("run.precision") +
                   ": the steady state that fronts are measured against is solved for, and residuals cannot "
                   "become smaller than its rounding; use single, or front.threshold = 0");
  return precision;
}

}  // namespace

EvolvePlan plan_of_evolution(const Settings& settings) {
  const auto equation = equation_plan(settings);
  return {.model = model_plan(settings),
          .equation = equation,
          .precision = precision_for(settings, equation),
          .inflow = inflow_plan(settings),
          .ranks_depth = settings.count("mesh.ranks_depth"),
          .ranks_token = settings.count("mesh.ranks_token"),
          .periodic = settings.flag("mesh.periodic"),
          .start = {.kind = settings.word("start.state"),
                    .scale = settings.real("start.scale"),
                    .gamma = settings.real("start.gamma"),
                    .mode = settings.integer("start.mode"),
                    .groups = settings.integer("start.groups"),
                    .seed = static_cast<std::uint64_t>(settings.integer("run.seed"))},
          .solver = solver_plan(settings)};
}

namespace {

/// The measures of clusters, if there are to be any. Throws BadInput.
std::optional<clusters::FieldClusterSettings> counts_plan(const Settings& settings) {
  if (!settings.flag("clusters.measure")) return {};
  clusters::FieldClusterSettings counts{.beta = settings.real("clusters.beta"),
                                        .delta = settings.real("clusters.delta"),
                                        .leaders = settings.integer("clusters.leaders")};
  if (counts.delta > 0 && counts.delta < 1e-6) throw BadInput("clusters.delta: must be 0 or at least 1e-6");
  const bool identities = settings.word("model.file").empty() && settings.word("model.initial") == "identity";
  if (counts.beta == 0 && identities) counts.beta = settings.real("model.beta");
  return counts;
}

}  // namespace

clusters::FieldClusterSettings with_kernel(clusters::FieldClusterSettings counts, int width) {
  if (counts.beta == 0) counts.beta = std::sqrt(width);
  if (counts.delta == 0) counts.delta = clusters::width_of_kernel(counts.beta);
  return counts;
}

EvolveOutput output_of_evolve(const Settings& settings) {
  return {.file = settings.word("output.file"),
          .every = settings.real("output.every"),
          .history = settings.integer("output.history"),
          .checkpoints = settings.real("checkpoint.every"),
          .threshold = settings.real("front.threshold"),
          .fields = settings.word("output.fields") == "u",
          .model = settings.flag("output.model"),
          .attention = settings.flag("output.attention"),
          .logits = settings.flag("output.logits"),
          .depth_stride = settings.count("output.depth_stride"),
          .channel_stride = settings.count("output.channel_stride"),
          .compression = settings.count("output.compression"),
          .counts = counts_plan(settings)};
}

}  // namespace fluxformer
