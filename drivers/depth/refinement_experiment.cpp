// `refinement`: what models give on finer and finer depth cells, and the share of each cell in the change.

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <sstream>

#include "analysis/depth/adapted_cells.hpp"
#include "analysis/depth/depth_limit.hpp"
#include "analysis/depth/depth_variables.hpp"
#include "analysis/depth/refinement.hpp"
#include "base/error.hpp"
#include "drivers/compare/model_study.hpp"
#include "drivers/registry.hpp"
#include "solvers/march/march_field.hpp"

namespace fluxformer {

namespace measured = depth::variables;

namespace {

const std::vector<std::string> goal_words{"loss", "logit", "margin", "norm"};
const std::vector<std::string> weights_words{"coarse", "mean", "exact"};

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

 private:
  /// A probe of these parameters on so many times the cells of the model.
  std::unique_ptr<ModelProbe> probe_on(Parameters parameters, long multiple) const;
  /// `value`: the goals on all meshes, [goal][mesh].
  void add_indicators(const Parameters& parameters, const std::vector<DepthLimit>& limits,
                      const std::vector<double>& value, Results& to) const;

  std::vector<std::string> words_;
  depth::Goals goals_;
  depth::Weights weights_;
  std::vector<long> meshes_;  // multiples of the cells of a model
};

std::vector<depth::Goal> goals_of(const std::vector<std::string>& words) {
  std::vector<depth::Goal> goals;
  goals.reserve(words.size());
  for (const auto& word : words) goals.push_back(listed<depth::Goal>(goal_words, word));
  return goals;
}

Refinement::Refinement(const Settings& settings, MPI_Comm comm)
    : ModelStudy(settings, comm, ModelNeeds::loss),
      words_(settings.words("refinement.goals")),
      goals_(goals_of(words_)),
      weights_(listed<depth::Weights>(weights_words, settings.word("refinement.weights"))),
      meshes_(settings.integers("refinement.cells")) {
  if (words_.empty()) throw BadInput("refinement.goals: name one goal at least");
  for (std::size_t k = 0; k < meshes_.size(); ++k)
    if (meshes_[k] != long{1} << k || meshes_.size() < 2)
      throw BadInput(
          "refinement.cells: multiples of the cells of a model that double, 1, 2 and so on, so that an order "
          "can be told");
  const bool classes = std::ranges::any_of(words_, [](const auto& word) { return word != "norm"; });
  if (classes) problem().require_classes("refinement.goals");
  for (const auto& name : problem().models().names()) {
    const auto& spec = problem().models().at(0, name).parameters.spec;
    if (!has_field(spec))
      throw BadInput(
          "models." + name +
          ": with depth.norm = post or sphere, or depth.residual = false, there is no equation that "
          "finer depth cells would solve");
    if (classes && spec.classes == 0)
      throw BadInput("models." + name + ": the model has no classes; refinement.goals = norm needs none");
  }
}

study::Contents Refinement::contents() {
  using namespace depth::variables;
  return compare::with_models(
      {{axes::test_sample, goal, mesh, cell},
       {goal_names, weights},
       {},
       {goal_value, accuracy, order, asymptotic, limit, distance, indicator, indicator_abs, estimate,
        effectivity, change_effectivity, gain, goal_by_sample}});
}

void Refinement::add_axes(StudyRecord& record) {
  record.samples(problem().members());
  record.axis(measured::goal, 1, goals_.count());
  record.axis(measured::mesh, {meshes_.begin(), meshes_.end()});
  record.note("", measured::goal_names, as_lines(words_));
  record.note("", measured::weights, weights_words[static_cast<std::size_t>(weights_)]);
  for (const auto& name : problem().models().names()) {
    auto cells = measured::cell;
    cells.name = name + "_cell";
    cells.axes = {cells.name};
    record.axis(cells, 1, problem().models().at(0, name).parameters.spec.cells);
  }
}

std::unique_ptr<ModelProbe> Refinement::probe_on(Parameters parameters, long multiple) const {
  auto& spec = parameters.spec;
  spec.set_depth(spec.depth().divided(static_cast<int>(multiple)));
  return problem().probe(parameters);
}

void Refinement::measure_model(std::size_t seed, const std::string& name, Results& to) {
  const auto& parameters = problem().models().at(seed, name).parameters;
  const auto& samples = problem().samples();
  const Index goals = goals_.count(), meshes = std::ssize(meshes_);
  std::vector<double> value(goals * meshes), accuracy, by_sample(samples.size() * goals * meshes);
  for (Index m = 0; m < meshes; ++m) {
    const auto probe = probe_on(parameters, meshes_[m]);
    depth::GoalValues values(*probe, goals_, samples.size());
    accumulate(
        samples, [&](const Batch& batch) { values.show(batch); }, values);
    for (Index g = 0; g < goals; ++g) value[g * meshes + m] = values.mean(g);
    for (Index k = 0; k < samples.size() * goals; ++k) by_sample[k * meshes + m] = values.by_sample()[k];
    accuracy.push_back(values.accuracy());
  }
  std::vector<DepthLimit> limits;
  std::vector<double> order, asymptotic, limit, distance;
  for (Index g = 0; g < goals; ++g) {
    const std::span<const double> course{value.data() + g * meshes, static_cast<std::size_t>(meshes)};
    const auto& found = limits.emplace_back(depth_limit(course, 1));
    order.push_back(found.order);
    asymptotic.push_back(found.asymptotic ? 1 : 0);
    limit.push_back(found.asymptotic ? found.value : std::numeric_limits<double>::quiet_NaN());
    distance.push_back(found.distance);
  }
  std::ostringstream text;
  text << name << ' ' << words_.front() << ' ' << value.front() << " on " << parameters.spec.cells
       << " cells, " << value[meshes - 1] << " on " << parameters.spec.cells * meshes_.back();
  if (limits.front().asymptotic) text << ", " << limits.front().value << " in the limit";
  to.say(text.str());
  to.put(measured::goal_value, value);
  to.put(measured::accuracy, accuracy);
  to.put(measured::goal_by_sample, by_sample);
  to.put(measured::order, order);
  to.put(measured::asymptotic, asymptotic);
  to.put(measured::limit, limit);
  to.put(measured::distance, distance);
  add_indicators(parameters, limits, value, to);
}

void Refinement::add_indicators(const Parameters& parameters, const std::vector<DepthLimit>& limits,
                                const std::vector<double>& value, Results& to) const {
  const auto& samples = problem().samples();
  const auto coarse = probe_on(parameters, 1), fine = probe_on(parameters, 2);
  depth::DepthIndicators found(*coarse, *fine, goals_, weights_, samples.size());
  accumulate(
      samples, [&](const Batch& batch) { found.show(batch); }, found);
  std::vector<double> indicator, size, estimate, effectivity, of_change, gain;
  for (Index g = 0; g < goals_.count(); ++g) {
    const auto eta = found.mean(g), eta_size = found.mean_size(g);
    const double sum = std::accumulate(eta.begin(), eta.end(), 0.0);
    const double* const course = value.data() + g * std::ssize(meshes_);
    std::ranges::copy(eta, std::back_inserter(indicator));
    std::ranges::copy(eta_size, std::back_inserter(size));
    estimate.push_back(2 * sum);
    effectivity.push_back(limits[g].asymptotic ? 2 * sum / (course[0] - limits[g].value)
                                               : std::numeric_limits<double>::quiet_NaN());
    of_change.push_back(sum / (course[0] - course[1]));
    gain.push_back(depth::predicted_gain(parameters.spec.depth(), eta_size));
  }
  to.put(measured::indicator, indicator);
  to.put(measured::indicator_abs, size);
  to.put(measured::estimate, estimate);
  to.put(measured::effectivity, effectivity);
  to.put(measured::change_effectivity, of_change);
  to.put(measured::gain, gain);
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
      {.minimum = 1});
  options.declare("refinement.weights", "mean",
                  "derivatives in the indicators: those of the march itself (coarse, relative error of order "
                  "h), of marches on half the "
                  "length as well (mean, of order h^2), or none (exact: every cell is refined by itself, as "
                  "many marches as cells)",
                  {.choices = weights_words});
}

}  // namespace

ExperimentEntry refinement_experiment() {
  return study_entry<Refinement>(
      {.name = "refinement",
       .family = "depth",
       .sentence = "evaluates models on finer and finer depth cells, and finds the cells that matter",
       .cites = "docs/model.md; Becker, Rannacher, Acta Numerica 10 (2001) 1; arXiv 2601.07397",
       .declare = declare_refinement});
}

}  // namespace fluxformer
