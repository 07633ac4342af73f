#include "training/trainer.hpp"

#include <cmath>
#include <string>

#include "base/error.hpp"
#include "base/reductions.hpp"
#include "operators/kernels/simd_arrays.hpp"
#include "training/smoothness.hpp"

namespace fluxformer {
namespace {

std::vector<char> decays_of(const Trainable& trainable) {
  std::vector<char> decays(trainable.size());
  for (std::size_t j = 0; j < decays.size(); ++j) decays[j] = trainable.decays(j) ? 1 : 0;
  return decays;
}

double norm_of(const std::vector<double>& x) {
  const double* const values = x.data();
  return std::sqrt(simd::sum_over<double>(x.size(), [values](auto at) { return at(values) * at(values); }));
}

// What a checkpoint holds of a training.
constexpr io::WholeItem steps_done{"steps", 0};
constexpr io::NumbersItem variables{"raw"}, first_moment{"first_moment"},
    second_moment{.name = "second_moment", .least = 0};

}  // namespace

Trainer::Trainer(MPI_Comm comm, Parameters& parameters, GradientEvaluator& evaluator,
                 const TrainerSettings& settings)
    : comm_(comm),
      parameters_(parameters),
      evaluator_(evaluator),
      settings_(settings),
      trainable_(parameters, settings.coefficients),
      optimiser_(settings.optimiser, decays_of(trainable_)),
      sum_(comm, settings.bucket),
      raw_(trainable_.raw(parameters.values)),
      gradient_(parameters.values.size()) {}

StepReport Trainer::step(const Batch& batch) {
  StepReport report;
  report.step = steps();
  Evaluation own;
  try {
    // A march may fail on one replica only. It still passes on all pieces, so that the collective calls
    // match.
    own = collectively(comm_, [&] {
      return evaluator_.gradient(
          batch, gradient_, [&](std::size_t first, std::size_t count) { sum_.add(gradient_, first, count); });
    });
  } catch (const Error&) {
    sum_.finish();
    throw;
  }
  // The ranks of a token line hold the same numbers, except the depth loss: only the first one counts.
  const auto& line = *evaluator_.march().model().context().line;
  if (line.rank() != 0) own.loss = own.correct = 0;
  double sums[3] = {own.loss, own.depth_loss, own.correct};
  sum_over_ranks(sums, comm_);
  sum_.finish();
  report.loss = sums[0];
  report.depth_loss = sums[1];
  report.accuracy = sums[2];
  report.penalty = add_smoothness(parameters_, settings_.smoothness, gradient_);
  trainable_.pull(parameters_.values, gradient_);
  report.gradient_norm = norm_of(gradient_);
  report.rate = settings_.schedule.rate(report.step);
  if (!std::isfinite(report.loss + report.depth_loss) || !std::isfinite(report.gradient_norm))
    throw NumericalFailure(
        "step " + std::to_string(report.step) + " of the training: the " +
        (std::isfinite(report.loss) ? "gradient" : "loss") +
        " is not finite; a smaller train.rate, a longer train.warm_up or train.clip may help");
  const bool clipped = settings_.clip > 0 && report.gradient_norm > settings_.clip;
  optimiser_.step(report.rate, gradient_, raw_, clipped ? settings_.clip / report.gradient_norm : 1.0);
  trainable_.apply(raw_, parameters_.values, settings_.largest_kappa);
  evaluator_.march().refresh();
  return report;
}

Evaluation Trainer::evaluate(const SampleSet& samples) {
  double sums[2] = {0, 0};
  const bool speaks = evaluator_.march().model().context().line->rank() == 0;
  samples.for_batches([&](const Batch& batch) {
    const auto part = evaluator_.evaluate(batch, LossTerms::labels);
    if (!speaks) return;
    sums[0] += part.loss;
    sums[1] += part.correct;
  });
  sum_over_ranks(sums, comm_);
  return {.loss = sums[0], .correct = sums[1]};
}

OptimiserRecord Trainer::optimiser(Preconditioner which) const {
  return {settings_.schedule.rate(steps()), optimiser_.stability_threshold(),
          which == Preconditioner::kept ? optimiser_.preconditioner() : std::vector<double>{}};
}

void Trainer::save(io::CheckpointWriter& checkpoint) const {
  const auto& state = optimiser_.state();
  checkpoint.put(steps_done, state.steps);
  checkpoint.put(variables, raw_);
  checkpoint.put(first_moment, state.first);
  if (!state.second.empty()) checkpoint.put(second_moment, state.second);
}

void Trainer::load(const io::CheckpointReader& checkpoint) {
  auto state = optimiser_.state();
  state.steps = checkpoint.integer(steps_done);
  state.first = checkpoint.numbers(first_moment, state.first.size());
  if (!state.second.empty()) state.second = checkpoint.numbers(second_moment, state.second.size());
  raw_ = checkpoint.numbers(variables, raw_.size());
  optimiser_.restore(std::move(state));
  trainable_.apply(raw_, parameters_.values, settings_.largest_kappa);
  evaluator_.march().refresh();
}

}  // namespace fluxformer
