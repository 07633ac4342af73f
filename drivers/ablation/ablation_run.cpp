#include "drivers/ablation/ablation_run.hpp"

#include <algorithm>
#include <cstdint>

#include "base/error.hpp"
#include "model/tasks/task.hpp"

namespace fluxformer {

long diverged_since(double limit, const std::vector<double>& loss, long per_epoch) {
  long epoch = static_cast<long>(loss.size()) / per_epoch;
  for (; epoch > 0; --epoch) {
    const auto end = loss.begin() + epoch * per_epoch;
    const auto above = std::count_if(end - per_epoch, end, [&](double one) { return one > limit; });
    if (2 * above <= per_epoch) break;
  }
  return epoch;
}

namespace {

// Items of a checkpoint beside those of the trainer.
constexpr io::NumbersItem losses_so_far{"losses"}, finite_weights{"finite_weights"};

}  // namespace

std::string Variant::name() const {
  return to_word(spec().kind) + "_" + to_word(spec().norm) + (spec().residual ? "" : "_no_residual");
}

TrainPlan Variant::training_from(long seed) const {
  auto plan = training;
  plan.seed = plan.model.seed = plan.samples.data.set.seed = static_cast<std::uint64_t>(seed);
  return plan;
}

AblationPlan ablation_plan_of(const Settings& settings) {
  AblationPlan plan{.variants = {},
                    .seeds = settings.integers("ablation.seeds"),
                    .diverged = settings.real("ablation.diverged")};
  for (const auto& kind : settings.words("ablation.models")) {
    // The Transformer has neither depth knots nor diffusion or transport over tokens.
    const auto deck =
        kind == "transformer"
            ? settings.without({"model.knots", "model.kappa", "equation.kappa", "model.nu", "equation.nu"})
            : settings;
    for (const auto& residual : settings.words("ablation.residual"))
      for (const auto& norm : settings.words("ablation.norm"))
        plan.variants.push_back({plan_of_training(
            deck.with({{"model.kind", kind}, {"depth.residual", residual == "on"}, {"depth.norm", norm}}))});
  }
  return plan;
}

double guess_loss(const Loss& loss, int classes) {
  // With equal logits the loss does not depend on the label.
  const std::vector<double> logits(static_cast<std::size_t>(classes), 0.0);
  return loss_of(loss, logits.data(), classes, 0, 1, nullptr);
}

AblationTraining::AblationTraining(const TrainPlan& plan, MPI_Comm comm, double limit)
    : limit_(limit), problem_(plan, comm), weights_(problem_.parameters->values) {
  run_.loss.assign(static_cast<std::size_t>(problem_.total_steps()),
                   std::numeric_limits<double>::quiet_NaN());
}

bool AblationTraining::train(const std::function<bool(long, double)>& go_on) {
  const long per_epoch = problem_.batches->per_epoch(), total = problem_.total_steps();
  const auto diverge = [&](long step) {
    run_.diverged_step = static_cast<double>(step);
    run_.diverged_epoch = static_cast<double>(step / per_epoch + 1);
  };
  while (problem_.trainer->steps() < total) {
    const long step = problem_.trainer->steps();
    auto before = problem_.parameters->values;
    StepReport report;
    try {
      report = problem_.step();
    } catch (const NumericalFailure&) {
      diverge(step);
      return true;
    }
    weights_.swap(before);
    run_.loss[step] = report.loss;
    if (step + 1 < total && !go_on(step + 1, report.loss)) return false;
  }
  weights_ = problem_.parameters->values;
  if (const long first = diverged_since(limit_, run_.loss, per_epoch) * per_epoch; first < total)
    diverge(first);
  return true;
}

AblationRun AblationTraining::result() const {
  auto run = run_;
  auto parameters = *problem_.parameters;
  parameters.values = weights_;
  const auto samples = problem_.samples(*problem_.test, problem_.members.testing);
  ModelProbe probe(parameters, *problem_.line, samples.capacity(), problem_.plan.precision);
  run.tested = states::measure_states(samples, probe, 0);
  return run;
}

void AblationTraining::save(io::CheckpointWriter& file) const {
  problem_.trainer->save(file);
  file.put(losses_so_far, {run_.loss.begin(), run_.loss.begin() + problem_.trainer->steps()});
  file.put(finite_weights, weights_);
}

void AblationTraining::load(const io::CheckpointReader& file) {
  problem_.trainer->load(file);
  const long steps = problem_.trainer->steps();
  if (steps > problem_.total_steps())
    throw BadInput(file.called() + ": has more steps than a training of these settings");
  std::ranges::copy(file.numbers(losses_so_far, steps), run_.loss.begin());
  weights_ = file.numbers(finite_weights, std::ssize(weights_));
}

}  // namespace fluxformer
