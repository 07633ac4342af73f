#include "data/dataset.hpp"

#include <algorithm>
#include <stdexcept>

#include "base/error.hpp"
#include "data/images/digits.hpp"
#include "data/images/mnist.hpp"
#include "data/images/omniglot.hpp"
#include "data/text/newsgroups.hpp"
#include "data/text/topics.hpp"

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

int Dataset::length(std::size_t index) const {
  require(index);
  return tokens_x() * tokens_y();
}

void Dataset::require(std::size_t index) const {
  if (index >= size()) {
    throw std::out_of_range(name() + ": sample " + std::to_string(index) + " of " + std::to_string(size()));
  }
}

std::unique_ptr<Dataset> make_dataset(const DatasetSpec& spec) {
  if (spec.split != "train" && spec.split != "test") {
    throw BadInput("split '" + spec.split + "' of the data is not known: train or test");
  }
  if (spec.name == "20news") return std::make_unique<Newsgroups>(spec);
  if (spec.name == "topics") return std::make_unique<Topics>(spec);
  const bool train = spec.split == "train";
  const ImageTokens layout(token_layout(spec.tokens));
  if (spec.name == "digits") return std::make_unique<Digits>(train, layout, spec.seed, spec.at_most);
  if (spec.name == "mnist") return std::make_unique<Mnist>(spec.directory, train, layout, spec.at_most);
  if (spec.name.starts_with("omniglot")) return std::make_unique<Omniglot>(spec, layout);
  throw BadInput("data.set = " + spec.name +
                 " is not known: digits, mnist, omniglot, omniglot_small1, omniglot_small2, "
                 "omniglot_evaluation, 20news or topics");
}

}  // namespace fluxformer::data
