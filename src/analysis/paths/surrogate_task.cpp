#include "analysis/paths/surrogate_task.hpp"

#include <cmath>
#include <limits>
#include <string>

#include "base/error.hpp"
#include "base/index.hpp"

namespace fluxformer::paths {
namespace {

using Eigen::MatrixXd;

constexpr Index surrogate_slots = 3, query = 2, unknown = 2;
constexpr Index drawn = 5;  // two prototypes, noise of three slots
constexpr double feature_match = 8, position_match = 4, slot_match = 4;  // logits of the made head

void require(const SurrogateSettings& settings) {
  const auto positive = [](const char* what, int number) {
    if (number < 1)
      throw BadInput("the surrogate task has " + std::to_string(number) + " " + what +
                     ": must be at least 1");
  };
  positive("positions", settings.positions);
  positive("features", settings.features);
  positive("heads in a layer", settings.heads);
  if (!(settings.noise >= 0) || !std::isfinite(settings.noise))
    throw BadInput("the noise of the surrogate task must be finite and not negative");
}

/// One example from its numbers, [prototypes 0, 1, noise of slots 0, 1, 2][feature][position].
MatrixXd tokens_of(const SurrogateSettings& settings, const double* numbers, int prototype_of_query) {
  const Index features = settings.features, positions = settings.positions;
  const auto numbers_of = [&](Index k) {
    return Eigen::Map<const RowMatrix>(numbers + k * features * positions, features, positions);
  };
  // Rows of x: features (F), one-hot position, one-hot slot (3), one-hot label (3: 0, 1, unknown). Column:
  // slot * positions + position.
  MatrixXd x = MatrixXd::Zero(settings.dimension(), settings.tokens());
  for (Index slot = 0; slot < surrogate_slots; ++slot) {
    const Index prototype = slot == query ? prototype_of_query : slot;
    auto here = x.middleCols(slot * positions, positions);
    // (prototype + noise)/sqrt(1 + noise variance)
    here.topRows(features) = (numbers_of(prototype) + settings.noise * numbers_of(2 + slot)) /
                             std::sqrt(1 + settings.noise * settings.noise);
    here.middleRows(features, positions).setIdentity();
    here.row(features + positions + slot).setOnes();
    const Index label = slot == query ? unknown : slot;
    here.row(features + positions + surrogate_slots + label).setOnes();
  }
  return x;
}

BilinearHead match_head(const SurrogateSettings& settings) {
  const Index features = settings.features, positions = settings.positions, first_slot = features + positions;
  MatrixXd w = MatrixXd::Zero(settings.dimension(), settings.dimension());
  // The logit of two tokens is 8/F times the product of their features, and 4 more at the same position. A
  // query of slot 2 and a key of slot 0 or 1 get another 4 (docs/model.md, 11.12).
  w.diagonal().head(features).setConstant(feature_match / features);
  w.diagonal().segment(features, positions).setConstant(position_match);
  for (Index slot = 0; slot < query; ++slot) w(first_slot + slot, first_slot + query) = slot_match;
  return {w};
}

PathExamples examples_of(const SurrogateSettings& settings, const FrozenAttention& attention, int count,
                         std::uint32_t seed) {
  auto examples = surrogate_examples(settings, count, TorchStream(seed));
  const auto tokens = [&](int k) { return examples.tokens[settings.share.count(k)]; };
  return {.inputs = attentioned_inputs(attention, count, tokens, settings.share),
          .targets = std::move(examples.targets)};
}

/// Name of a path: "match", "random 1", ... in layer 1, "mean", "random 1", ... in layer 2.
std::string roles_of(const std::vector<int>& path) {
  const auto head = [](const char* made, int h) {
    return h == 0 ? std::string(made) : "random " + std::to_string(h);
  };
  return head("match", path[0]) + ", " + head("mean", path[1]);
}

}  // namespace

SurrogateSeeds surrogate_seeds(std::int64_t seed) {
  constexpr std::int64_t largest = std::numeric_limits<std::uint32_t>::max() - 200;
  if (seed < 0 || seed > largest)
    throw BadInput("seed " + std::to_string(seed) + ": must be from 0 to " + std::to_string(largest));
  const std::uint32_t first = seed;
  return {.train = first, .test = first + 100, .heads = first + 200};
}

SurrogateExamples surrogate_examples(const SurrogateSettings& settings, int count, TorchStream stream) {
  require(settings);
  if (count < 1) throw BadInput("a task needs at least one example");
  std::vector<int> prototypes;
  prototypes.reserve(count);
  // A coin for each example: the prototype of its query. Then one normal fill of all examples.
  for (int k = 0; k < count; ++k) prototypes.push_back(stream.uniform() >= 0.5 ? 1 : 0);
  const auto held = settings.share.examples(count);
  const RowMatrix numbers = stream.normals(count, drawn * settings.features * settings.positions, held);
  SurrogateExamples examples;
  examples.tokens.reserve(held.size());
  examples.targets.resize(count);
  for (int k = 0; k < count; ++k) examples.targets[k] = prototypes[k] == 1 ? 1 : -1;
  for (Index row = 0; row < numbers.rows(); ++row)
    examples.tokens.push_back(tokens_of(settings, numbers.row(row).data(), prototypes[held[row]]));
  return examples;
}

FrozenAttention surrogate_attention(const SurrogateSettings& settings) {
  require(settings);
  const Index d = settings.dimension();
  TorchStream stream(settings.seeds.heads);
  std::vector<std::vector<FrozenHead>> layers{{match_head(settings)}, {BilinearHead{MatrixXd::Zero(d, d)}}};
  for (auto& layer : layers) {
    layer.reserve(settings.heads);
    // Head 0 of a layer is made by hand; the others are one fill of D x D standard normal numbers each.
    for (int h = 1; h < settings.heads; ++h) layer.emplace_back(BilinearHead{stream.normals(d, d)});
  }
  return {std::move(layers), ReadOut::average_pooling};
}

PathTask surrogate_task(const SurrogateSettings& settings) {
  const auto attention = surrogate_attention(settings);
  PathTask task;
  task.heads = attention.heads();
  task.dimension = settings.dimension();
  task.share = settings.share;
  const int paths = path_count(task.heads);
  task.path_names.reserve(paths);
  for (int path = 0; path < paths; ++path)
    task.path_names.push_back(roles_of(heads_of_path(path, task.heads)));
  task.train = examples_of(settings, attention, settings.examples, settings.seeds.train);
  task.test = examples_of(settings, attention, settings.test_examples, settings.seeds.test);
  return task;
}

}  // namespace fluxformer::paths
