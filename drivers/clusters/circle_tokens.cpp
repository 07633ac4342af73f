#include "drivers/clusters/circle_tokens.hpp"

#include <limits>
#include <utility>

#include "base/mpi.hpp"
#include "data/dataset.hpp"

namespace fluxformer {
namespace {

// Items of a checkpoint.
constexpr io::NumbersItem weights_of_tokens{.name = "weights", .least = 0};
io::WholeItem count_of_tokens(Index most) {
  return {"tokens", 1, static_cast<long>(most)};
}

constexpr double equal = 1e-9;  // diameter of a cluster that counts as a point, in radians
// The eigenvalue of tokens within a cluster is -1, and closer to 0 with unnormalised attention. Steps up to this contract it, by 0.17 or as they
// should; longer ones, which the tolerance allows, would let its diameter hover at the tolerance.
constexpr double contracting = 2;

}  // namespace

io::FlatPart evenly_shared(Index tokens, MPI_Comm comm) {
  const auto own = data::balanced_shard(tokens, mpi::rank(comm), mpi::size(comm));
  return part_of(tokens, static_cast<Index>(own.first), static_cast<Index>(own.count));
}

CircleTokens::CircleTokens(const Law& law, const State& start, std::vector<double> weights, MPI_Comm comm)
    : Moving(comm, law.tolerance), law_(law) {
  begin_with(start, std::move(weights));
}

void CircleTokens::begin_with(const State& at, std::vector<double> weights) {
  attention_ = std::make_unique<clusters::CircleAttention>(std::move(weights), law_.beta, 1, comm(),
                                                           law_.normalisation);
  begin(
      at, evenly_shared(attention_->tokens(), comm()),
      [this](std::span<const double> angles, std::span<double> rate) { attention_->velocity(angles, rate); });
}

bool CircleTokens::advance(double time) {
  if (!law_.reduce) return run(time);
  auto found = components();
  if (reducible(found)) {
    reduce(found);
    found = components();
  }
  const auto fewer = [&](const clusters::CircleClusters& now) { return now.number() < attention_->tokens(); };
  const bool together = fewer(found);
  flow().limit_steps(together ? contracting : std::numeric_limits<double>::max());
  return run(time, [&](std::span<const double> angles) {
    const auto now = components_of(angles);
    return together ? !reducible(now) : !fewer(now);
  });
}

bool CircleTokens::reducible(const clusters::CircleClusters& found) const {
  return found.diameter <= equal && found.number() < attention_->tokens();
}

void CircleTokens::reduce(const clusters::CircleClusters& found) {
  State next = state();
  next.numbers.clear();
  std::vector<double> weights;
  const auto own = data::balanced_shard(found.each.size(), mpi::rank(comm()), mpi::size(comm()));
  for (std::size_t k = own.first; k < own.first + own.count; ++k) {
    next.numbers.push_back(found.each[k].angle);
    weights.push_back(found.each[k].weight);
  }
  begin_with(next, std::move(weights));
}

void CircleTokens::save(io::CheckpointWriter& file) const {
  Moving::save(file);
  file.put(count_of_tokens(attention_->tokens()), static_cast<long>(attention_->tokens()));
  file.put(weights_of_tokens, part(), attention_->weights().data());
}

std::unique_ptr<CircleTokens> CircleTokens::load(const Law& law, const io::CheckpointReader& file,
                                                 Index tokens, MPI_Comm comm) {
  const auto part = evenly_shared(file.integer(count_of_tokens(tokens)), comm);
  std::vector<double> weights(part.count());
  file.part(weights_of_tokens, part, weights.data());
  return std::make_unique<CircleTokens>(law, Moving::load(file, part), std::move(weights), comm);
}

}  // namespace fluxformer
