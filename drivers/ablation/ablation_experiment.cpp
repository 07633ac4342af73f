#include "drivers/ablation/ablation_experiment.hpp"

#include <algorithm>
#include <iomanip>
#include <limits>
#include <numeric>
#include <sstream>
#include <utility>

#include "base/error.hpp"
#include "base/progress.hpp"
#include "base/session.hpp"
#include "base/statistics.hpp"
#include "drivers/ablation/ablation_run.hpp"
#include "drivers/ablation/ablation_variables.hpp"
#include "drivers/common/data_options.hpp"
#include "drivers/common/model_options.hpp"
#include "drivers/common/model_settings.hpp"
#include "drivers/common/run_frame.hpp"
#include "drivers/common/run_options.hpp"
#include "drivers/compare/compare_variables.hpp"
#include "drivers/study/study_record.hpp"
#include "drivers/train/train_checks.hpp"
#include "drivers/train/train_options.hpp"
#include "drivers/train/train_problem.hpp"
#include "model/depth_model.hpp"

namespace fluxformer {
void declare_ablation(Options& options) {
  const auto declare = [&](Option option) { options.declare(std::move(option)); };
  declare({.name = "ablation.models",
           .fallback = std::vector<std::string>{"transformer", "pde"},
           .doc =
               "models to train, all with one depth cell per layer; model.knots and equation.kappa apply to "
               "the pde only",
           .choices = {"transformer", "pde"},
           .not_empty = true});
  declare({.name = "ablation.residual",
           .fallback = std::vector<std::string>{"on", "off"},
           .doc = "residual connection of each sub-layer: it adds to the state (on) or replaces it (off)",
           .choices = {"on", "off"},
           .not_empty = true});
  declare({.name = "ablation.norm",
           .fallback = std::vector<std::string>{"none", "pre", "post"},
           .doc = "placements of LayerNorm",
           .choices = {"none", "pre", "post"},
           .not_empty = true});
  declare({.name = "ablation.seeds",
           .fallback = std::vector<long>{1, 2, 3},
           .doc = "seeds; each variant is trained once with each of them as model.seed and run.seed",
           .minimum = 0,
           .maximum = std::numeric_limits<int>::max(),
           .not_empty = true});
  declare(
      {.name = "ablation.diverged",
       .fallback = 10.0,
       .doc = "a training has diverged if a loss is not finite, or if from some epoch to the end most losses "
              "of each epoch exceed this multiple of the loss at zero logits (ln of the number of classes)",
       .minimum = 1});
  declare_model_options(options);
  declare_data_options(options);
  declare_training(options);
  declare(output_option("ablation.h5"));
  declare(overwrite_option());
  declare(seed_option("set by ablation.seeds"));
  declare(time_limit_option("wall time after which the run ends without a result; 0: none"));
}

namespace {

/// Keys that the variants and their seeds decide.
constexpr const char* decided[][2] = {{"model.kind", "ablation.models"},
                                      {"depth.residual", "ablation.residual"},
                                      {"depth.norm", "ablation.norm"},
                                      {"model.seed", "ablation.seeds"},
                                      {"run.seed", "ablation.seeds"}};

/// Keys of the PDE model alone: depth knots and diffusion over tokens.
const std::vector<std::string> pde_keys = {"model.knots", "model.kappa", "equation.kappa"};

void refuse_what_variants_decide(const Settings& settings) {
  for (const auto& [key, by] : decided)
    if (settings.given(key))
      throw BadInput(std::string(key) + ": leave it out; " + by + " lists the values to use");
  if (guesses_words(settings))
    throw BadInput("train.objective = masked: the ablation trains classifiers; leave it out");
  if (!settings.word("model.file").empty())
    throw BadInput("model.file: the ablation trains its own models; leave it out");
  const int cells = settings.count("mesh.cells"), layers = settings.count("mesh.layers");
  if ((cells != 0 && cells != layers) || settings.real("equation.c") != 1)
    throw BadInput(
        "mesh.cells, equation.c: the ablation solves all variants on one cell per layer with c = 1, which "
        "norm post and residual off require; leave them out");
  if (settings.count("mesh.ranks_token") > 1)
    throw BadInput("mesh.ranks_token = " + std::to_string(settings.count("mesh.ranks_token")) +
                   ": the ranks of an ablation share samples only; leave it out");
  if (settings.word("adjoint.method") != "1fe")
    throw BadInput("adjoint.method = " + settings.word("adjoint.method") +
                   ": norm post and residual off support 1fe only; leave it out");
}

class AblationExperiment final : public Experiment {
 public:
  AblationExperiment(const Settings& settings, const RunContext& context);
  std::string describe() const override { return description_; }
  Report run() override;

 private:
  /// Settings of the deck for one training.
  Settings settings_of(const Variant& variant, long seed) const;
  void add(const Variant& variant, const AblationRun& run, double seconds, StudyRecord& record) const;
  /// The outcome of every test sample, if all seeds are tested on the same samples in the same order.
  void add_samples(const Variant& variant, const std::vector<AblationRun>& runs, StudyRecord& record) const;
  /// One line of results for a variant, over all seeds.
  std::string outcome(const Variant& variant, const std::vector<AblationRun>& runs) const;

  Settings settings_;
  RunContext context_;
  RunFrame frame_{settings_, context_};
  std::vector<long> seeds_;
  std::vector<Variant> variants_;
  std::vector<long> parameters_;  // number for each variant
  long steps_ = 0, samples_ = 0;  // steps of a training; number of test samples
  double limit_ = 0;
  std::string description_;
};

AblationExperiment::AblationExperiment(const Settings& settings, const RunContext& context)
    : settings_(settings), context_(context), seeds_(settings.integers("ablation.seeds")) {
  refuse_what_variants_decide(settings);
  for (const auto& [key, by] : decided) settings_.leave_to_file(key);
  for (const auto& kind : settings.words("ablation.models"))
    for (const auto& residual : settings.words("ablation.residual"))
      for (const auto& norm : settings.words("ablation.norm"))
        variants_.push_back({kind, residual == "on", norm});

  if (settings.count("mesh.ranks_depth") > 1)
    throw BadInput("mesh.ranks_depth = " + std::to_string(settings.count("mesh.ranks_depth")) +
                   ": every rank needs the whole model to measure its states");

  // The first training is built completely; for the other variants only the model can still be invalid.
  const TrainProblem first(settings_of(variants_.front(), seeds_.front()), context.comm);
  if (first.members.testing.empty())
    throw BadInput("data.set = " + first.test->name() +
                   ": no test sample has a label, which the accuracy of an ablation needs; give them labels");
  for (const auto& variant : variants_) {
    const auto own = settings_of(variant, seeds_.front());
    const auto parameters = make_parameters(own, shape_of(*first.train), context.comm);
    make_depth_model(parameters, first.slab, precision_of(own));
    largest_kappa(own, parameters, first.line);
    parameters_.push_back(static_cast<long>(parameters.values.size()));
  }
  steps_ = first.total_steps();
  samples_ = static_cast<long>(first.members.testing.size());
  limit_ = settings.real("ablation.diverged") * guess_loss(settings, first.parameters.spec.classes);
  std::ostringstream text;
  text << variants_.size() << " variants x " << seeds_.size() << " seeds, the first of them:\n"
       << first.describe();
  description_ = text.str();
}

Settings AblationExperiment::settings_of(const Variant& variant, long seed) const {
  const auto deck = variant.kind == "transformer" ? settings_.without(pde_keys) : settings_;
  return deck.with({{"model.kind", variant.kind},
                    {"depth.norm", variant.norm},
                    {"depth.residual", variant.residual},
                    {"model.seed", seed},
                    {"run.seed", seed}});
}

void AblationExperiment::add(const Variant& variant, const AblationRun& run, double seconds,
                             StudyRecord& record) const {
  const auto name = variant.name();
  record.add(name, ablation::loss, run.loss);
  record.add(name, ablation::diverged_step, {run.diverged_step});
  record.add(name, ablation::diverged_epoch, {run.diverged_epoch});
  record.add(name, ablation::test_accuracy, {run.tested.accuracy});
  record.add(name, ablation::norm, run.tested.by_layer.norm);
  record.add(name, ablation::drift, run.tested.by_layer.drift);
  record.add(name, ablation::step_change, run.tested.by_layer.step_change);
  record.add(name, study::seconds, {seconds});
}

void AblationExperiment::add_samples(const Variant& variant, const std::vector<AblationRun>& runs,
                                     StudyRecord& record) const {
  const auto& first = runs.front().testing;
  if (std::ranges::any_of(runs, [&](const AblationRun& run) { return run.testing != first; })) return;
  if (&variant == &variants_.front()) record.samples(first);
  for (const auto& run : runs) {
    record.add(variant.name(), ablation::test_accuracy_by_sample, run.tested.correct_by_sample);
    record.add(variant.name(), ablation::norm_by_sample, run.tested.norm_by_sample);
    record.add(variant.name(), ablation::drift_by_sample, run.tested.drift_by_sample);
  }
}

std::string AblationExperiment::outcome(const Variant& variant, const std::vector<AblationRun>& runs) const {
  std::vector<double> accuracy, drift, norm;
  long diverged = 0;
  for (const auto& run : runs) {
    accuracy.push_back(run.tested.accuracy);
    drift.push_back(run.tested.by_layer.drift.back());
    norm.push_back(run.tested.by_layer.norm.back());
    if (run.diverged()) ++diverged;
  }
  std::ostringstream text;
  text << std::left << std::setw(29) << variant.name() << std::right << std::fixed << std::setprecision(1)
       << "accuracy " << std::setw(5) << 100 * mean(accuracy) << " %, " << std::setprecision(3) << "drift "
       << mean(drift) << ", norm " << std::defaultfloat << mean(norm) << ", diverged " << diverged << " of "
       << runs.size();
  return text.str();
}

Report AblationExperiment::run() {
  frame_.begin();
  const Stopwatch training;
  auto claim = frame_.claim();
  StudyRecord record(settings_, context_);
  record.seeds(seeds_);
  const auto count = [](long n) {
    std::vector<double> list(n);
    std::iota(list.begin(), list.end(), 0);
    return list;
  };
  record.axis(axes::step, count(steps_));
  record.axis(axes::depth, count(settings_.integer("mesh.layers") + 1));
  record.note("", study::samples, samples_);
  record.note("", ablation::loss_limit, limit_);
  frame_.announce(*this);

  const std::size_t total = variants_.size() * seeds_.size();
  Progress progress = frame_.progress(static_cast<double>(total) * static_cast<double>(steps_), "steps");
  std::string outcomes;
  std::size_t done = 0;
  for (std::size_t v = 0; v < variants_.size(); ++v) {
    const auto& variant = variants_[v];
    const auto name = variant.name();
    std::vector<AblationRun> runs;
    for (const long seed : seeds_) {
      const Stopwatch watch;
      auto run = run_ablation(settings_of(variant, seed), context_.comm, limit_, [&](long step, double loss) {
        std::ostringstream note;
        note << name << ", seed " << seed << ": loss " << std::setprecision(4) << loss;
        progress.update(
            static_cast<double>(done) * static_cast<double>(steps_) + static_cast<double>(step + 1),
            note.str());
        return !frame_.asked_to_stop();
      });
      if (!run) {
        progress.finish();
        return frame_.stopped("after " + std::to_string(done) + " of " + std::to_string(total) + " trainings",
                              "nothing was written; start the run again");
      }
      ++done;
      double seconds = watch.seconds();
      check_mpi(MPI_Bcast(&seconds, 1, MPI_DOUBLE, 0, context_.comm));
      add(variant, *run, seconds, record);
      runs.push_back(std::move(*run));
    }
    add_samples(variant, runs, record);
    record.note(name, ablation::kind, variant.kind);
    record.note(name, ablation::residual, std::string(variant.residual ? "on" : "off"));
    record.note(name, compare::norm, variant.norm);
    record.note(name, compare::parameters, parameters_[v]);
    record.note(name, ablation::diverged,
                static_cast<long>(std::ranges::count_if(runs, &AblationRun::diverged)));
    outcomes += outcome(variant, runs) + "\n";
  }
  progress.finish();
  record.finish(std::move(claim), {{"trainings", training.seconds()}});
  std::ostringstream text;
  text << outcomes << "done: " << total << " trainings of " << steps_ << " steps, " << training.seconds()
       << " s";
  return frame_.done(text.str());
}

}  // namespace

void describe_ablation(io::Description& description) {
  using namespace ablation;
  study::describe(description, "ablation",
                  {{axes::step, axes::depth, axes::test_sample},
                   {loss_limit},
                   {kind, residual, compare::norm, compare::parameters, diverged},
                   {loss, diverged_step, diverged_epoch, test_accuracy, norm, drift, step_change,
                    test_accuracy_by_sample, norm_by_sample, drift_by_sample}});
}

std::unique_ptr<Experiment> make_ablation(const Settings& settings, const RunContext& context) {
  return std::make_unique<AblationExperiment>(settings, context);
}

}  // namespace fluxformer
