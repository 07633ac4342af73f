#include "analysis/paths/one_shot_task.hpp"

#include <string>

#include "analysis/paths/one_shot_examples.hpp"
#include "base/error.hpp"

namespace fluxformer::paths {
namespace {

PathExamples examples_of(const OneShotPool& pool, const FrozenAttention& attention, int count,
                         const OneShotSettings& settings, const std::string& purpose) {
  const OneShotExamples drawn(pool, settings.seed, purpose);
  const auto tokens = [&](int k) { return drawn.tokens(static_cast<std::uint64_t>(k)); };
  PathExamples examples{.inputs = attentioned_inputs(attention, count, tokens, settings.share),
                        .targets = Eigen::VectorXd(count)};
  for (int k = 0; k < count; ++k)
    examples.targets[k] = OneShotExamples::target(static_cast<std::uint64_t>(k));
  return examples;
}

/// "1, 3": heads of its layers, from 1.
std::string numbers_of(const std::vector<int>& path) {
  std::string name;
  for (const int head : path) name += (name.empty() ? "" : ", ") + std::to_string(head + 1);
  return name;
}

}  // namespace

PathTask one_shot_task(const OneShotPools& pools, const FrozenAttention& attention,
                       const OneShotSettings& settings) {
  if (attention.dimension() != one_shot_dimension)
    throw BadInput("queries and keys of dimension " + std::to_string(attention.dimension()) +
                   " do not fit one-shot examples, whose tokens have " + std::to_string(one_shot_dimension));
  PathTask task{.heads = attention.heads(), .dimension = one_shot_dimension, .share = settings.share};
  const int paths = path_count(task.heads);
  task.path_names.reserve(paths);
  for (int path = 0; path < paths; ++path)
    task.path_names.push_back(numbers_of(heads_of_path(path, task.heads)));
  const auto of = [&](const OneShotPool& pool, int count, const char* purpose) {
    return examples_of(pool, attention, count, settings, purpose);
  };
  task.train = of(pools.training, settings.examples, "posterior");
  task.test = of(pools.test, settings.test_examples, "test");
  task.further.push_back(
      {pools.validation.name(), of(pools.validation, settings.test_examples, "validation")});
  task.further.push_back({pools.foreign.name(), of(pools.foreign, settings.test_examples, "foreign")});
  return task;
}

}  // namespace fluxformer::paths
