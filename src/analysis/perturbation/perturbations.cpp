#include "analysis/perturbation/perturbations.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "base/error.hpp"
#include "base/random.hpp"

namespace fluxformer::perturbation {

void add_noise(const ModelInput& input, std::uint64_t seed, double level, std::vector<double>& x) {
  const RandomStream noise(seed, "input noise");
  for (int b = 0; b < input.samples(); ++b) {
    auto block = input.block(x, b);
    if (block.rows() == 0) continue;
    const auto draw = noise.item(input.batch().key[b]);
    const double deviation = level * input.unit(b);
    for (Eigen::Index t = 0; t < block.rows(); ++t)
      for (Eigen::Index j = 0; j < block.cols(); ++j)
        block(t, j) += deviation * draw.normal(static_cast<std::uint64_t>(t * block.cols() + j));
  }
}

Batch drop_tokens(const ModelSpec& spec, const Batch& batch, std::uint64_t seed, double share, int unknown) {
  if (!(share >= 0 && share <= 1))
    throw BadInput("a share of " + std::to_string(share) + " of the tokens: must be from 0 to 1");
  const RandomStream dropout(seed, "token dropout");
  const bool words = spec.vocabulary > 0;
  if (words && unknown < 0) throw BadInput("tokens cannot be left out: there is no word for unknown ones");
  const auto numbers = static_cast<std::size_t>(spec.input_size());
  const std::size_t tokens = batch.input.size() / (batch.weight.size() * numbers);
  Batch dropped = batch;
  for (std::size_t b = 0; b < batch.weight.size(); ++b) {
    if (batch.weight[b] == 0) continue;
    const auto draw = dropout.item(batch.key[b]);
    const std::size_t real = batch.length.empty() ? tokens : static_cast<std::size_t>(batch.length[b]);
    std::vector<std::size_t> order(real);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(),
              [&](std::size_t i, std::size_t j) { return draw.uniform(i) < draw.uniform(j); });
    order.resize(std::lround(share * static_cast<double>(real)));
    for (const std::size_t t : order)  // of a word and its segment the word
      std::fill_n(dropped.input.begin() + static_cast<std::ptrdiff_t>((b * tokens + t) * numbers),
                  words ? 1 : numbers, words ? unknown : 0.0);
  }
  return dropped;
}

}  // namespace fluxformer::perturbation
