#include "analysis/identifiability/token_mlp_training.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <unordered_map>

#include "base/error.hpp"
#include "base/mpi.hpp"
#include "base/random.hpp"
#include "training/optimiser.hpp"
#include "training/schedule.hpp"

namespace fluxformer::identifiability {
namespace {

/// One rank's part of a training.
class MlpTrainer {
 public:
  MlpTrainer(const TokenExamples& training, const TokenExamples& validation, TokenDistance distance,
             const MlpSettings& settings, MPI_Comm comm, MlpMap& map)
      : training_(training),
        validation_(validation),
        distance_(distance),
        settings_(settings),
        comm_(comm),
        map_(map) {
    for (const auto& sample : training.samples) here_.emplace(sample.place, &sample);
    gradient_.resize(map.size() + 2);
  }

  long steps_per_epoch() const {
    const auto batch = static_cast<std::size_t>(settings_.batch);
    return static_cast<long>((training_.count + batch - 1) / batch);
  }

  /// Takes the steps of an epoch; returns its mean loss per token.
  double epoch(int number, Optimiser& optimiser, const Schedule& schedule) {
    const auto order = shuffled(training_.count, settings_.seed, "batches of a token map",
                                static_cast<std::uint64_t>(number));
    const auto batch = static_cast<std::size_t>(settings_.batch);
    double sum = 0, tokens = 0;
    for (std::size_t first = 0; first < order.size(); first += batch) {
      std::fill(gradient_.begin(), gradient_.end(), 0.0);
      double& loss = gradient_[map_.size()];
      double& count = gradient_[map_.size() + 1];
      for (std::size_t at = first; at < std::min(first + batch, order.size()); ++at)
        if (const auto found = here_.find(order[at]); found != here_.end()) {
          loss += map_.add_gradient(*found->second, distance_, gradient_);
          count += static_cast<double>(found->second->states.rows());
        }
      sum_over_ranks(gradient_, comm_);
      if (!std::isfinite(loss)) throw NumericalFailure("the loss of a token map is not finite");
      sum += loss, tokens += count;
      if (count == 0) continue;  // only samples without tokens
      const std::span<double> g(gradient_.data(), map_.size());
      for (double& value : g) value /= count;
      optimiser.step(schedule.rate(optimiser.state().steps), g, map_.weights());
    }
    return sum / tokens;
  }

  double validation_loss() const {
    std::vector<double> sums(2, 0.0);
    for (const auto& sample : validation_.samples) {
      sums[0] += map_.loss(sample, distance_);
      sums[1] += static_cast<double>(sample.states.rows());
    }
    sum_over_ranks(sums, comm_);
    if (!std::isfinite(sums[0] / sums[1]))
      throw NumericalFailure("the loss of a token map on the validation samples is not finite");
    return sums[0] / sums[1];
  }

 private:
  const TokenExamples& training_;
  const TokenExamples& validation_;
  TokenDistance distance_;
  const MlpSettings& settings_;
  MPI_Comm comm_;
  MlpMap& map_;
  std::unordered_map<std::size_t, const TokenExample*> here_;
  std::vector<double> gradient_;  // and the sums of losses and tokens, for one message
};

void need_settings(const MlpSettings& settings, const TokenExamples& training,
                   const TokenExamples& validation) {
  if (settings.batch < 1 || settings.epochs < 1 || settings.patience < 1)
    throw BadInput(
        "the training of a token map needs at least one sample in a batch, one epoch and a patience of one");
  if (training.count == 0 || validation.count == 0)
    throw BadInput("the training of a token map needs samples for training and for validation");
}

RidgeSums moments_of(const TokenExamples& training, MPI_Comm comm) {
  // A rank may hold no sample; it learns the shapes from the others.
  std::vector<double> shape(2, 0.0);
  for (const auto& sample : training.samples) {
    shape[0] = static_cast<double>(sample.states.cols());
    shape[1] = static_cast<double>(sample.descriptions.cols());
  }
  largest_over_ranks(shape, comm);
  RidgeSums moments(static_cast<int>(shape[0]), static_cast<int>(shape[1]));
  collectively(comm, [&] {
    for (const auto& sample : training.samples) moments.add(sample.states, sample.descriptions);
  });
  moments.reduce(comm);
  if (moments.tokens() == 0) throw BadInput("the training of a token map needs samples with tokens");
  return moments;
}

}  // namespace

MlpTraining train_token_mlp(const TokenExamples& training, const TokenExamples& validation,
                            TokenDistance distance, const MlpSettings& settings, MPI_Comm comm) {
  need_settings(settings, training, validation);
  MlpMap map(moments_of(training, comm), settings.hidden, settings.seed);
  MlpTrainer trainer(training, validation, distance, settings, comm, map);
  OptimiserSettings method;
  method.decay = settings.decay;
  Optimiser optimiser(method, map.decays());
  Schedule schedule;
  schedule.peak = settings.rate;
  schedule.steps = settings.epochs * trainer.steps_per_epoch();

  MlpTraining result{map, 0, 0, std::numeric_limits<double>::quiet_NaN(), trainer.validation_loss()};
  while (result.epochs < settings.epochs && result.epochs - result.best < settings.patience) {
    const double loss = trainer.epoch(result.epochs++, optimiser, schedule);
    if (const double now = trainer.validation_loss(); now < result.validation) {
      result.map = map;
      result.best = result.epochs;
      result.training = loss;
      result.validation = now;
    }
  }
  return result;
}

}  // namespace fluxformer::identifiability
