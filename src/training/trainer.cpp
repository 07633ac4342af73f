#include "training/trainer.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "base/mpi.hpp"
#include "base/phases.hpp"
#include "operators/kernels/simd.hpp"
#include "training/smoothness.hpp"

namespace fluxformer {

GradientSum::GradientSum(MPI_Comm comm, Index bucket) : comm_(comm), bucket_(bucket) {
  check_mpi(MPI_Comm_size(comm, &ranks_));
}

void GradientSum::add(std::span<double> gradient, Index first, Index count) {
  if (ranks_ == 1) return;
  data_ = gradient.data();
  if (count_ > 0 && first + count == first_) {  // pieces come in order from the end of the vector
    first_ = first;
    count_ += count;
  } else {
    send();
    first_ = first;
    count_ = count;
  }
  // Small pieces are collected: a message costs its latency, whatever its size.
  if (count_ >= bucket_) send();
  if (requests_.empty()) return;
  const InPhase phase(Phase::reduction);
  int all = 0;  // Open MPI makes progress only inside calls
  check_mpi(MPI_Testall(requests_.size(), requests_.data(), &all, MPI_STATUSES_IGNORE));
  if (all != 0) requests_.clear();
}

void GradientSum::send() {
  const InPhase phase(Phase::reduction);
  // MPI counts are ints: a very large piece is sent in parts.
  constexpr Index most = std::numeric_limits<int>::max() / 2;
  for (; count_ > 0;) {
    const Index part = std::min(count_, most);
    requests_.emplace_back();
    check_mpi(
        MPI_Iallreduce(MPI_IN_PLACE, data_ + first_, part, MPI_DOUBLE, MPI_SUM, comm_, &requests_.back()));
    count_message(part * sizeof(double));
    first_ += part;
    count_ -= part;
  }
}

void GradientSum::finish() {
  const InPhase phase(Phase::reduction);
  send();
  check_mpi(MPI_Waitall(requests_.size(), requests_.data(), MPI_STATUSES_IGNORE));
  requests_.clear();
}

namespace {

std::vector<char> decays_of(const Trainable& trainable) {
  std::vector<char> decays(trainable.size());
  for (Index j = 0; j < std::ssize(decays); ++j) decays[j] = trainable.decays(j) ? 1 : 0;
  return decays;
}

/// Throws BadInput on all ranks if one of them finds something to refuse in its share.
Trainable agreed_trainable(MPI_Comm comm, const Parameters& parameters, const TrainedCoefficients& which) {
  std::optional<Trainable> made;
  collectively(comm, [&] { made.emplace(parameters, which); });
  return *std::move(made);
}

Index trained_of(const Trainable& trainable, const StageParameters& stages) {
  Index trained = 0;
  for (const auto& piece : stages.owned())
    for (Index j = piece.at, end = piece.at + piece.count; j < end; ++j)
      trained += trainable.moves(j) ? 1 : 0;
  return std::llround(stages.total(trained));
}

// What a checkpoint holds of a training.
constexpr io::WholeItem steps_done{"steps", 0};
constexpr io::NumbersItem variables{"raw"}, first_moment{"first_moment"},
    second_moment{.name = "second_moment", .least = 0};

}  // namespace

Trainer::Trainer(const TrainingRanks& ranks, Parameters& parameters, DepthModel& model, Pipeline pipeline,
                 const TrainerSettings& settings)
    : ranks_(ranks),
      parameters_(parameters),
      model_(model),
      pipeline_(std::move(pipeline)),
      settings_(settings),
      stages_(ranks, parameters),
      trainable_(agreed_trainable(ranks.all, parameters, settings.coefficients)),
      trained_(trained_of(trainable_, stages_)),
      optimiser_(settings.optimiser, decays_of(trainable_)),
      sum_(ranks.stage, settings.bucket),
      raw_(trainable_.raw(parameters.values)),
      gradient_(parameters.values.size()) {}

bool Trainer::contributes_loss() const {
  // The ranks of a token line hold the same numbers, except the depth loss: only the first one counts.
  return pipeline_.has_loss() && model_.context().line->rank() == 0;
}

double Trainer::gradient_norm() const {
  // Each stage sums over the arrays that belong to it, so that shared ones count once.
  double squares = 0;
  for (const auto& piece : stages_.owned()) {
    const double* const values = gradient_.data() + piece.at;
    squares += simd::sum_over<double>(piece.count, [values](auto at) { return at(values) * at(values); });
  }
  return std::sqrt(stages_.total(squares));
}

StepReport Trainer::step(const Batch& batch, Pipeline& pipeline) {
  StepReport report;
  report.step = steps();
  Evaluation own;
  try {
    // A march may fail on one replica or stage only. It still passes on all pieces, so that the collective
    // calls match.
    own = collectively(ranks_.all, [&] {
      return pipeline.gradient(batch, gradient_,
                               [&](Index first, Index count) { sum_.add(gradient_, first, count); });
    });
  } catch (const Error&) {
    sum_.finish();
    throw;
  }
  // The gradient of stages that share arrays is summed below; losses are summed over all ranks at once.
  if (!contributes_loss()) own.loss = own.correct = 0;
  double sums[3] = {own.loss, own.depth_loss, own.correct};
  sum_over_ranks(sums, ranks_.all);
  sum_.finish();
  // J = loss + depth loss + penalty (docs/model.md, section 7); the gradient becomes that of J with respect
  // to the variables: dJ/dr = dtheta/dr dJ/dtheta.
  report.loss = sums[0];
  report.depth_loss = sums[1];
  report.accuracy = sums[2];
  report.penalty = stages_.total(
      add_smoothness(parameters_.spec, parameters_, settings_.smoothness, gradient_, stages_.first_pair()));
  stages_.sum(gradient_);
  trainable_.pull(parameters_.values, gradient_);
  report.gradient_norm = gradient_norm();
  report.rate = settings_.schedule.rate(report.step);
  if (!std::isfinite(report.loss + report.depth_loss) || !std::isfinite(report.gradient_norm))
    throw NumericalFailure(
        "step " + std::to_string(report.step) + " of the training: the " +
        (std::isfinite(report.loss) ? "gradient" : "loss") +
        " is not finite; a smaller train.rate, a longer train.warm_up or train.clip may help");
  // A gradient longer than `clip` is scaled to that length: g := g clip / |g|, |g| that of the whole model.
  const bool clipped = settings_.clip > 0 && report.gradient_norm > settings_.clip;
  optimiser_.step(report.rate, gradient_, raw_, clipped ? settings_.clip / report.gradient_norm : 1.0);
  // theta from the variables, and the kept weights of the model from theta.
  trainable_.apply(raw_, parameters_.values, settings_.largest);
  model_.refresh();
  return report;
}

Evaluation Trainer::evaluate(const SampleSet& samples, Pipeline& pipeline) {
  double sums[2] = {0, 0};
  // A stage that fails goes on, as the others wait for its states.
  RankFailure failure;
  Index shown = 0;
  failure.attempt([&] {
    samples.for_batches([&](const Batch& batch) {
      ++shown;
      failure.attempt_anyway([&] {
        const auto part = pipeline.evaluate(batch);
        sums[0] += part.loss;
        sums[1] += part.correct;
      });
    });
  });
  for (; shown < samples.batches(); ++shown) pipeline.forward_only();
  pipeline.wait_all();
  failure.share(ranks_.all);
  if (!contributes_loss()) sums[0] = sums[1] = 0;
  sum_over_ranks(sums, ranks_.all);
  return {.loss = sums[0], .correct = sums[1]};
}

OptimiserRecord Trainer::optimiser(Preconditioner which) const {
  OptimiserRecord record{settings_.schedule.rate(steps()), optimiser_.stability_threshold(), {}};
  if (which == Preconditioner::left_out) return record;
  const auto mine = optimiser_.preconditioner();
  // Each stage has the diagonal of its own parameters.
  if (!mine.empty()) record.preconditioner = stages_.gathered(mine);
  return record;
}

void Trainer::save(io::CheckpointWriter& checkpoint) const {
  const auto& state = optimiser_.state();
  checkpoint.put(steps_done, state.steps);
  checkpoint.put(variables, stages_.written(), raw_.data());
  checkpoint.put(first_moment, stages_.written(), state.first.data());
  if (!state.second.empty()) checkpoint.put(second_moment, stages_.written(), state.second.data());
}

void Trainer::load(const io::CheckpointReader& checkpoint) {
  auto state = optimiser_.state();
  state.steps = checkpoint.integer(steps_done);
  checkpoint.part(first_moment, stages_.held(), state.first.data());
  if (!state.second.empty()) checkpoint.part(second_moment, stages_.held(), state.second.data());
  checkpoint.part(variables, stages_.held(), raw_.data());
  optimiser_.restore(std::move(state));
  trainable_.apply(raw_, parameters_.values, settings_.largest);
  model_.refresh();
}

}  // namespace fluxformer
