#include "drivers/compare/perturbation_experiment.hpp"

#include <sstream>

#include "base/error.hpp"
#include "data/images/image_tokens.hpp"
#include "drivers/compare/compare_options.hpp"
#include "drivers/compare/comparison.hpp"
#include "drivers/compare/perturbed_model.hpp"
#include "io/schema_comparisons.hpp"
#include "io/schema_perturbation.hpp"

namespace fluxformer {
namespace {

/// Keys that list levels, and their axes.
struct Levels {
  const char *key, *axis, *fallback, *doc;
  double maximum;
  bool of_features;
};
constexpr double any = 1e6;
constexpr Levels level_keys[] = {
    {"perturbation.noise", names::noise_level, "0.1, 0.2, 0.5, 1, 2",
     "deviations of Gaussian noise on the embedded input, over its root mean square in the sample; empty: "
     "none, as with the other lists",
     any, false},
    {"perturbation.dropped", names::dropped_share, "0.1, 0.25, 0.5, 0.75",
     "shares of the tokens that are emptied: features 0 (of images the mean pixel), words <unk>", 1, false},
    {"perturbation.attack", names::attack_level, "0.01, 0.02, 0.05, 0.1",
     "adversarial steps of the embedded input, the largest change of a number over the root mean square in "
     "the sample (FGSM, PGD), and along the worst direction, norm over norm",
     any, false},
    {"perturbation.feature_noise", names::feature_noise_level, "0.25, 0.5, 1, 2",
     "deviations of Gaussian noise on the features, in their units (of images: the deviation of a pixel, "
     "0.3081 of black to white); none for words",
     any, true},
    {"perturbation.feature_attack", names::feature_attack_level, "0.05, 0.1, 0.2",
     "adversarial steps of the features, the largest change of one in its units; pixels stay between black "
     "and white; none for words",
     any, true},
};

perturbation::InputRange range_of(const data::Dataset& data) {
  if (dynamic_cast<const data::ImageDataset*>(&data) == nullptr) return {};
  const auto feature = [](double ink) {
    return (ink - data::ImageDataset::pixel_mean) / data::ImageDataset::pixel_deviation;
  };
  return {feature(0), feature(1)};
}

PerturbationPlan plan_of(const Settings& settings, const CompareProblem& problem) {
  PerturbationPlan plan;
  for (const auto& one : level_keys) {
    auto levels = number_list(settings, one.key, 0, one.maximum);
    if (one.of_features && problem.data().vocabulary() > 0) {
      if (settings.given(one.key) && !levels.empty())
        throw BadInput(std::string(one.key) + ": the tokens of data.set = " + problem.data().name() +
                       " are words and have no features");
      levels.clear();
    }
    plan.levels[one.axis] = levels;
  }
  plan.pgd_steps = settings.count("perturbation.pgd_steps");
  plan.random_start = settings.flag("perturbation.random_start");
  plan.jacobian = settings.flag("perturbation.jacobian");
  plan.growth = settings.real("perturbation.growth");
  plan.range = range_of(problem.data());
  plan.seed = static_cast<std::uint64_t>(settings.integer("run.seed"));
  return plan;
}

class Perturbation final : public Comparison {
 public:
  Perturbation(const Settings& settings, const CompareProblem& problem)
      : problem_(problem), plan_(plan_of(settings, problem)) {}

  void begin(CompareRecord& record) override {
    for (const auto& [axis, levels] : plan_.levels)
      if (!levels.empty()) record.axis(axis, levels);
  }
  void measure(std::size_t seed, const std::string& name, CompareRecord& record) override;
  std::string summary() const override { return summary_.str(); }

 private:
  const CompareProblem& problem_;
  PerturbationPlan plan_;
  std::ostringstream summary_;
};

void Perturbation::measure(std::size_t seed, const std::string& name, CompareRecord& record) {
  const auto probe = problem_.probe(problem_.models().at(seed, name).parameters);
  PerturbedModel model(*probe, plan_);
  problem_.for_samples(problem_.members(), [&](const Batch& batch) {
    auto named = batch;  // draws belong to a sample of the data, not to its place in the list
    for (long& key : named.key) key = static_cast<long>(problem_.members()[static_cast<std::size_t>(key)]);
    model.show(named);
  });
  model.for_sums([&](std::vector<double>& numbers) { problem_.sum(numbers); });

  const auto clean = model.clean().measures();
  const auto depth = names::model_depth(name);
  record.add(name, "accuracy", {}, clean.accuracy);
  record.add(name, "loss", {}, clean.loss);
  record.add(name, "growth", {depth}, model.growth().growth());
  record.add(name, "tangent_growth", {depth}, model.tangent_growth().growth());
  if (plan_.jacobian) {
    record.add(name, "largest_singular_value", {}, {model.jacobian().singular_values().front()});
    record.add(name, "relative_singular_value", {}, {model.jacobian().worst_sensitivity()});
  }
  summary_ << (summary_.str().empty() ? "" : "; ") << name << " accuracy " << 100 * clean.accuracy[0]
           << " %, growth " << model.growth().growth().back();
  for (const auto& [kind, axis, responses] : model.curves()) {
    const auto m = responses.measures();
    record.add(name, kind + "_accuracy", {axis}, m.accuracy);
    record.add(name, kind + "_loss", {axis}, m.loss);
    record.add(name, kind + "_change", {axis}, m.input_change);
    record.add(name, kind + "_sensitivity", {axis}, m.sensitivity);
    record.add(name, kind + "_not_finite", {axis}, {m.not_finite.begin(), m.not_finite.end()});
  }
}

}  // namespace

void declare_perturbation(Options& options) {
  declare_compare_options(options, "perturbation.h5");
  for (const auto& one : level_keys)
    options.declare({.name = one.key, .fallback = std::string(one.fallback), .doc = one.doc});
  options.declare({.name = "perturbation.pgd_steps",
                   .fallback = 10L,
                   .doc = "sign steps of PGD, each of 2.5 / steps of the level; 0: no PGD",
                   .minimum = 0});
  options.declare({.name = "perturbation.random_start",
                   .fallback = false,
                   .doc = "PGD begins at a random place of its ball, not at the clean input"});
  options.declare({.name = "perturbation.growth",
                   .fallback = 1e-3,
                   .doc = "level of the noise on the embedded input whose growth through depth is followed",
                   .minimum = 0,
                   .above_minimum = true});
  options.declare({.name = "perturbation.jacobian",
                   .fallback = true,
                   .doc = "the largest singular value of the Jacobian of the logits and its direction; one "
                          "backward pass and one state in memory for each class"});
}

std::unique_ptr<Experiment> make_perturbation(const Settings& settings, const RunContext& context) {
  return make_comparison(
      "perturbation", "docs/model.md; arXiv 2408.09523, 1412.6572, 1706.06083", settings, context,
      [](const Settings& s, const CompareProblem& p) { return std::make_unique<Perturbation>(s, p); });
}

}  // namespace fluxformer
