#include "analysis/paths/markov_task.hpp"

#include <cmath>
#include <limits>
#include <numbers>
#include <string>
#include <utility>

#include "analysis/paths/torch_stream.hpp"
#include "base/error.hpp"
#include "base/index.hpp"

namespace fluxformer::paths {
namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr int half = markov_features / 2;
constexpr double stay_of_positive = 0.7, stay_of_negative = 0.3;
constexpr double to_first_token =
    1.5;  // between 2, previous token of the same state, and 1, other such tokens

using Features = Eigen::Map<const Eigen::Matrix<double, markov_features, markov_states, Eigen::RowMajor>>;

/// Unit vectors along v+ - v- and v+ + v-.
VectorXd along_difference() {
  VectorXd d = VectorXd::Constant(markov_features, 1 / std::sqrt(double{markov_features}));
  d.tail(half) *= -1;
  return d;
}

VectorXd along_sum() {
  return VectorXd::Constant(markov_features, 1 / std::sqrt(double{markov_features}));
}

void require(const MarkovNoise& noise) {
  for (const double strength : {noise.difference, noise.sum, noise.perpendicular})
    if (!(strength >= 0) || !std::isfinite(strength))
      throw BadInput("the strength of noise must be finite and not negative");
}

Eigen::MatrixXi draw_states(int count, TorchStream& stream) {
  Eigen::MatrixXi states(count, markov_states);
  for (int k = 0; k < count; ++k) {
    // The first half of the chains is of class +1.
    const double stay = 2 * k < count ? stay_of_positive : stay_of_negative;
    // One coin for the first state, then one for each step: stay or change
    states(k, 0) = stream.uniform() >= 0.5 ? 1 : -1;
    for (int t = 1; t < markov_states; ++t)
      states(k, t) = stream.uniform() < stay ? states(k, t - 1) : -states(k, t - 1);
  }
  return states;
}

/// Turns standard normal numbers (P x 200 30) into noise of the given strengths, in place.
void scale_noise(const MarkovNoise& noise, RowMatrix& features) {
  const VectorXd difference = along_difference(), sum = along_sum();
  const double more_difference = noise.difference - noise.perpendicular,
               more_sum = noise.sum - noise.perpendicular;
  if (noise.perpendicular == 1 && more_difference == 0 && more_sum == 0) return;
  for (Index k = 0; k < features.rows(); ++k) {
    Eigen::Map<RowMatrix> g(features.row(k).data(), markov_features, markov_states);
    // g = sigma_perp g + (sigma_d - sigma_perp) d d^T g + (sigma_s - sigma_perp) s s^T g
    const Eigen::RowVectorXd d = more_difference * (difference.transpose() * g),
                             s = more_sum * (sum.transpose() * g);
    g *= noise.perpendicular;
    g += difference * d + sum * s;
  }
}

void add_means(MarkovChains& chains) {
  for (Index row = 0; row < chains.features.rows(); ++row) {
    Eigen::Map<RowMatrix> x(chains.features.row(row).data(), markov_features, markov_states);
    const int k = chains.share.example(row);
    // v_state: sqrt 2 on its half of the channels
    for (Index t = 0; t < markov_states; ++t)
      x.col(t).segment(chains.states(k, t) > 0 ? 0 : half, half).array() += std::numbers::sqrt2;
  }
}

BilinearHead good_head() {
  MatrixXd w = MatrixXd::Zero(markov_dimension, markov_dimension);
  // q = (v+ - v-) / 200, so that q . v is +1 or -1: |v+ - v-| = 20.
  const VectorXd q = along_difference() / 10;
  w.topLeftCorner(markov_features, markov_features) = q * q.transpose();
  auto positions = w.bottomRightCorner(markov_tokens, markov_tokens);
  // W[key, query]: 1.5 for the key 0, 1 for the token before the query, else 0 (docs/model.md, 11.10)
  for (Index t = 1; t < markov_tokens; ++t) {
    positions(0, t) = to_first_token;
    if (t > 1) positions(t - 1, t) = 1;
  }
  return {markov_inverse_temperature * w};
}

/// The mean over tokens, as published: all pairs of positions have the same logit.
BilinearHead uniform_head() {
  MatrixXd w = MatrixXd::Zero(markov_dimension, markov_dimension);
  w.bottomRightCorner(markov_tokens, markov_tokens).setConstant(markov_inverse_temperature);
  return {std::move(w)};
}

/// The mean over tokens by no weights at all.
BilinearHead empty_head() {
  return {MatrixXd::Zero(markov_dimension, markov_dimension)};
}

/// A random head by three fills: features, positions, and a whole matrix of which only what mixes both is
/// used.
BilinearHead random_head(std::uint32_t seed) {
  TorchStream stream(seed);
  const MatrixXd features = stream.normals(markov_features, markov_features),
                 positions = stream.normals(markov_tokens, markov_tokens);
  MatrixXd w = stream.normals(markov_dimension, markov_dimension) / std::sqrt(double{markov_features});
  w.topLeftCorner(markov_features, markov_features) = features / markov_features;
  w.bottomRightCorner(markov_tokens, markov_tokens) = positions;
  return {markov_inverse_temperature * w};
}

PathExamples examples_of(const MarkovChains& chains, const FrozenAttention& attention) {
  const int count = chains.targets.size();
  const auto tokens = [&](int k) { return chains.tokens(chains.share.count(k)); };
  return {.inputs = attentioned_inputs(attention, count, tokens, chains.share), .targets = chains.targets};
}

}  // namespace

MarkovSettings published_markov(MarkovVariant variant) {
  MarkovSettings settings;
  settings.variant = variant;
  settings.noise.perpendicular = variant == MarkovVariant::four_paths ? 1 : 5;
  return settings;
}

MarkovSeeds markov_seeds(std::int64_t seed) {
  constexpr std::int64_t largest = std::numeric_limits<std::uint32_t>::max() - 300;
  if (seed < 0 || seed > largest)
    throw BadInput("seed " + std::to_string(seed) + ": must be from 0 to " + std::to_string(largest));
  const std::uint32_t first = seed;
  return {.train = first, .test = first + 100, .layer_1 = first + 200, .layer_2 = first + 300};
}

MatrixXd MarkovChains::tokens(int row) const {
  // Column 0 is the first token, with feature 0; column t + 1 has the feature of state t. Below stands the
  // one-hot position.
  MatrixXd x = MatrixXd::Zero(markov_dimension, markov_tokens);
  x.topRightCorner(markov_features, markov_states) = Features(features.row(row).data());
  x.bottomRows(markov_tokens).setIdentity();
  return x;
}

MarkovChains markov_chains(int count, const MarkovNoise& noise, std::uint32_t seed,
                           const ExampleShare& share) {
  if (count < 2 || count % 2 != 0)
    throw BadInput("the number of Markov chains is " + std::to_string(count) +
                   ": must be even and positive, half of them for each class");
  require(noise);
  TorchStream stream(seed);
  MarkovChains chains{.share = share};
  chains.states = draw_states(count, stream);
  chains.features = stream.normals(count, Index{markov_features} * markov_states, share.examples(count));
  scale_noise(noise, chains.features);
  add_means(chains);
  // Class +1 comes first.
  chains.targets = VectorXd::Constant(count, -1);
  chains.targets.head(count / 2).setOnes();
  return chains;
}

FrozenAttention markov_attention(MarkovVariant variant, const MarkovSeeds& seeds) {
  if (variant == MarkovVariant::two_paths)
    return {{{good_head(), empty_head()}, {uniform_head()}}, ReadOut::last_token};
  return {{{good_head(), random_head(seeds.layer_1)}, {uniform_head(), random_head(seeds.layer_2)}},
          ReadOut::last_token};
}

PathTask markov_task(const MarkovSettings& settings) {
  const auto attention = markov_attention(settings.variant, settings.seeds);
  PathTask task;
  task.heads = attention.heads();
  task.dimension = markov_dimension;
  task.share = settings.share;
  task.path_names = {"good", "denoising"};
  if (settings.variant == MarkovVariant::four_paths)
    task.path_names = {"good", "adversarial 1", "denoising", "adversarial 2"};
  const auto drawn = [&](int count, std::uint32_t seed) {
    return examples_of(markov_chains(count, settings.noise, seed, settings.share), attention);
  };
  task.train = drawn(settings.examples, settings.seeds.train);
  task.test = drawn(settings.test_examples, settings.seeds.test);
  return task;
}

}  // namespace fluxformer::paths
