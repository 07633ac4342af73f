#include "data/dataset.hpp"

#include <algorithm>
#include <stdexcept>

namespace fluxformer::data {

Shard balanced_shard(std::size_t size, int rank, int ranks) {
  if (ranks < 1 || rank < 0 || rank >= ranks) {
    throw std::invalid_argument("balanced_shard: rank " + std::to_string(rank) + " of " +
                                std::to_string(ranks));
  }
  const auto me = static_cast<std::size_t>(rank);
  const std::size_t each = size / static_cast<std::size_t>(ranks);
  const std::size_t longer = size % static_cast<std::size_t>(ranks);
  return {me * each + std::min(me, longer), each + (me < longer ? 1 : 0)};
}

int Dataset::seen(std::size_t index) const {
  require(index);
  return 0;
}

std::vector<int> Dataset::token_bytes(std::size_t index) const {
  require(index);
  return {};
}

int Dataset::length(std::size_t index) const {
  require(index);
  return tokens_x() * tokens_y();
}

void Dataset::require(std::size_t index) const {
  if (index >= size()) {
    throw std::out_of_range(name() + ": sample " + std::to_string(index) + " of " + std::to_string(size()));
  }
}

}  // namespace fluxformer::data
