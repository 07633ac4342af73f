// `perturbation`: response of a Transformer and its PDE models to noise, blanked tokens and adversarial
// steps.

#include <sstream>

#include "analysis/perturbation/perturbation_variables.hpp"
#include "analysis/perturbation/perturbed_model.hpp"
#include "base/error.hpp"
#include "data/images/image_tokens.hpp"
#include "drivers/compare/model_study.hpp"
#include "drivers/registry.hpp"

namespace fluxformer {

namespace perturbed = perturbation::variables;

namespace {

/// A key that lists levels, and the axis of its levels.
struct Levels {
  const char* key;
  const io::Variable& axis;
  std::vector<double> fallback;
  const char* doc;
  double maximum;
  bool of_features;
};
constexpr double any = 1e6;
const Levels level_keys[] = {
    {"perturbation.noise",
     perturbed::noise_level,
     {0.1, 0.2, 0.5, 1, 2},
     "standard deviations of Gaussian noise on the embedded input, relative to its root mean square in the "
     "sample; empty: none, as in the other lists",
     any,
     false},
    {"perturbation.dropped",
     perturbed::dropped_share,
     {0.1, 0.25, 0.5, 0.75},
     "fractions of the tokens that are blanked: features set to 0 (the mean pixel of images), words to <unk>",
     1,
     false},
    {"perturbation.attack",
     perturbed::attack_level,
     {0.01, 0.02, 0.05, 0.1},
     "sizes of adversarial steps on the embedded input: the maximum norm relative to the root mean square of "
     "the sample (FGSM, PGD), the relative Euclidean norm along the worst direction",
     any,
     false},
    {"perturbation.feature_noise",
     perturbed::feature_noise_level,
     {0.25, 0.5, 1, 2},
     "standard deviations of Gaussian noise on the features, in their units (images: the standard deviation "
     "of a pixel, 0.3081 of the range from black to white); not for words",
     any,
     true},
    {"perturbation.feature_attack",
     perturbed::feature_attack_level,
     {0.05, 0.1, 0.2},
     "sizes of adversarial steps on the features, in the maximum norm and their units; pixels stay between "
     "black and white; not for words",
     any,
     true},
};

perturbation::InputRange range_of(const data::Dataset& data) {
  if (dynamic_cast<const data::ImageDataset*>(&data) == nullptr) return {};
  const auto feature = [](double ink) {
    return (ink - data::ImageDataset::pixel_mean) / data::ImageDataset::pixel_deviation;
  };
  return {feature(0), feature(1)};
}

perturbation::PerturbationPlan plan_of(const Settings& settings, const CompareProblem& problem) {
  perturbation::PerturbationPlan plan;
  for (const auto& one : level_keys) {
    auto levels = settings.reals(one.key);
    if (one.of_features && problem.data().vocabulary() > 0) {
      if (settings.given(one.key) && !levels.empty())
        throw BadInput(std::string(one.key) + ": the tokens of data.set = " + problem.data().name() +
                       " are words and have no features");
      levels.clear();
    }
    if (&one.axis == &perturbed::dropped_share && problem.data().vocabulary() > 0 &&
        problem.data().unknown_word() < 0) {
      if (settings.given(one.key) && !levels.empty())
        throw BadInput(std::string(one.key) + ": " + problem.data().why_no_variants());
      levels.clear();
    }
    plan.levels[one.axis.name] = levels;
  }
  plan.pgd_steps = settings.count("perturbation.pgd_steps");
  plan.random_start = settings.flag("perturbation.random_start");
  plan.jacobian = settings.flag("perturbation.jacobian");
  plan.growth = settings.real("perturbation.growth");
  plan.range = range_of(problem.data());
  plan.seed = static_cast<std::uint64_t>(settings.integer("run.seed"));
  return plan;
}

class Perturbation final : public ModelStudy {
 public:
  Perturbation(const Settings& settings, MPI_Comm comm)
      : ModelStudy(settings, comm), plan_(plan_of(settings, problem())) {
    problem().require_classes("the accuracy");
  }
  static study::Contents contents();

 protected:
  void add_axes(StudyRecord& record) override;
  void measure_model(std::size_t seed, const std::string& name, Results& to) override;

 private:
  perturbation::PerturbationPlan plan_;
};

study::Contents Perturbation::contents() {
  using namespace perturbation::variables;
  std::vector<io::Variable> coordinates{axes::test_sample}, measures{accuracy,
                                                                     accuracy_by_sample,
                                                                     loss,
                                                                     growth,
                                                                     tangent_growth,
                                                                     largest_singular_value,
                                                                     relative_singular_value};
  for (const auto& one : level_keys) coordinates.push_back(one.axis);
  for (const auto& kind : kinds()) {
    const auto to = response(kind);
    for (const auto& one :
         {to.accuracy, to.accuracy_by_sample, to.loss, to.change, to.sensitivity, to.not_finite})
      measures.push_back(one);
  }
  return compare::with_models({coordinates, {classes}, {}, measures});
}

void Perturbation::add_axes(StudyRecord& record) {
  record.samples(problem().members());
  record.note("", perturbed::classes, static_cast<long>(problem().data().classes()));
  for (const auto& one : level_keys)
    if (const auto& levels = plan_.levels.at(one.axis.name); !levels.empty()) record.axis(one.axis, levels);
}

void Perturbation::measure_model(std::size_t seed, const std::string& name, Results& to) {
  const auto own = probe(seed, name);
  perturbation::PerturbedModel model(*own, plan_, problem().samples());
  accumulate(
      problem().samples(), [&](const Batch& batch) { model.show(batch); }, model);

  const auto clean = model.clean().result();
  to.put(perturbed::accuracy, clean.accuracy);
  to.put(perturbed::accuracy_by_sample, model.clean().correct_by_sample());
  to.put(perturbed::loss, clean.loss);
  to.put(perturbed::growth, model.growth().growth());
  to.put(perturbed::tangent_growth, model.tangent_growth().growth());
  if (plan_.jacobian) {
    to.put(perturbed::largest_singular_value, {model.jacobian().singular_values().front()});
    to.put(perturbed::relative_singular_value, {model.jacobian().worst_sensitivity()});
  }
  std::ostringstream text;
  text << name << " accuracy " << 100 * clean.accuracy[0] << " %, growth " << model.growth().growth().back();
  to.say(text.str());
  for (const auto& [kind, responses] : model.curves()) {
    const auto m = responses.result();
    const auto of = perturbed::response(kind);
    to.put(of.accuracy, m.accuracy);
    to.put(of.accuracy_by_sample, responses.correct_by_sample());
    to.put(of.loss, m.loss);
    to.put(of.change, m.input_change);
    to.put(of.sensitivity, m.sensitivity);
    to.put(of.not_finite, {m.not_finite.begin(), m.not_finite.end()});
  }
}

void declare_perturbation(Options& options) {
  declare_compared(options);
  declare_study_run(options, "perturbation.h5");
  for (const auto& one : level_keys)
    options.declare(one.key, one.fallback, one.doc, {.minimum = 0, .maximum = one.maximum});
  options.declare("perturbation.pgd_steps", 10L,
                  "number of sign steps of PGD, each 2.5 / steps times the level; 0: no PGD", {.minimum = 0});
  options.declare("perturbation.random_start", false,
                  "start PGD from a random point of its ball, not from the clean input");
  options.declare("perturbation.growth", 1e-3,
                  "level of the noise on the embedded input whose growth through depth is measured",
                  {.minimum = 0, .above_minimum = true});
  options.declare("perturbation.jacobian", true,
                  "compute the largest singular value of the Jacobian of the logits and its direction; takes "
                  "one backward pass and one state in memory for each class");
}

}  // namespace

ExperimentEntry perturbation_experiment() {
  return study_entry<Perturbation>(
      {.name = "perturbation",
       .family = "compare",
       .sentence = "perturbs the inputs of a Transformer and of its PDE models: noise, blanked tokens, "
                   "attacks",
       .cites = "docs/model.md; arXiv 2408.09523, 1412.6572, 1706.06083",
       .declare = declare_perturbation});
}

}  // namespace fluxformer
