#include "drivers/paths/prune_points.hpp"

#include <sstream>

#include "analysis/paths/path_kernels.hpp"
#include "analysis/paths/path_variables.hpp"
#include "base/error.hpp"

namespace fluxformer {

namespace stored = paths::variables;
using namespace paths;

PrunePoints::PrunePoints(std::size_t random, PathTasks& tasks, const ScoresAt& scores)
    : tasks_(tasks), scores_(scores), random_(random) {
  if (tasks.trained(tasks.seeds().front()) == nullptr)
    throw BadInput("paths_prune needs trained networks: paths.attention, a file of paths_train");
}

std::vector<Place> PrunePoints::places() const {
  std::vector<Place> all;
  for (std::size_t s = 0; s < tasks_.seeds().size(); ++s)
    all.push_back({.group = stored::network_group,
                   .name = "trained network of seed " + std::to_string(tasks_.seeds()[s]),
                   .index = {{axes::seed.name, s}}});
  return all;
}

void PrunePoints::measure(const Place& place, Results& to) {
  const long seed = tasks_.seeds()[place.along(axes::seed)];
  const auto& heads = tasks_.heads();
  const auto& task = tasks_.task_of(seed);
  const auto& network = *tasks_.trained(seed);
  const auto weights = LearnerWeights(network.shape).input_weights(network.weights);
  const auto order = tasks_.of(seed).solve(network_of_width(heads, scores_.width), scores_.temperature).order;
  const HeadWorth worth{
      .theory = head_scores(order.u.front(), heads),
      .entropies = mean_entropies(tasks_.attention_of(seed), tasks_.examples(), tasks_.tokens_of(seed)),
      .sensitivities = first_order_scores(task.train, weights, heads)};
  const auto curves = pruning_curves(
      worth, heads, static_cast<std::uint64_t>(seed), random_, [&](std::span<const HeadPlace> lost) {
        return accuracy(outputs(task.test.inputs, without_heads(weights, heads, lost)), task.test.targets);
      });
  for (const auto& [variable, values] : pruning_results(heads, random_, curves)) to.put(variable, values);
  to.say(place.name + ": " + pruning_summary(curves, heads));
}

std::string PrunePoints::describe() const {
  std::ostringstream text;
  text << "; heads of trained networks silenced in rising and falling order of scores at N = "
       << scores_.width << ", T = " << scores_.temperature << ", by two usual rules, and in " << random_
       << " random orders";
  return text.str();
}

void PrunePoints::begin(StudyRecord& record) const {
  add_pruning_axes(record, tasks_.heads(), random_, scores_);
}

}  // namespace fluxformer
