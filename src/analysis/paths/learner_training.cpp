#include "analysis/paths/learner_training.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/error.hpp"
#include "base/index.hpp"
#include "base/mpi.hpp"
#include "data/dataset.hpp"

namespace fluxformer::paths {
namespace {

using Eigen::VectorXd;

constexpr int at_once = 16;  // examples whose arrays stay in the cache

// Items of a training in a checkpoint.
constexpr io::WholeItem steps_done{"learner_steps", 0};
constexpr io::NumbersItem weights_now{"learner_weights"}, first_moment{"learner_first_moment"},
    second_moment{.name = "learner_second_moment", .least = 0};

OptimiserSettings adam(const LearnerPlan& plan) {
  return {.method = Method::adam, .decay = plan.decay};
}

/// Adds to the sums of (f - y)^2 and of right signs.
void add_scores(const VectorXd& f, const VectorXd& y, double (&sums)[2]) {
  sums[0] += (f - y).squaredNorm();
  sums[1] += (f.array() * y.array() > 0).count();
}

}  // namespace

LearnerTraining::LearnerTraining(MPI_Comm comm, const LearnerShape& shape, const OneShotExamples& examples,
                                 const LearnerPlan& plan, std::uint64_t seed)
    : comm_(comm),
      examples_(examples),
      plan_(plan),
      learner_(shape, at_once),
      optimiser_(adam(plan), std::vector<char>(learner_.weights().size(), 1)),
      weights_(learner_.weights().initial(seed)),
      gradient_(weights_.size()),
      rounded_(weights_.size()) {}

template <typename Visit>
void LearnerTraining::for_mine(const OneShotExamples& examples, std::uint64_t first, int count,
                               const Visit& visit) {
  const int rank = mpi::rank(comm_), ranks = mpi::size(comm_);
  const auto mine = data::balanced_shard(count, rank, ranks);
  for (std::size_t done = 0; done < mine.count; done += at_once) {
    // x: D x (size T), token after token, example after example
    const auto size = std::min<Index>(at_once, mine.count - done);
    PathLearner<float>::Matrix x(one_shot_dimension, size * one_shot_tokens);
    VectorXd y(size);
    for (Index k = 0; k < size; ++k) {
      // Examples are numbered through all steps: no batch is seen twice.
      const auto example = first + mine.first + done + k;
      x.middleCols(k * one_shot_tokens, one_shot_tokens) = examples.tokens(example).cast<float>();
      y[k] = OneShotExamples::target(example);
    }
    visit(x, y);
  }
}

double LearnerTraining::step() {
  double sums[2] = {0, 0};
  std::ranges::fill(rounded_, 0);
  learner_.set(weights_);
  // Step k sees the examples k batch .. (k + 1) batch - 1; each rank adds up its share in floats.
  const auto first = steps() * plan_.batch;
  for_mine(examples_, first, plan_.batch,
           [&](const auto& x, const VectorXd& y) { add_scores(learner_.gradient(x, y, rounded_), y, sums); });
  // Mean over the batch of the gradient of (f - y)^2, in doubles from here on
  for (std::size_t k = 0; k < gradient_.size(); ++k) gradient_[k] = double{rounded_[k]} / plan_.batch;
  sum_over_ranks(gradient_, comm_);
  sum_over_ranks(sums, comm_);
  const double loss = sums[0] / plan_.batch;
  const Eigen::Map<const VectorXd> all(gradient_.data(), gradient_.size());
  if (!std::isfinite(loss) || !all.allFinite())
    throw NumericalFailure("step " + std::to_string(steps()) +
                           " of the training of attention paths: loss or gradient is not finite; a smaller "
                           "paths.rate may help");
  // The weights themselves stay in doubles: a step below the round-off of a float is not lost.
  optimiser_.step(plan_.rate, gradient_, weights_);
  return loss;
}

LearnerTraining::Score LearnerTraining::evaluate(const std::vector<double>& weights,
                                                 const OneShotExamples& examples, int count) {
  double sums[2] = {0, 0};
  learner_.set(weights);
  for_mine(examples, 0, count,
           [&](const auto& x, const VectorXd& y) { add_scores(learner_.outputs(x), y, sums); });
  sum_over_ranks(sums, comm_);
  // Mean of (f - y)^2, and the share of examples where f has the sign of y
  return {.loss = sums[0] / count, .accuracy = sums[1] / count};
}

void LearnerTraining::save(io::CheckpointWriter& checkpoint) const {
  const auto& state = optimiser_.state();
  checkpoint.put(steps_done, state.steps);
  checkpoint.put(weights_now, weights_);
  checkpoint.put(first_moment, state.first);
  checkpoint.put(second_moment, state.second);
}

void LearnerTraining::load(const io::CheckpointReader& checkpoint) {
  auto state = optimiser_.state();
  state.steps = checkpoint.integer(steps_done);
  weights_ = checkpoint.numbers(weights_now, weights_.size());
  state.first = checkpoint.numbers(first_moment, state.first.size());
  state.second = checkpoint.numbers(second_moment, state.second.size());
  optimiser_.restore(std::move(state));
}

}  // namespace fluxformer::paths
