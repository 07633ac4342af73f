#include "drivers/paths/prune_points.hpp"

#include <sstream>

#include "analysis/paths/path_kernels.hpp"
#include "analysis/paths/path_variables.hpp"
#include "base/error.hpp"
#include "drivers/paths/pruning_record.hpp"

namespace fluxformer {

namespace stored = paths::variables;
using namespace paths;

PrunePoints::PrunePoints(const Settings& settings, PathTasks& tasks, double width, double temperature)
    : tasks_(tasks),
      width_(width),
      temperature_(temperature),
      random_(static_cast<std::size_t>(settings.count("paths.random_orders"))) {
  if (tasks.trained(tasks.seeds().front()) == nullptr)
    throw BadInput(
        "paths.study = prune needs trained networks: paths.task = one_shot and paths.attention, a file of "
        "paths.study = train");
}

std::size_t PrunePoints::numbers(std::size_t) const {
  return pruning_numbers(tasks_.heads(), random_);
}

std::vector<double> PrunePoints::measure(std::size_t point) {
  const long seed = tasks_.seeds()[point];
  const auto& heads = tasks_.heads();
  const auto& task = tasks_.task_of(seed);
  const auto& network = *tasks_.trained(seed);
  const auto weights = LearnerWeights(network.shape).input_weights(network.weights);
  const auto order = tasks_.of(seed).solve(network_of_width(heads, width_), temperature_).order;
  const HeadWorth worth{
      .theory = head_scores(order.u.front(), heads),
      .entropies = mean_entropies(tasks_.attention_of(seed), tasks_.examples(), tasks_.tokens_of(seed)),
      .sensitivities = first_order_scores(task.train, weights, heads)};
  return pruning_curves(
      worth, heads, static_cast<std::uint64_t>(seed), random_, [&](std::span<const HeadPlace> lost) {
        return accuracy(outputs(task.test.inputs, without_heads(weights, heads, lost)), task.test.targets);
      });
}

std::string PrunePoints::describe() const {
  std::ostringstream text;
  text << "; heads of trained networks silenced in rising and falling order of scores at N = " << width_
       << ", T = " << temperature_ << ", by two usual rules, and in " << random_ << " random orders";
  return text.str();
}

std::string PrunePoints::summary(const std::vector<std::vector<double>>& found) const {
  std::string text;
  for (std::size_t k = 0; k < found.size(); ++k)
    text += "\n  trained network of seed " + std::to_string(tasks_.seeds()[k]) + ": " +
            pruning_summary(found[k], tasks_.heads());
  return text;
}

void PrunePoints::add_axes(StudyRecord& record) const {
  add_pruning_axes(record, tasks_.heads(), random_, {width_, temperature_});
}

void PrunePoints::add(const std::vector<std::vector<double>>& found, StudyRecord& record) const {
  for (const auto& one : found) add_pruning(record, stored::network_group, tasks_.heads(), random_, one);
}

}  // namespace fluxformer
