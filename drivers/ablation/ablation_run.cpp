#include "drivers/ablation/ablation_run.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "drivers/train/train_problem.hpp"
#include "model/loss.hpp"

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

/// Trains and records the losses; returns false if `go_on` asked to stop. `weights` holds the last ones with
/// finite loss and gradient.
bool train(TrainProblem& problem, double limit, const std::function<bool(long, double)>& go_on,
           AblationRun& run, std::vector<double>& weights) {
  const long per_epoch = problem.batches.per_epoch(), total = problem.total_steps();
  run.loss.assign(static_cast<std::size_t>(total), std::numeric_limits<double>::quiet_NaN());
  const auto diverge = [&](long step) {
    run.diverged_step = static_cast<double>(step);
    run.diverged_epoch = static_cast<double>(step / per_epoch + 1);
  };
  weights = problem.parameters.values;
  for (long step = 0; step < total; ++step) {
    auto before = problem.parameters.values;
    StepReport report;
    try {
      report = problem.trainer.step(problem.batch(step));
    } catch (const NumericalFailure&) {
      diverge(step);
      return true;
    }
    weights.swap(before);
    run.loss[step] = report.loss;
    if (!go_on(step, report.loss)) return false;
  }
  weights = problem.parameters.values;
  if (const long first = diverged_since(limit, run.loss, per_epoch) * per_epoch; first < total)
    diverge(first);
  return true;
}

/// Evaluates a model with these weights on the test samples.
void look(const Settings& settings, const TrainProblem& problem, const std::vector<double>& weights,
          AblationRun& run) {
  auto parameters = problem.parameters;
  parameters.values = weights;
  const auto samples = problem.samples(*problem.test, problem.members.testing);
  ModelProbe probe(parameters, problem.line, samples.capacity(), problem.depth.cells, precision_of(settings));
  run.testing = problem.members.testing;
  run.tested = states::measure_states(samples, probe, 0);
}

}  // namespace

std::string Variant::name() const {
  return kind + "_" + norm + (residual ? "" : "_no_residual");
}

double guess_loss(const Settings& settings, int classes) {
  const Loss loss{loss_kind(settings.word("train.loss")), settings.real("train.label_smoothing")};
  // With equal logits the loss does not depend on the label.
  const std::vector<double> logits(static_cast<std::size_t>(classes), 0.0);
  return loss_of(loss, logits.data(), classes, 0, 1, nullptr);
}

std::optional<AblationRun> run_ablation(const Settings& settings, MPI_Comm comm, double limit,
                                        const std::function<bool(long, double)>& go_on) {
  TrainProblem problem(settings, comm);
  AblationRun run;
  std::vector<double> weights;
  if (!train(problem, limit, go_on, run, weights)) return {};
  look(settings, problem, weights, run);
  return run;
}

}  // namespace fluxformer
