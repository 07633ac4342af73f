// `refinement`: what models give on finer and finer depth cells, and the share of each cell in the change.

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <optional>
#include <sstream>

#include "analysis/depth/adapted_cells.hpp"
#include "analysis/depth/continuity.hpp"
#include "analysis/depth/depth_limit.hpp"
#include "analysis/depth/depth_variables.hpp"
#include "analysis/depth/refinement.hpp"
#include "base/error.hpp"
#include "base/statistics.hpp"
#include "drivers/compare/guessed_words.hpp"
#include "drivers/compare/model_study.hpp"
#include "drivers/registry.hpp"
#include "solvers/march/march_field.hpp"

namespace fluxformer {

namespace measured = depth::variables;

namespace {

const std::vector<std::string> goal_words{"loss", "logit", "margin", "norm"};
const std::vector<std::string> weights_words{"coarse", "mean", "exact"};
const std::vector<std::string> adapt_words{"none", "bisect", "equidistribute"};

enum class Adapt { none, bisect, equidistribute };

/// The value of an enumeration whose words are listed in its order.
template <class E>
E listed(const std::vector<std::string>& words, const std::string& word) {
  return static_cast<E>(std::ranges::find(words, word) - words.begin());
}

class Refinement final : public ModelStudy {
 public:
  Refinement(const Settings& settings, MPI_Comm comm);
  static study::Contents contents();

 protected:
  void add_axes(StudyRecord& record) override;
  void measure_model(std::size_t seed, const std::string& name, Results& to) override;
  bool conclude(const Findings& found, RunFrame& frame, StudyRecord& record) override;

 private:
  /// A model, and the samples for it.
  struct Measured {
    std::string called;
    const Parameters& parameters;
    SampleSet samples;
    MarchMaker march;
    int order;  // of its method
  };
  Measured measured_model(std::size_t seed, const std::string& name) const;
  /// Throws NumericalFailure unless this number of a goal on so many cells is finite.
  void require_finite(double number, const Measured& model, Index goal, int cells) const {
    if (!std::isfinite(number))
      throw NumericalFailure(model.called + ": the " + words_[static_cast<std::size_t>(goal)] + " on " +
                             std::to_string(cells) + " depth cells, or its derivative, is not finite");
  }
  /// A probe of the model on other cells.
  std::unique_ptr<ModelProbe> probe_on(const Measured& model, const DepthCells& depth) const;
  depth::GoalValues values_on(const Measured& model, ModelProbe& probe, const depth::GoalValues* own) const;
  /// eta_i: means over the samples of it and of its size, [goal][cell], and each, [sample][goal][cell].
  struct Indicators {
    std::vector<std::vector<double>> mean, mean_size;
    std::vector<double> by_sample;
  };
  Indicators indicators_on(const Measured& model, const DepthCells& depth) const;
  /// `value`: the goals on all meshes, [goal][mesh].
  void add_indicators(const Measured& model, const std::vector<DepthLimit>& limits,
                      const std::vector<double>& value, Results& to) const;
  void add_continuity(const Measured& model, ModelProbe& own, Results& to) const;
  void add_adapted(const Measured& model, Results& to) const;
  /// The cells of a model placed anew, so many of them.
  DepthCells adapted(const Measured& model, const DepthCells& depth, int cells) const;
  /// Number of cells of the last adapted mesh of a model. Throws BadInput unless it is one of its meshes.
  int target(const ModelSpec& spec) const;

  std::vector<std::string> words_;
  depth::Goals goals_;
  depth::Weights weights_;
  std::vector<long> meshes_;  // multiples of the cells of a model
  double tolerance_;
  Adapt adapt_;
  double theta_;
  int target_;  // 0: four times the cells of a model
  KeyOfTraining<double> masked_share_;
};

std::vector<depth::Goal> goals_of(const std::vector<std::string>& words) {
  std::vector<depth::Goal> goals;
  goals.reserve(words.size());
  for (const auto& word : words) goals.push_back(listed<depth::Goal>(goal_words, word));
  return goals;
}

/// Throws BadInput, beginning with `what`, for a method of a training that is unknown here, or that Newton's
/// method cannot follow in the precision of this run.
void require_method(const Settings& settings, const std::string& what, const AdjointSettings& method) {
  try {
    order_of(method);
  } catch (const BadInput& e) {
    throw BadInput(what + ": " + e.what());
  }
  if (is_implicit(method) && is_mixed(precision_of(settings)))
    throw BadInput(what + ": was trained with adjoint.method = " + method.method +
                   ", whose systems need run.precision = double or single");
}

Refinement::Refinement(const Settings& settings, MPI_Comm comm)
    : ModelStudy(settings, comm, {.head = ModelNeeds::Head::loss, .transformer = false},
                 Marches::of_training),
      words_(settings.words("refinement.goals")),
      goals_(goals_of(words_)),
      weights_(listed<depth::Weights>(weights_words, settings.word("refinement.weights"))),
      meshes_(settings.integers("refinement.cells")),
      tolerance_(settings.real("refinement.tolerance")),
      adapt_(listed<Adapt>(adapt_words, settings.word("refinement.adapt"))),
      theta_(settings.real("refinement.theta")),
      target_(settings.count("refinement.target")),
      masked_share_(masked_share(settings)) {
  if (words_.empty()) throw BadInput("refinement.goals: name one goal at least");
  for (std::size_t k = 0; k < meshes_.size(); ++k)
    if (meshes_[k] != long{1} << k || meshes_.size() < 2)
      throw BadInput(
          "refinement.cells: multiples of the cells of a model that double, 1, 2 and so on, so that an order "
          "can be told");
  require_targets(problem(), masked_share_);
  for (const auto& name : problem().models().names()) {
    const auto& first = problem().models().at(0, name);
    const auto& spec = first.parameters.spec;
    require_method(settings, "models." + name + " = " + first.file, first.origin.method());
    if (const auto without = without_field(spec); !without.empty())
      throw BadInput("models." + name + ": with " + without +
                     " there is no equation that finer depth cells would solve");
    for (const auto& word : words_) {
      const bool of_words = word == "loss" && spec.guesses_words();
      if (word == "norm" || of_words) continue;
      problem().require_classes("refinement.goals = " + word);
      if (spec.classes == 0)
        throw BadInput("refinement.goals = " + word + ": models." + name +
                       (spec.word_head.present ? " guesses words, and has no classes; take loss or norm"
                                               : " has no classes; norm needs none"));
    }
    if (adapt_ == Adapt::none) continue;
    target(spec);  // throws
    if (adapt_ == Adapt::equidistribute && spec.variation == DepthVariation::constant)
      throw BadInput(
          "refinement.adapt = equidistribute: models." + name +
          " has weights of its own in each layer, so that cells must end where layers do; take bisect");
  }
}

study::Contents Refinement::contents() {
  using namespace depth::variables;
  return compare::with_models(
      {.coordinates = {axes::test_sample, goal, multiple, cell, edge},
       .notes = {goal_names, weights, adapt},
       .model_notes = {method},
       .measures = {goal_value,    accuracy,       state_distance,     logit_distance,     order,
                    asymptotic,    limit,          distance,           within_tolerance,   indicator,
                    indicator_abs, estimate,       effectivity,        change_effectivity, gain,
                    curvature,     cosine,         straightness,       adapted_value,      adapted_accuracy,
                    edges,         goal_by_sample, indicator_by_sample},
       .mesh = true});
}

void Refinement::add_axes(StudyRecord& record) {
  record.samples(problem().members());
  std::vector<double> numbers;
  numbers.reserve(words_.size());
  for (const auto& word : words_)
    numbers.push_back(1 + static_cast<int>(listed<depth::Goal>(goal_words, word)));
  record.axis(measured::goal, std::move(numbers));
  record.axis(measured::multiple, {meshes_.begin(), meshes_.end()});
  record.note("", measured::goal_names, as_lines(words_));
  record.note("", measured::weights, weights_words[static_cast<std::size_t>(weights_)]);
  record.note("", measured::adapt, adapt_words[static_cast<std::size_t>(adapt_)]);
  for (const auto& name : problem().models().names()) {
    auto cells = measured::cell;
    cells.name = name + "_cell";
    cells.axes = {cells.name};
    const auto& spec = problem().models().at(0, name).parameters.spec;
    record.axis(cells, 1, spec.cells);
    record.note(name, measured::method, problem().models().at(0, name).origin.method().method);
    if (adapt_ == Adapt::none) continue;
    auto edges = measured::edge;
    edges.name = name + "_edge";
    edges.axes = {edges.name};
    record.axis(edges, 0, target(spec));
  }
}

Refinement::Measured Refinement::measured_model(std::size_t seed, const std::string& name) const {
  const auto& model = problem().models().at(seed, name);
  return {"models." + name + " = " + model.file, model.parameters,
          with_targets(problem().samples(), masked_share_, model, name), problem().march_of(model),
          order_of(model.origin.method())};
}

std::unique_ptr<ModelProbe> Refinement::probe_on(const Measured& model, const DepthCells& depth) const {
  auto parameters = model.parameters;
  parameters.spec.set_depth(depth);
  return problem().probe(parameters, problem().samples().capacity(), model.march);
}

depth::GoalValues Refinement::values_on(const Measured& model, ModelProbe& probe,
                                        const depth::GoalValues* own) const {
  depth::GoalValues values(probe, goals_, model.samples.size(), own);
  accumulate(
      model.samples, [&](const Batch& batch) { values.show(batch); }, values);
  for (Index g = 0; g < goals_.count(); ++g) require_finite(values.mean(g), model, g, probe.cells());
  return values;
}

void Refinement::measure_model(std::size_t seed, const std::string& name, Results& to) {
  const auto model = measured_model(seed, name);
  const auto own_depth = model.parameters.spec.depth();
  const Index goals = goals_.count(), meshes = std::ssize(meshes_), samples = model.samples.size();
  std::vector<double> value(goals * meshes), accuracy, moved, logits, by_sample(samples * goals * meshes);
  const auto own_probe = probe_on(model, own_depth);
  const auto own = values_on(model, *own_probe, nullptr);
  for (Index m = 0; m < meshes; ++m) {
    std::unique_ptr<ModelProbe> probe;
    std::optional<depth::GoalValues> finer;
    if (m > 0) {
      probe = probe_on(model, own_depth.divided(static_cast<int>(meshes_[m])));
      finer.emplace(values_on(model, *probe, &own));
    }
    const auto& values = finer ? *finer : own;
    for (Index g = 0; g < goals; ++g) value[g * meshes + m] = values.mean(g);
    for (Index k = 0; k < samples * goals; ++k) by_sample[k * meshes + m] = values.by_sample()[k];
    accuracy.push_back(values.accuracy());
    moved.push_back(values.state_distance());
    logits.push_back(values.logit_distance());
  }
  std::vector<DepthLimit> limits;
  std::vector<double> order, asymptotic, limit, distance, within;
  for (Index g = 0; g < goals; ++g) {
    const std::span<const double> course{value.data() + g * meshes, static_cast<std::size_t>(meshes)};
    const auto& found = limits.emplace_back(depth_limit(course, model.order));
    order.push_back(found.order);
    asymptotic.push_back(found.asymptotic ? 1 : 0);
    limit.push_back(found.asymptotic ? found.value : missing_value);
    distance.push_back(found.distance);
    const auto is_within = found.within(tolerance_);
    within.push_back(!is_within ? missing_value : *is_within ? 1 : 0);
  }
  std::ostringstream text;
  text << name << ' ' << words_.front() << ' ' << value.front() << " on " << own_depth.cells << " cells, "
       << value[meshes - 1] << " on " << own_depth.cells * meshes_.back();
  if (limits.front().asymptotic) text << ", " << limits.front().value << " in the limit";
  to.say(text.str());
  to.put(measured::goal_value, value);
  to.put(measured::accuracy, accuracy);
  to.put(measured::state_distance, moved);
  to.put(measured::logit_distance, logits);
  to.put(measured::goal_by_sample, by_sample);
  to.put(measured::order, order);
  to.put(measured::asymptotic, asymptotic);
  to.put(measured::limit, limit);
  to.put(measured::distance, distance);
  to.put(measured::within_tolerance, within);
  add_indicators(model, limits, value, to);
  add_continuity(model, *own_probe, to);
  if (adapt_ != Adapt::none) add_adapted(model, to);
}

Refinement::Indicators Refinement::indicators_on(const Measured& model, const DepthCells& depth) const {
  const auto coarse = probe_on(model, depth), fine = probe_on(model, depth.divided(2));
  depth::DepthIndicators eta(*coarse, *fine, goals_, weights_, model.samples.size());
  accumulate(
      model.samples, [&](const Batch& batch) { eta.show(batch); }, eta);
  Indicators found;
  found.by_sample = eta.by_sample();
  for (Index g = 0; g < goals_.count(); ++g) {
    found.mean.push_back(eta.mean(g));
    found.mean_size.push_back(eta.mean_size(g));
    for (const double size : found.mean_size.back()) require_finite(size, model, g, coarse->cells());
  }
  return found;
}

void Refinement::add_indicators(const Measured& model, const std::vector<DepthLimit>& limits,
                                const std::vector<double>& value, Results& to) const {
  const auto own_depth = model.parameters.spec.depth();
  const auto found = indicators_on(model, own_depth);
  std::vector<double> indicator, size, estimate, effectivity, of_change, gain;
  const double halvings = std::exp2(model.order);
  const double of_error = halvings / (halvings - 1);
  for (Index g = 0; g < goals_.count(); ++g) {
    const auto &eta = found.mean[g], &eta_size = found.mean_size[g];
    const double sum = std::accumulate(eta.begin(), eta.end(), 0.0);
    const double* const course = value.data() + g * std::ssize(meshes_);
    std::ranges::copy(eta, std::back_inserter(indicator));
    std::ranges::copy(eta_size, std::back_inserter(size));
    estimate.push_back(of_error * sum);
    effectivity.push_back(limits[g].asymptotic ? of_error * sum / (course[0] - limits[g].value)
                                               : missing_value);
    of_change.push_back(sum / (course[0] - course[1]));
    gain.push_back(depth::predicted_gain(own_depth, eta_size, model.order));
  }
  to.put(measured::indicator, indicator);
  to.put(measured::indicator_by_sample, found.by_sample);
  to.put(measured::indicator_abs, size);
  to.put(measured::estimate, estimate);
  to.put(measured::effectivity, effectivity);
  to.put(measured::change_effectivity, of_change);
  to.put(measured::gain, gain);
}

void Refinement::add_continuity(const Measured& model, ModelProbe& own, Results& to) const {
  depth::StateContinuity states(own);
  accumulate(
      model.samples, [&](const Batch& batch) { states.show(batch); }, states);
  const auto found = states.mean();
  to.put(measured::curvature, {found.curvature});
  to.put(measured::cosine, {found.cosine});
  to.put(measured::straightness, {found.straightness});
}

int Refinement::target(const ModelSpec& spec) const {
  const int cells = target_ == 0 ? spec.cells * static_cast<int>(std::min(4L, meshes_.back())) : target_;
  std::string known;
  for (const long multiple : meshes_) {
    if (cells == multiple * spec.cells) return cells;
    known += (known.empty() ? "" : ", ") + std::to_string(multiple * spec.cells);
  }
  throw BadInput("refinement.target = " + std::to_string(cells) + ": must be one of " + known +
                 ", the cells of the model by refinement.cells");
}

DepthCells Refinement::adapted(const Measured& model, const DepthCells& depth, int cells) const {
  if (adapt_ == Adapt::equidistribute) {
    // The indicators of the model's cells, divided into as many: on few cells they are far from their limit.
    const auto finer = model.parameters.spec.depth().divided(cells / model.parameters.spec.cells);
    return depth::equidistributed(finer, indicators_on(model, finer).mean_size[0], cells, model.order);
  }
  auto found = depth;
  while (found.cells < cells) {
    const auto marked =
        depth::marked_cells(indicators_on(model, found).mean_size[0], theta_, cells - found.cells);
    const auto& own = model.parameters.spec;
    if (std::ranges::none_of(marked, [](bool is) { return is; }))
      return own.depth().divided(cells / own.cells);
    found = depth::bisected(found, marked);
  }
  return found;
}

void Refinement::add_adapted(const Measured& model, Results& to) const {
  const Index goals = goals_.count(), meshes = std::ssize(meshes_);
  const auto& spec = model.parameters.spec;
  std::vector<double> value(goals * meshes, missing_value), accuracy(meshes, missing_value), edges;
  auto depth = spec.depth();
  for (Index m = 0; m < meshes && meshes_[m] * spec.cells <= target(spec); ++m) {
    depth = adapted(model, depth, static_cast<int>(meshes_[m]) * spec.cells);
    const auto probe = probe_on(model, depth);
    const auto values = values_on(model, *probe, nullptr);
    for (Index g = 0; g < goals; ++g) value[g * meshes + m] = values.mean(g);
    accuracy[m] = values.accuracy();
  }
  for (int row = 0; row <= depth.cells; ++row) edges.push_back(depth.depth(row));
  to.put(measured::adapted_value, value);
  to.put(measured::adapted_accuracy, accuracy);
  to.put(measured::edges, edges);
}

bool Refinement::conclude(const Findings& found, RunFrame& frame, StudyRecord& record) {
  // Of several models or seeds, each has cells of its own.
  if (adapt_ != Adapt::none && found.places().size() == 1) record.mesh(found.at(0, measured::edges));
  return ModelStudy::conclude(found, frame, record);
}

void declare_refinement(Options& options) {
  declare_compared(options);
  declare_study_run(options, "refinement.h5");
  options.declare("refinement.goals", std::vector<std::string>{"loss", "margin"},
                  "numbers of a sample whose error is measured: cross entropy, logit of the class, its "
                  "margin over the others, mean "
                  "square of the last state",
                  {.choices = goal_words});
  options.declare(
      "refinement.cells", std::vector<long>{1, 2, 4, 8, 16},
      "depth cells on which models are evaluated, in multiples of those of each model: 1, 2, 4 and so on",
      {.minimum = 1, .maximum = 4096});
  options.declare("refinement.weights", "mean",
                  "derivatives in the indicators: those of the march itself (coarse, relative error of order "
                  "h), of marches on half the "
                  "length as well (mean, of order h^2), or none (exact: every cell is refined by itself, as "
                  "many marches as cells)",
                  {.choices = weights_words});
  options.declare("refinement.tolerance", 0.1,
                  "change of a goal up to its limit, below which a model counts as an equation",
                  {.minimum = 0, .above_minimum = true});
  options.declare("refinement.adapt", "none",
                  "places depth cells anew by the indicators of the first goal: bisect halves those with the "
                  "largest, step by step; equidistribute gives all cells the same",
                  {.choices = adapt_words});
  options.declare(
      "refinement.theta", 0.5, "share of the sum of the indicators in the cells that a step halves",
      {.minimum = 0, .maximum = 1, .above_minimum = true, .when = When{"refinement.adapt", "bisect"}});
  options.declare(
      "refinement.target", 0L,
      "most depth cells placed anew, one of the numbers of refinement.cells; 0: four times those of "
      "each model",
      {.unit = "cells", .minimum = 0, .when = When{"refinement.adapt", Not{"none"}}});
  declare_masked_words(options);
}

}  // namespace

ExperimentEntry refinement_experiment() {
  return study_entry<Refinement>(
      {.name = "refinement",
       .family = "depth",
       .sentence = "evaluates models on finer and finer depth cells, and finds the cells that matter",
       .cites = "docs/model.md; Becker, Rannacher, Acta Numerica 10 (2001) 1; arXiv 2601.07397",
       .declare = declare_refinement},
      with_masked_share_of_models);
}

}  // namespace fluxformer
