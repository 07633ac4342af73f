#include "drivers/paths/pruning_record.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <span>
#include <sstream>
#include <utility>

#include "analysis/paths/path_variables.hpp"
#include "base/statistics.hpp"

namespace fluxformer {

namespace stored = paths::variables;
using namespace paths;

namespace {

const std::vector<std::string> rules = {"theory", "entropy", "first order"};
const std::vector<std::string> orders_by_rule = {"theory, rising", "theory, falling",
                                                 "entropy, most diffuse first", "first order, rising"};

std::vector<double> negative(std::vector<double> numbers) {
  for (double& one : numbers) one = -one;
  return numbers;
}

std::size_t most_heads(const std::vector<int>& heads) {
  return static_cast<std::size_t>(*std::ranges::max_element(heads));
}

/// Summary of the accuracies in rising and in falling order of the theory's scores.
std::string summary_of(const PruningCurves& curves) {
  const auto percent = [](double share) { return std::round(1000 * share) / 10; };
  const auto &rising = curves.accuracies[0], &falling = curves.accuracies[1];
  const std::size_t heads = rising.size() - 1;
  std::ostringstream text;
  text << percent(rising[0]) << " %";
  for (const std::size_t lost : {heads / 4, heads / 2})
    if (lost > 0 && std::isfinite(rising[lost] + falling[lost]))
      text << ", without " << lost << " head(s) of the least score " << percent(rising[lost])
           << " %, of the largest " << percent(falling[lost]) << " %";
  return text.str();
}

}  // namespace

PruningCurves pruning_curves(const HeadWorth& worth, const std::vector<int>& heads, std::uint64_t seed,
                             std::size_t random, const PrunedAccuracy& accuracy) {
  // The heads of largest entropy are silenced first: in rising order of the negative entropy.
  const auto focus = negative(worth.entropies);
  std::vector<std::vector<HeadPlace>> orders = {
      in_rising_order(worth.theory, heads), in_rising_order(negative(worth.theory), heads),
      in_rising_order(focus, heads), in_rising_order(worth.sensitivities, heads)};
  for (std::size_t k = 0; k < random; ++k) orders.push_back(random_order(heads, seed, k));
  std::map<std::vector<std::pair<int, int>>, double> known;  // accuracy by the set of heads that are gone
  const auto once = [&](std::span<const HeadPlace> lost) {
    std::vector<std::pair<int, int>> gone;
    gone.reserve(lost.size());
    for (const auto& head : lost) gone.emplace_back(head.layer, head.head);
    std::ranges::sort(gone);
    const auto found = known.find(gone);
    return found != known.end() ? found->second : known.emplace(gone, accuracy(lost)).first->second;
  };
  PruningCurves curves;
  for (const auto& order : orders) curves.accuracies.push_back(pruning_curve(order, heads, once));
  for (const auto* scores : {&worth.theory, &focus, &worth.sensitivities}) {
    double largest = 0;
    for (const double score : *scores) largest = std::max(largest, std::abs(score));
    auto score = scores->begin();
    for (const int here : heads)
      for (std::size_t h = 0; h < most_heads(heads); ++h)
        curves.scores.push_back(h < static_cast<std::size_t>(here) ? *score++ / (largest > 0 ? largest : 1)
                                                                   : missing_value);
  }
  return curves;
}

void put_pruning(const PruningCurves& curves, const std::string& called, Results& to) {
  const auto& orders = curves.accuracies;
  std::vector<double> all, over_random;
  for (const auto& one : orders) all.insert(all.end(), one.begin(), one.end());
  const auto gain = [&](std::size_t order) { return pruning_gain(orders[0], orders[order]); };
  for (std::size_t k = orders_by_rule.size(); k < orders.size(); ++k)
    if (const double one = gain(k); std::isfinite(one)) over_random.push_back(one);
  to.put(stored::pruned_accuracy, all);
  to.put(stored::rule_score, curves.scores);
  to.put(stored::loss_by_theory, {pruning_loss(orders[0])});
  to.put(stored::gain_over_falling, {gain(1)});
  to.put(stored::gain_over_entropy, {gain(2)});
  to.put(stored::gain_over_first_order, {gain(3)});
  to.put(stored::gain_over_random, {over_random.empty() ? missing_value : mean(over_random)});
  to.say(called + ": " + summary_of(curves));
}

void add_pruning_axes(StudyRecord& record, const std::vector<int>& heads, std::size_t random,
                      const ScoresAt& scores) {
  record.axis(stored::silenced, 0, static_cast<long>(all_heads(heads).size()));
  record.axis(stored::pruning_order, 0, static_cast<long>(orders_by_rule.size() + random) - 1);
  record.axis(stored::pruning_rule, 0, static_cast<long>(rules.size()) - 1);
  auto names = orders_by_rule;
  for (std::size_t k = 1; k <= random; ++k) names.push_back("random " + std::to_string(k));
  record.note("", stored::pruning_orders, as_lines(names));
  record.note("", stored::pruning_rules, as_lines(rules));
  record.note("", stored::pruning_width, scores.width);
  record.note("", stored::pruning_temperature, scores.temperature);
}

std::vector<io::Variable> prune_measures() {
  return {stored::pruned_accuracy,      stored::rule_score,        stored::loss_by_theory,
          stored::gain_over_random,     stored::gain_over_falling, stored::gain_over_entropy,
          stored::gain_over_first_order};
}

std::vector<io::Variable> prune_coordinates() {
  return {stored::silenced, stored::pruning_order, stored::pruning_rule};
}

std::vector<io::Attribute> prune_notes() {
  return {stored::pruning_orders, stored::pruning_rules, stored::pruning_width, stored::pruning_temperature};
}

}  // namespace fluxformer
