// `ablation`: what the residual connection and the normalisation do to a Transformer and to its PDE, each
// variant trained from several seeds.

#include <algorithm>
#include <cmath>
#include <functional>
#include <iomanip>
#include <limits>
#include <memory>
#include <numeric>
#include <sstream>

#include "base/error.hpp"
#include "base/statistics.hpp"
#include "drivers/ablation/ablation_run.hpp"
#include "drivers/ablation/ablation_variables.hpp"
#include "drivers/common/data_options.hpp"
#include "drivers/common/model_options.hpp"
#include "drivers/common/run_options.hpp"
#include "drivers/compare/model_study.hpp"
#include "drivers/registry.hpp"
#include "drivers/study/study.hpp"
#include "drivers/train/train_checks.hpp"
#include "drivers/train/train_options.hpp"
#include "drivers/train/train_problem.hpp"
#include "io/digest.hpp"
#include "model/depth_model.hpp"

namespace fluxformer {
namespace {

void declare_ablation(Options& options) {
  options.declare(
      "ablation.models", std::vector<std::string>{"transformer", "pde"},
      "models to train, all with one depth cell per layer; model.knots, equation.kappa and equation.nu apply "
      "to the pde only",
      {.choices = {"transformer", "pde"}, .not_empty = true});
  options.declare("ablation.residual", std::vector<std::string>{"on", "off"},
                  "residual connection of each sub-layer: it adds to the state (on) or replaces it (off)",
                  {.choices = {"on", "off"}, .not_empty = true});
  options.declare("ablation.norm", std::vector<std::string>{"none", "pre", "post"}, "placements of LayerNorm",
                  {.choices = {"none", "pre", "post"}, .not_empty = true});
  options.declare("ablation.seeds", std::vector<long>{1, 2, 3},
                  "seeds; each variant is trained once with each of them as model.seed and run.seed",
                  {.minimum = 0, .maximum = std::numeric_limits<int>::max(), .not_empty = true});
  options.declare(
      "ablation.diverged", 10.0,
      "a training has diverged if a loss is not finite, or if from some epoch to the end most losses of each "
      "epoch exceed this multiple of the loss at zero logits (ln of the number of classes)",
      {.minimum = 1});
  declare_model_options(options);
  declare_data_options(options);
  declare_training(options);
  options.declare(seed_option("set by ablation.seeds"));
  declare_study_run(options, "ablation.h5");
}

/// Keys that the variants and their seeds decide.
constexpr const char* decided[][2] = {{"model.kind", "ablation.models"},
                                      {"depth.residual", "ablation.residual"},
                                      {"depth.norm", "ablation.norm"},
                                      {"model.seed", "ablation.seeds"},
                                      {"run.seed", "ablation.seeds"}};

void refuse_what_variants_decide(const Settings& settings) {
  for (const auto& [key, by] : decided)
    if (settings.given(key))
      throw BadInput(std::string(key) + ": leave it out; " + by + " lists the values to use");
  if (const auto& objective = settings.word("train.objective"); objective != "classes")
    throw BadInput("train.objective = " + objective + ": the ablation trains classifiers; leave it out");
  if (!settings.word("model.file").empty())
    throw BadInput("model.file: the ablation trains its own models; leave it out");
  const int cells = settings.count("mesh.cells"), layers = settings.count("mesh.layers");
  if ((cells != 0 && cells != layers) || !settings.word("mesh.edges").empty() ||
      settings.real("equation.c") != 1)
    throw BadInput(
        "mesh.cells, mesh.edges, equation.c: the ablation solves all variants on one cell per layer with c = "
        "1, which norm post and residual off require; leave them out");
  if (settings.count("mesh.ranks_token") > 1)
    throw BadInput("mesh.ranks_token = " + std::to_string(settings.count("mesh.ranks_token")) +
                   ": the ranks of an ablation share samples only; leave it out");
  if (settings.count("mesh.ranks_depth") > 1)
    throw BadInput("mesh.ranks_depth = " + std::to_string(settings.count("mesh.ranks_depth")) +
                   ": every rank needs the whole model to measure its states");
  if (settings.word("adjoint.method") != AdjointSettings::layer_map_name)
    throw BadInput("adjoint.method = " + settings.word("adjoint.method") +
                   ": norm post and residual off support 1fe only; leave it out");
}

/// Settings without the keys that the variants decide. Throws BadInput for those that are given.
Settings without_decided(Settings settings) {
  refuse_what_variants_decide(settings);
  for (const auto& [key, by] : decided) settings.leave_to_file(key);
  return settings;
}

class Ablation final : public Study {
 public:
  /// Collective; throws BadInput (agreed).
  Ablation(const Settings& settings, MPI_Comm comm);
  static study::Contents contents();
  std::string describe() const override { return description_; }
  /// Variant by variant, seed by seed.
  std::vector<Place> places() const override;
  std::string unit() const override { return "trainings"; }
  int ranks_of_place() const override { return all_ranks; }
  std::vector<Source> sources() const override { return sources_; }
  void begin(StudyRecord& record) override;
  /// Trains a variant from a seed, and measures its states.
  void measure(const Place& place, Results& to) override;
  bool half_way() const override { return training_ != nullptr; }
  void save(io::CheckpointWriter& file) const override { training_->save(file); }
  void load(const Place& place, const io::CheckpointReader& file) override;
  /// After each epoch, as in train: a kill loses no more.
  bool worth_keeping() const override { return !training_ || training_->steps() % per_epoch_ == 0; }
  bool conclude(const Findings& found, RunFrame& frame, StudyRecord& record) override;
  /// A line of results for each variant, over all seeds.
  std::string summary(const Findings& found) const override;

 private:
  /// Notes the samples that the trainings from each seed read; `first` is the first training.
  void look_at_samples(const TrainProblem& first);
  /// The training of a place, at its start.
  std::unique_ptr<AblationTraining> training_of(const Place& place) const;
  /// Values of a variable without axes of its own, by seed.
  std::vector<double> over_seeds(const Findings& found, const Variant& variant,
                                 const std::function<double(std::size_t place)>& of_place) const;
  /// Number of seeds for which a variant diverged.
  long diverged(const Findings& found, const Variant& variant) const;

  AblationPlan plan_;
  MPI_Comm comm_;
  std::vector<long> parameters_;     // number for each variant
  long steps_ = 0, per_epoch_ = 1;   // steps of a training, and of an epoch
  long samples_ = 0;                 // number of test samples
  std::vector<std::size_t> tested_;  // test samples of every seed; empty if seeds differ in them
  std::vector<Source> sources_;
  double limit_ = 0;
  std::string description_;
  std::unique_ptr<AblationTraining> training_;  // of the present place; null between two
};

Ablation::Ablation(const Settings& settings, MPI_Comm comm) : plan_(ablation_plan_of(settings)), comm_(comm) {
  // The first training is built completely; for the other variants only the model can still be invalid.
  const long seed = plan_.seeds.front();
  const TrainProblem first(plan_.variants.front().training_from(seed), comm);
  if (first.members.testing.empty())
    throw BadInput("data.set = " + first.test->name() +
                   ": no test sample has a label, which the accuracy of an ablation needs; give them labels");
  for (const auto& variant : plan_.variants) {
    const auto own = variant.training_from(seed);
    const auto parameters = make_parameters(own.model, shape_of(*first.train), comm);
    const auto model = make_depth_model(parameters, first.slab, own.precision);
    stable_coefficients(own, parameters, model->coefficients(), *first.line);
    parameters_.push_back(static_cast<long>(parameters.values.size()));
  }
  steps_ = first.total_steps();
  per_epoch_ = first.batches->per_epoch();
  samples_ = static_cast<long>(first.members.testing.size());
  if (const auto& teacher = first.teacher_parameters)
    sources_.push_back({.called = "distill.teacher = " + first.plan.objective.teacher,
                        .digest = io::digest_of(teacher->values.data(), std::ssize(teacher->values))});
  look_at_samples(first);
  limit_ = plan_.diverged * guess_loss(first.plan.objective.loss, first.parameters->spec.classes);
  std::ostringstream text;
  text << plan_.variants.size() << " variants x " << plan_.seeds.size() << " seeds, the first of them:\n"
       << first.describe();
  description_ = text.str();
}

void Ablation::look_at_samples(const TrainProblem& first) {
  tested_ = first.members.testing;
  for (const long seed : plan_.seeds) {
    const auto plan = plan_.variants.front().training_from(seed);
    // Each seed draws its own samples, of the same files or of built-in data that are its own, too.
    const auto& of = plan.samples.data;
    std::unique_ptr<data::Dataset> own_train, own_test;
    if (of.set.built_in()) {
      own_train = open_data(of, "train", {}, comm_);
      own_test = open_data(of, "test", known_input(*own_train), comm_);
    }
    const auto &train = own_train ? *own_train : *first.train, &test = own_test ? *own_test : *first.test;
    const auto members = draw_members(plan, train, test, 0);
    sources_.push_back(
        {.called = "data.set = " + train.name(),
         .digest = digest_of_samples(train, members.training) + digest_of_samples(test, members.testing)});
    if (members.testing != first.members.testing) tested_.clear();
  }
}

std::vector<Place> Ablation::places() const {
  std::vector<Place> all;
  for (const auto& variant : plan_.variants)
    for (std::size_t s = 0; s < plan_.seeds.size(); ++s)
      all.push_back({.group = variant.name(),
                     .name = variant.name() + ", seed " + std::to_string(plan_.seeds[s]),
                     .index = {{axes::seed.name, s}}});
  return all;
}

void Ablation::begin(StudyRecord& record) {
  const auto count = [](long n) {
    std::vector<double> list(n);
    std::iota(list.begin(), list.end(), 0);
    return list;
  };
  record.seeds(plan_.seeds);
  record.axis(axes::step, count(steps_));
  record.axis(axes::depth, count(plan_.variants.front().spec().layers + 1));
  if (!tested_.empty()) record.samples(tested_);
  record.note("", study::samples, samples_);
  record.note("", ablation::loss_limit, limit_);
  for (std::size_t v = 0; v < plan_.variants.size(); ++v) {
    const auto name = plan_.variants[v].name();
    const auto& spec = plan_.variants[v].spec();
    record.note(name, ablation::kind, to_word(spec.kind));
    record.note(name, ablation::residual, std::string(spec.residual ? "on" : "off"));
    record.note(name, compare::norm, to_word(spec.norm));
    record.note(name, compare::parameters, parameters_[v]);
  }
}

std::unique_ptr<AblationTraining> Ablation::training_of(const Place& place) const {
  const auto variant = std::ranges::find(plan_.variants, place.group, &Variant::name);
  return std::make_unique<AblationTraining>(variant->training_from(plan_.seeds[place.along(axes::seed)]),
                                            comm_, limit_);
}

void Ablation::load(const Place& place, const io::CheckpointReader& file) {
  training_ = training_of(place);
  training_->load(file);
}

void Ablation::measure(const Place& place, Results& to) {
  if (!training_) training_ = training_of(place);
  const bool complete = training_->train([&](long steps, double loss) {
    std::ostringstream note;
    note << "loss " << std::setprecision(4) << loss;
    return to.go_on(static_cast<double>(steps) / static_cast<double>(steps_), note.str());
  });
  if (!complete) return;
  const auto run = training_->result();
  training_.reset();
  to.put(ablation::loss, run.loss);
  to.put(ablation::diverged_step, {run.diverged_step});
  to.put(ablation::diverged_epoch, {run.diverged_epoch});
  to.put(ablation::test_accuracy, {run.tested.accuracy});
  to.put(ablation::norm, run.tested.by_layer.norm);
  to.put(ablation::drift, run.tested.by_layer.drift);
  to.put(ablation::step_change, run.tested.by_layer.step_change);
  if (tested_.empty()) return;
  to.put(ablation::test_accuracy_by_sample, run.tested.correct_by_sample);
  to.put(ablation::norm_by_sample, run.tested.norm_by_sample);
  to.put(ablation::drift_by_sample, run.tested.drift_by_sample);
}

std::vector<double> Ablation::over_seeds(const Findings& found, const Variant& variant,
                                         const std::function<double(std::size_t place)>& of_place) const {
  std::vector<double> values;
  for (std::size_t k = 0; k < found.count(); ++k)
    if (found.places()[k].group == variant.name()) values.push_back(of_place(k));
  return values;
}

long Ablation::diverged(const Findings& found, const Variant& variant) const {
  const auto steps =
      over_seeds(found, variant, [&](std::size_t k) { return found.at(k, ablation::diverged_step).front(); });
  return static_cast<long>(std::ranges::count_if(steps, [](double step) { return !std::isnan(step); }));
}

bool Ablation::conclude(const Findings& found, RunFrame& frame, StudyRecord& record) {
  for (const auto& variant : plan_.variants)
    record.note(variant.name(), ablation::diverged, diverged(found, variant));
  return Study::conclude(found, frame, record);
}

std::string Ablation::summary(const Findings& found) const {
  std::ostringstream text;
  text << steps_ << " steps each";
  for (const auto& variant : plan_.variants) {
    const auto mean_of = [&](const io::Variable& variable) {
      return mean(over_seeds(found, variant, [&](std::size_t k) { return found.at(k, variable).back(); }));
    };
    text << '\n'
         << std::left << std::setw(29) << variant.name() << std::right << std::fixed << std::setprecision(1)
         << "accuracy " << std::setw(5) << 100 * mean_of(ablation::test_accuracy) << " %, "
         << std::setprecision(3) << "drift " << mean_of(ablation::drift) << ", norm " << std::defaultfloat
         << mean_of(ablation::norm) << ", diverged " << diverged(found, variant) << " of "
         << plan_.seeds.size();
  }
  return text.str();
}

study::Contents Ablation::contents() {
  using namespace ablation;
  return {{axes::step, axes::depth, axes::test_sample},
          {loss_limit},
          {kind, residual, compare::norm, compare::parameters, ablation::diverged},
          {loss, diverged_step, diverged_epoch, test_accuracy, norm, drift, step_change,
           test_accuracy_by_sample, norm_by_sample, drift_by_sample}};
}

}  // namespace

ExperimentEntry ablation_experiment() {
  return study_entry<Ablation>(
      {.name = "ablation",
       .family = "ablation",
       .sentence = "trains Transformer and PDE with and without residual connection and normalisation",
       .cites = "docs/model.md; arXiv 2408.09523",
       .declare = declare_ablation},
      without_decided);
}

}  // namespace fluxformer
