#include "drivers/clusters/circle_tokens.hpp"

#include <limits>

#include "base/mpi.hpp"
#include "data/dataset.hpp"
#include "drivers/common/run_frame.hpp"

namespace fluxformer {
namespace {

// Items of a checkpoint.
constexpr io::RealItem time_of_tokens{"time", 0}, step_of_tokens{"step", 0},
    seconds_of_rates{"evaluation_seconds", 0};
constexpr io::WholeItem count_of_rates{"evaluations", 0};
constexpr io::NumbersItem angles_of_tokens{"angles"}, weights_of_tokens{.name = "weights", .least = 0};

constexpr double equal = 1e-9;  // diameter of a cluster that counts as a point, in radians
// The eigenvalue of tokens within a cluster is -1. Steps up to this contract it, by 0.17 or as they should; longer ones, which the tolerance
// allows, would let its diameter hover at the tolerance.
constexpr double contracting = 2;

io::WholeItem count_of_tokens(Index most) {
  return {"tokens", 1, static_cast<long>(most)};
}

io::FlatPart share_of(Index tokens, MPI_Comm comm) {
  const auto own = data::balanced_shard(tokens, mpi::rank(comm), mpi::size(comm));
  io::FlatPart part{.size = tokens, .pieces = {}};
  if (own.count > 0) part.add({static_cast<Index>(own.first), static_cast<Index>(own.count), 0});
  return part;
}

}  // namespace

CircleTokens::CircleTokens(const Law& law, const State& start, MPI_Comm comm)
    : law_(law), comm_(comm), evaluations_(start.evaluations), seconds_(start.seconds) {
  begin(start);
}

void CircleTokens::begin(const State& at) {
  attention_ = std::make_unique<clusters::CircleAttention>(at.weights, law_.beta, 1, comm_);
  flow_ = std::make_unique<Flow>(
      comm_, at.angles,
      [this](std::span<const double> angles, std::span<double> rate) {
        const Stopwatch watch;
        attention_->velocity(angles, rate);
        seconds_ += watch.seconds();
      },
      law_.tolerance, at.clock);
}

void CircleTokens::advance(double time) {
  if (!law_.reduce) {
    flow_->advance(time);
    return;
  }
  for (bool there = false; !there;) {
    auto found = components();
    if (reducible(found)) {
      reduce(found);
      found = components();
    }
    const auto fewer = [&](const clusters::CircleClusters& now) {
      return now.number() < attention_->tokens();
    };
    const bool together = fewer(found);
    flow_->limit_steps(together ? contracting : std::numeric_limits<double>::max());
    there = flow_->advance(time, [&](std::span<const double> angles) {
      const auto now = components_of(angles);
      return together ? !reducible(now) : !fewer(now);
    });
  }
}

bool CircleTokens::reducible(const clusters::CircleClusters& found) const {
  return found.diameter <= equal && found.number() < attention_->tokens();
}

void CircleTokens::reduce(const clusters::CircleClusters& found) {
  evaluations_ += flow_->evaluations();
  State next{.clock = flow_->clock()};
  const auto own = data::balanced_shard(found.each.size(), mpi::rank(comm_), mpi::size(comm_));
  for (std::size_t k = own.first; k < own.first + own.count; ++k) {
    next.angles.push_back(found.each[k].angle);
    next.weights.push_back(found.each[k].weight);
  }
  begin(next);
}

void CircleTokens::save(io::CheckpointWriter& file) const {
  const auto part = share_of(attention_->tokens(), comm_);
  const auto at = flow_->state();
  file.put(count_of_tokens(attention_->tokens()), static_cast<long>(attention_->tokens()));
  file.put(angles_of_tokens, part, at.data());
  file.put(weights_of_tokens, part, attention_->weights().data());
  file.put(time_of_tokens, flow_->clock().time);
  file.put(step_of_tokens, flow_->clock().step);
  file.put(count_of_rates, evaluations());
  double seconds = seconds_;
  broadcast_numbers({&seconds, 1}, 0, comm_);  // clocks differ
  file.put(seconds_of_rates, seconds);
}

CircleTokens::State CircleTokens::load(const io::CheckpointReader& file, Index tokens, MPI_Comm comm) {
  const auto part = share_of(file.integer(count_of_tokens(tokens)), comm);
  State at{.angles = std::vector<double>(part.count()),
           .weights = std::vector<double>(part.count()),
           .clock = {file.real(time_of_tokens), file.real(step_of_tokens)},
           .evaluations = file.integer(count_of_rates),
           .seconds = file.real(seconds_of_rates)};
  file.part(angles_of_tokens, part, at.angles.data());
  file.part(weights_of_tokens, part, at.weights.data());
  return at;
}

}  // namespace fluxformer
