// `removal`: which layers of trained models can go, by scores, against the best subsets and simple controls.

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <numeric>
#include <sstream>

#include "analysis/depth/removal.hpp"
#include "analysis/depth/removal_variables.hpp"
#include "base/error.hpp"
#include "base/random.hpp"
#include "base/statistics.hpp"
#include "drivers/compare/guessed_words.hpp"
#include "drivers/compare/model_study.hpp"
#include "drivers/registry.hpp"

namespace fluxformer {

namespace removed = depth::removal_variables;

namespace {

// The first are the scores, in their order.
const std::vector<std::string> rule_words{"influence", "angle",         "change", "dual",
                                          "dual_abs",  "dual_mean",     "taylor", "removal",
                                          "greedy",    "deepest_first", "random"};
const std::string all_subsets = "subsets";
constexpr int most_layers_of_greedy = 24;  // about 2600 layer maps for each sample

/// The keys removal.* and the seed, and the work that they ask for.
struct RemovalPlan {
  std::vector<std::string> rules;  ///< in the order of rule_words; deepest_first is among them
  std::vector<std::string> asked;  ///< removal.rules; empty: what models allow
  std::size_t random_orders = 0;
  std::uint64_t seed = 1;  ///< of the random orders

  bool has(const std::string& rule) const { return std::ranges::find(rules, rule) != rules.end(); }
  bool asks_for(const std::string& rule) const { return std::ranges::find(asked, rule) != asked.end(); }
  /// True if all subsets of so many layers are tried, and if layers are left out greedily.
  bool subsets(int layers) const {
    return asks_for(all_subsets) || (asked.empty() && layers <= depth::SubsetWalk::most_layers);
  }
  bool greedy(int layers) const {
    return asks_for("greedy") || (asked.empty() && layers <= most_layers_of_greedy);
  }
  std::vector<depth::Score> scores() const;
  /// Layer maps for each sample: those of the scores, of the greedy order, and of the curves, at most.
  double scoring(int layers) const { return depth::LayerScores::cost(layers, scores()); }
  double searching(int layers) const {
    return greedy(layers) ? depth::RemovalsFrom::cost_of_search(layers) : 0;
  }
  double walking(int layers) const;
};

RemovalPlan removal_plan_of(const Settings& settings) {
  RemovalPlan plan{.rules = {},
                   .asked = settings.words("removal.rules"),
                   .random_orders = static_cast<std::size_t>(settings.count("removal.random_orders")),
                   .seed = static_cast<std::uint64_t>(settings.integer("run.seed"))};
  for (const auto& rule : rule_words)
    if (plan.asked.empty() || plan.asks_for(rule) || rule == "deepest_first") plan.rules.push_back(rule);
  return plan;
}

std::vector<depth::Score> RemovalPlan::scores() const {
  std::vector<depth::Score> wanted;
  for (int k = 0; k < depth::score_count; ++k)
    if (has(rule_words[k])) wanted.push_back(static_cast<depth::Score>(k));
  return wanted;
}

double RemovalPlan::walking(int layers) const {
  if (subsets(layers)) return depth::SubsetWalk::cost(layers);
  const auto orders = rules.size() + (has("random") ? random_orders - 1 : 0);
  return static_cast<double>(orders) * depth::OrderWalk::cost(layers);
}

class Removal final : public ModelStudy {
 public:
  Removal(const Settings& settings, MPI_Comm comm);
  static study::Contents contents();
  std::string describe() const override;

 protected:
  void add_axes(StudyRecord& record) override;
  void measure_model(std::size_t seed, const std::string& name, Results& to) override;

 private:
  /// A model while its layers are left out.
  struct Shortened;
  void require_model(const std::string& name) const;
  /// "layers" or "cells", and their number.
  std::string what_goes(const std::string& name) const {
    const auto& spec = problem().models().at(0, name).parameters.spec;
    return spec.variation == DepthVariation::constant ? "layers" : "cells";
  }
  int layers_of(const std::string& name) const {
    return depth::removable_layers(problem().models().at(0, name).parameters.spec);
  }

  RemovalPlan plan_;
  KeyOfTraining<double> masked_share_;
  long calibration_;
  SampleSet scored_;  // the samples of the scores
};

Removal::Removal(const Settings& settings, MPI_Comm comm)
    : ModelStudy(settings, comm, {.head = ModelNeeds::Head::loss, .transformer = false}),
      plan_(removal_plan_of(settings)),
      masked_share_(masked_share(settings)),
      calibration_(settings.integer("removal.calibration")),
      scored_(calibration_ > 0 ? problem().other_samples(calibration_, "removal.calibration")
                               : problem().samples()) {
  require_answers(problem(), masked_share_, "the loss");
  for (const auto& name : problem().models().names()) require_model(name);
}

void Removal::require_model(const std::string& name) const {
  const auto& model = problem().models().at(0, name);
  const int layers = layers_of(name);
  if (layers < 2)
    throw BadInput("models." + name + ": has a single one of the " + what_goes(name) +
                   " that could be left out");
  if (plan_.asks_for(all_subsets) && layers > depth::SubsetWalk::most_layers)
    throw BadInput("removal.rules = " + all_subsets + ": models." + name + " has " + std::to_string(layers) +
                   ' ' + what_goes(name) + "; all subsets are tried of up to " +
                   std::to_string(depth::SubsetWalk::most_layers));
  if (!model.parameters.spec.guesses_words()) problem().require_labels("the worth of a layer", scored_);
}

study::Contents Removal::contents() {
  using namespace depth::removal_variables;
  return compare::with_models(
      {{axes::test_sample, rule, layer, kept_layers},
       {rule_names, calibration},
       {},
       {score, removal_order, loss, accuracy, regret, best_loss, best_accuracy, best_layers}});
}

std::string Removal::describe() const {
  std::ostringstream text;
  text << ModelStudy::describe();
  for (const auto& name : problem().models().names()) {
    const int layers = layers_of(name);
    text << '\n'
         << name << ": " << layers << ' ' << what_goes(name) << " can go; "
         << plan_.scoring(layers) + plan_.searching(layers) << " layer maps for each of " << scored_.size()
         << " samples of the scores (a derivative counts as 3), " << (plan_.subsets(layers) ? "" : "up to ")
         << plan_.walking(layers) << " for each of " << problem().samples().size()
         << " samples of the losses";
  }
  return text.str();
}

void Removal::add_axes(StudyRecord& record) {
  record.samples(problem().members());
  record.axis(removed::rule, 1, std::ssize(plan_.rules));
  record.note("", removed::rule_names, as_lines(plan_.rules));
  record.note("", removed::calibration, calibration_);
  for (const auto& name : problem().models().names())
    for (auto [axis, first] : {std::pair{removed::layer, 1L}, std::pair{removed::kept_layers, 0L}}) {
      axis.name.replace(0, std::string("<model>").size(), name);
      axis.axes = {axis.name};
      record.axis(axis, first, layers_of(name));
    }
}

/// "with the layers 1 3 4", for messages.
std::string with_layers(const std::vector<int>& layers) {
  if (layers.empty()) return "without any layer";
  std::ostringstream text;
  text << "with the layers";
  for (const int l : layers) text << ' ' << l;
  return text.str();
}

std::vector<int> members_of(depth::Subset kept, int layers) {
  std::vector<int> members;
  for (int l = 1; l <= layers; ++l)
    if ((kept >> (l - 1) & 1) != 0) members.push_back(l);
  return members;
}

/// The layers that are left when the first of an order are gone.
std::vector<int> left_of(const std::vector<int>& order, Index kept) {
  std::vector<int> left(order.end() - kept, order.end());
  std::ranges::sort(left);
  return left;
}

struct Removal::Shortened {
  Shortened(const Removal& of, std::size_t seed, const std::string& name, Results& results)
      : plan(of.plan_),
        called(name + ", seed " + std::to_string(of.problem().models().seeds()[seed])),
        to(results),
        scored(with_targets(of.scored_, of.masked_share_, of.problem().models().at(seed, name), name)),
        judged(with_targets(of.problem().samples(), of.masked_share_, of.problem().models().at(seed, name),
                            name)),
        probe(of.probe(seed, name)),
        layers(*probe, cross_entropy_of(probe->spec())),
        total(scored.size() * (plan.scoring(layers.count()) + plan.searching(layers.count())) +
              judged.size() * plan.walking(layers.count())) {}

  /// Scores of all layers for each rule that has them. Nothing if the run was asked to stop, as below.
  std::map<std::string, std::vector<double>> scores();
  std::vector<int> greedy_order();
  void walk_subsets();
  depth::RemovalCurve curve(const std::vector<int>& order);
  /// The mean over orders: all of them if all subsets are tried.
  depth::RemovalCurve random_curve();
  /// Puts the best subsets.
  depth::RemovalCurve put_best();

  /// Reports these layer maps of each sample as done.
  void go_on(const SampleSet& samples, double maps, const std::string& note) {
    done += maps * static_cast<double>(samples.size());
    stopped = stopped || !to.go_on(std::min(1.0, done / total), note);
  }
  /// Throws NumericalFailure, naming what a number belongs to, unless it is finite.
  void require_finite(double number, const std::string& of) const {
    if (!std::isfinite(number)) throw NumericalFailure(called + ": the " + of + " is not finite");
  }
  void require_finite(const depth::RemovalCurve& found, const std::vector<int>& order) const {
    for (Index kept = layers.count(); kept >= 0; --kept)
      require_finite(found.loss[kept], "loss " + with_layers(left_of(order, kept)));
  }

  const RemovalPlan& plan;
  std::string called;  // for messages
  Results& to;
  SampleSet scored, judged;
  std::unique_ptr<ModelProbe> probe;
  depth::RemovableLayers layers;
  std::unique_ptr<depth::SubsetWalk> subsets = nullptr;
  double total, done = 0;  // layer maps of all samples
  bool stopped = false;
};

std::map<std::string, std::vector<double>> Removal::Shortened::scores() {
  std::map<std::string, std::vector<double>> all;
  const auto wanted = plan.scores();
  if (wanted.empty()) return all;
  depth::LayerScores found(layers, wanted);
  require_whole_samples(scored);
  for (int part = 0; part < found.parts() && !stopped; ++part) {
    scored.for_batches([&](const Batch& batch) { found.show(batch, part); });
    go_on(scored, plan.scoring(layers.count()) / found.parts(),
          "scores, part " + std::to_string(part + 1) + " of " + std::to_string(found.parts()));
  }
  found.reduce(scored.comm());
  if (stopped) return all;
  require_finite(found.loss(), "loss of the whole model");
  for (const auto score : wanted) {
    const auto& rule = rule_words[static_cast<std::size_t>(score)];
    all[rule] = found.of(score);
    for (int l = 1; l <= layers.count(); ++l)
      require_finite(all[rule][l - 1], "score " + rule + " of layer " + std::to_string(l));
  }
  return all;
}

std::vector<int> Removal::Shortened::greedy_order() {
  std::vector<int> order;
  std::vector<bool> kept(layers.count(), true);
  for (int left = layers.count(); left > 1 && !stopped; --left) {
    depth::RemovalsFrom found(layers, kept);
    accumulate(
        scored, [&](const Batch& batch) { found.show(batch); }, found);
    std::vector<int> there;
    std::vector<double> losses;
    for (int l = 1; l <= layers.count(); ++l)
      if (kept[l - 1]) there.push_back(l), losses.push_back(found.loss(l));
    for (std::size_t k = 0; k < there.size(); ++k) {
      auto without = there;
      without.erase(without.begin() + static_cast<Index>(k));
      require_finite(losses[k], "loss " + with_layers(without));
    }
    const int gone = there[depth::removal_order(losses).front() - 1];
    order.push_back(gone);
    kept[gone - 1] = false;
    go_on(scored, left * (left + 1) / 2.0, "greedy, " + std::to_string(left - 1) + " layers left");
  }
  if (stopped) return {};
  for (int l = 1; l <= layers.count(); ++l)
    if (kept[l - 1]) order.push_back(l);
  return order;
}

void Removal::Shortened::walk_subsets() {
  if (stopped) return;
  subsets = std::make_unique<depth::SubsetWalk>(layers);
  require_whole_samples(judged);
  for (depth::Subset part = 0; part < subsets->parts() && !stopped; ++part) {
    judged.for_batches([&](const Batch& batch) { subsets->show(batch, part); });
    go_on(judged, plan.walking(layers.count()) / static_cast<double>(subsets->parts()),
          "subsets, part " + std::to_string(part + 1) + " of " + std::to_string(subsets->parts()));
  }
  subsets->reduce(judged.comm());
  for (depth::Subset kept = 0; kept < depth::Subset{1} << layers.count() && !stopped; ++kept)
    require_finite(subsets->loss(kept), "loss " + with_layers(members_of(kept, layers.count())));
}

depth::RemovalCurve Removal::Shortened::curve(const std::vector<int>& order) {
  if (stopped) return {};
  if (subsets != nullptr) return subsets->along(order);
  depth::OrderWalk walk(layers, order);
  accumulate(
      judged, [&](const Batch& batch) { walk.show(batch); }, walk);
  auto found = walk.curve();
  require_finite(found, order);
  go_on(judged, depth::OrderWalk::cost(layers.count()), "orders");
  return found;
}

depth::RemovalCurve Removal::Shortened::random_curve() {
  if (subsets != nullptr) return subsets->mean();
  const std::size_t sizes = layers.count() + 1;
  depth::RemovalCurve mean{.loss = std::vector(sizes, 0.0), .correct = std::vector(sizes, 0.0)};
  for (std::size_t draw = 0; draw < plan.random_orders; ++draw) {
    std::vector<int> order;
    for (const auto place : shuffled(layers.count(), plan.seed, "layers left out", draw))
      order.push_back(static_cast<int>(place) + 1);
    const auto one = curve(order);
    if (stopped) return {};
    for (std::size_t kept = 0; kept < sizes; ++kept) {
      mean.loss[kept] += one.loss[kept] / static_cast<double>(plan.random_orders);
      mean.correct[kept] += one.correct[kept] / static_cast<double>(plan.random_orders);
    }
  }
  return mean;
}

depth::RemovalCurve Removal::Shortened::put_best() {
  depth::RemovalCurve best;
  std::vector<double> there;
  for (const auto kept : subsets->best()) {
    best.loss.push_back(subsets->loss(kept));
    best.correct.push_back(subsets->correct(kept));
    for (int l = 1; l <= layers.count(); ++l) there.push_back(static_cast<double>(kept >> (l - 1) & 1));
  }
  to.put(removed::best_loss, best.loss);
  to.put(removed::best_accuracy, best.correct);
  to.put(removed::best_layers, there);
  return best;
}

/// The place of each layer in an order, from 1.
std::vector<double> places_in(const std::vector<int>& order) {
  std::vector<double> places(order.size());
  for (std::size_t k = 0; k < order.size(); ++k) places[order[k] - 1] = static_cast<double>(k) + 1;
  return places;
}

/// A few words on a model for the end of the run: how far each rule is from the best subsets, or else what the
/// first layer to go costs.
std::string closing_words(const std::string& called, const std::vector<std::string>& rules,
                          const std::vector<depth::RemovalCurve>& curves,
                          const std::vector<double>& regrets) {
  std::ostringstream text;
  text.precision(3);
  text << called;
  bool any = false;
  for (std::size_t k = 0; k < rules.size(); ++k)
    if (std::isfinite(regrets[k])) {
      text << (any ? ", " : " regret ") << rules[k] << ' ' << regrets[k];
      any = true;
    }
  if (any) return text.str();
  const auto deepest = std::ranges::find(rules, "deepest_first") - rules.begin();
  const auto& loss = curves[deepest].loss;
  text << " loss " << loss.back() << ", " << loss[loss.size() - 2] << " without the last layer";
  return text.str();
}

void Removal::measure_model(std::size_t seed, const std::string& name, Results& to) {
  Shortened model(*this, seed, name, to);
  const int layers = model.layers.count();
  const auto scores = model.scores();
  const auto greedy = plan_.greedy(layers) ? model.greedy_order() : std::vector<int>{};
  if (plan_.subsets(layers)) model.walk_subsets();
  std::vector<double> deepest(layers);
  std::iota(deepest.rbegin(), deepest.rend(), 1);
  std::vector<double> all_scores, orders, losses, accuracies;
  std::vector<depth::RemovalCurve> curves;
  const auto append = [](std::vector<double>& all, std::vector<double> numbers, Index size) {
    numbers.resize(size, missing_value);
    all.insert(all.end(), numbers.begin(), numbers.end());
  };
  for (const auto& rule : plan_.rules) {
    const auto scored = scores.find(rule);
    const bool by_score = scored != scores.end();
    const auto order = by_score                  ? depth::removal_order(scored->second)
                       : rule == "deepest_first" ? depth::removal_order(deepest)
                       : rule == "greedy"        ? greedy
                                                 : std::vector<int>{};
    if (model.stopped) return;
    curves.push_back(rule == "random" ? model.random_curve()
                     : order.empty()  ? depth::RemovalCurve{}
                                      : model.curve(order));
    append(all_scores, by_score ? scored->second : std::vector<double>{}, layers);
    append(orders, places_in(order), layers);
    append(losses, curves.back().loss, layers + 1);
    append(accuracies, curves.back().correct, layers + 1);
  }
  if (model.stopped) return;
  std::vector<double> regrets(plan_.rules.size(), missing_value);
  if (model.subsets != nullptr) {
    const auto best = model.put_best();
    for (std::size_t k = 0; k < curves.size(); ++k)
      if (!curves[k].loss.empty()) regrets[k] = depth::regret(curves[k], best);
  }
  to.put(removed::score, all_scores);
  to.put(removed::removal_order, orders);
  to.put(removed::loss, losses);
  to.put(removed::accuracy, accuracies);
  to.put(removed::regret, regrets);
  to.say(closing_words(model.called, plan_.rules, curves, regrets));
}

void declare_removal(Options& options) {
  declare_compared(options);
  declare_study_run(options, "removal.h5");
  auto words = rule_words;
  words.push_back(all_subsets);
  options.declare(
      "removal.rules", std::vector<std::string>{},
      "rules by which layers are left out, the layer with the least score first: its influence 1 - cos, "
      "angle and relative change between the states before and behind it, its slope by a gate (dual, its "
      "size "
      "dual_abs, the mean with that of the march without it dual_mean), taylor of its weights, the loss "
      "without it (removal), the same anew each time (greedy), random orders; subsets: all of them, for the "
      "best and "
      "the mean; deepest_first always; empty: all, subsets up to 12 layers, greedy up to 24",
      {.choices = words});
  options.declare("removal.random_orders", 20L,
                  "number of random orders where subsets are not tried, whose mean is that of all orders",
                  {.minimum = 20, .maximum = 100000});
  options.declare(
      "removal.calibration", 100L,
      "number of further samples on which layers are scored; 0: those of samples.count, which decide "
      "the losses",
      {.unit = "samples", .minimum = 0});
  declare_masked_words(options);
}

}  // namespace

ExperimentEntry removal_experiment() {
  return study_entry<Removal>(
      {.name = "removal",
       .family = "depth",
       .sentence =
           "leaves layers out of trained models by usual scores, against the best subsets and deepest first",
       .cites = "docs/model.md; arXiv 2403.03853; arXiv 2403.17887; arXiv 2402.02834",
       .declare = declare_removal},
      with_masked_share_of_models);
}

}  // namespace fluxformer
