#include "drivers/paths/theory_points.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <sstream>

#include "analysis/paths/head_pruning.hpp"
#include "analysis/paths/path_variables.hpp"
#include "base/error.hpp"
#include "base/mpi.hpp"
#include "base/statistics.hpp"
#include "drivers/compare/compare_variables.hpp"

namespace fluxformer {

namespace stored = paths::variables;
using namespace paths;
namespace {

constexpr double no_limit = std::numeric_limits<double>::infinity();
constexpr const char* group = "theory";

/// Variables with one number for each point, in the order in which `solved` puts them.
const std::vector<io::Variable> singles = {
    stored::accuracy,      stored::draw_accuracy,   stored::bias_error,   stored::variance_error,
    stored::action,        stored::energy,          stored::readout,      stored::gradient,
    stored::iterations,    stored::largest_overlap, stored::pruning_loss, stored::good_weight,
    stored::good_denoising};

void append(std::vector<double>& to, const Eigen::VectorXd& values) {
  to.insert(to.end(), values.data(), values.data() + values.size());
}

/// Correlation in U of the path "good", the first of every task, with "denoising"; NaN if there is no such
/// path.
double good_denoising(const Eigen::MatrixXd& u, const std::vector<std::string>& names) {
  const auto place = std::ranges::find(names, "denoising");
  if (place == names.end()) return missing_value;
  const auto d = place - names.begin();
  return u(0, d) / std::sqrt(u(0, 0) * u(d, d));
}

}  // namespace

TheoryPoints::TheoryPoints(const Settings& settings, PathTasks& tasks)
    : tasks_(tasks),
      temperatures_(settings.reals("paths.temperatures")),
      widths_(settings.reals("paths.widths")),
      components_(static_cast<std::size_t>(std::min(settings.count("paths.components"), tasks.examples()))),
      layers_(tasks.heads().size()),
      paths_(static_cast<std::size_t>(tasks.paths())),
      most_heads_(static_cast<std::size_t>(*std::ranges::max_element(tasks.heads()))),
      all_heads_(static_cast<std::size_t>(std::accumulate(tasks.heads().begin(), tasks.heads().end(), 0))) {
  std::ranges::sort(widths_);
  widths_.push_back(no_limit);
}

TheoryPoints::PointParameters TheoryPoints::parameters_of(std::size_t point) const {
  const std::size_t seeds = tasks_.seeds().size(), width = point / seeds % widths_.size();
  return {.temperature = temperatures_[point / seeds / widths_.size()],
          .width = widths_[width],
          .seed = tasks_.seeds()[point % seeds],
          .limit = width + 1 == widths_.size()};
}

std::size_t TheoryPoints::point(std::size_t temperature, std::size_t width, std::size_t seed) const {
  return (temperature * widths_.size() + width) * tasks_.seeds().size() + seed;
}

std::size_t TheoryPoints::numbers(std::size_t point) const {
  return singles.size() + layers_ + 2 + layers_ * paths_ * paths_ + layers_ * most_heads_ + all_heads_ +
         components_ + 2 * static_cast<std::size_t>(tasks_.test_examples()) + tasks_.further().size() +
         (parameters_of(point).limit ? tasks_.parts().size() : 0);
}

std::vector<double> TheoryPoints::solved(const PointParameters& at, const TaskTheory& theory,
                                         const OrderParameters& order, const SaddlePoint& saddle) const {
  const auto& u = order.u.front();
  const auto [judged, further] = theory.evaluate_all(u, at.temperature);
  const auto ablated = theory.ablated_accuracies(u, at.temperature);
  const auto overlaps = theory.overlaps(u);
  std::vector<double> all = {judged.accuracy,
                             judged.draw_accuracy,
                             judged.bias_error,
                             judged.variance_error,
                             saddle.action,
                             saddle.energy,
                             order.readout,
                             saddle.gradient,
                             static_cast<double>(saddle.iterations),
                             overlaps.maxCoeff(),
                             judged.accuracy - ablated.front(),
                             tasks_.first_is_good() ? u(0, 0) / u.diagonal().mean() : missing_value,
                             good_denoising(u, theory.task().path_names)};
  // At infinite width there is no saddle point, so the virial identities are undefined.
  const auto identities =
      at.limit ? std::vector<double>(layers_ + 2, missing_value)
               : theory.virials_at(network_of_width(tasks_.heads(), at.width), at.temperature, order);
  all.insert(all.end(), identities.begin(), identities.end());
  const auto padded = padded_orders(order);
  all.insert(all.end(), padded.begin(), padded.end());
  const auto scores = head_scores(u, tasks_.heads());
  const double highest = *std::ranges::max_element(scores);
  auto score = scores.begin();
  // Head scores relative to the largest; layers with fewer heads are filled up with NaN.
  for (const int heads : tasks_.heads())
    for (std::size_t h = 0; h < most_heads_; ++h)
      all.push_back(h < static_cast<std::size_t>(heads) ? *score++ / highest : missing_value);
  all.insert(all.end(), ablated.begin(), ablated.end());
  append(all, overlaps.head(static_cast<Eigen::Index>(components_)));
  append(all, judged.prediction.mean);
  append(all, judged.prediction.variance);
  all.insert(all.end(), further.begin(), further.end());
  return all;
}

std::vector<double> TheoryPoints::measure(std::size_t point) {
  const auto at = parameters_of(point);
  const auto& theory = tasks_.of(at.seed);
  if (!at.limit) {
    const auto saddle = theory.solve(network_of_width(tasks_.heads(), at.width), at.temperature);
    return solved(at, theory, saddle.order, saddle);
  }
  // Infinite width: U stays that of the prior, and only the energy of the action is defined.
  const auto rest = gaussian_process_point(network_of_width(tasks_.heads(), 1));
  SaddlePoint none{.action = missing_value, .gradient = missing_value};
  none.energy = theory.energy(rest.u.front(), at.temperature);
  auto all = solved(at, theory, rest, none);
  for (const auto& part : tasks_.parts()) {
    const auto task = collectively(tasks_.together(), [&] { return with_heads(theory.task(), part.kept); });
    // A sub-network of infinite width is a Gaussian process, too: U is the prior's over its paths.
    const int count = path_count(task.heads);
    all.push_back(TaskTheory(task, tasks_.together())
                      .evaluate(Eigen::MatrixXd::Identity(count, count), at.temperature)
                      .accuracy);
  }
  return all;
}

TheoryPoints::PointResult TheoryPoints::result_of(const std::vector<double>& numbers) const {
  const auto paths = static_cast<Eigen::Index>(paths_), tests = Eigen::Index{tasks_.test_examples()};
  const std::size_t order = singles.size() + layers_ + 2,
                    mean =
                        order + layers_ * paths_ * paths_ + layers_ * most_heads_ + all_heads_ + components_;
  return {.accuracy = numbers.front(),
          .u = Eigen::Map<const RowMatrix>(numbers.data() + order, paths, paths),
          .mean = Eigen::Map<const Eigen::VectorXd>(numbers.data() + mean, tests)};
}

std::string TheoryPoints::describe() const {
  std::ostringstream text;
  text << tasks_.name() << ": " << tasks_.examples() << " examples, " << tasks_.paths()
       << " paths; theory of " << widths_.size() - 1 << " widths and of infinite width at "
       << temperatures_.size() << " temperature(s), " << tasks_.seeds().size() << " seed(s)";
  if (const int ranks = mpi::size(tasks_.together()); ranks > 1) text << "; " << ranks << " ranks a point";
  return text.str();
}

std::string TheoryPoints::summary(const std::vector<std::vector<double>>& found) const {
  std::ostringstream text;
  text << "accuracy";
  for (std::size_t t = 0; t < temperatures_.size(); ++t) {
    text << (t > 0 ? ";" : "") << " at T = " << temperatures_[t] << ':';
    for (std::size_t w = 0; w < widths_.size(); ++w) {
      double sum = 0;
      for (std::size_t s = 0; s < tasks_.seeds().size(); ++s) sum += found[point(t, w, s)].front();
      text << (w > 0 ? ", " : " ") << std::round(1000 * sum / static_cast<double>(tasks_.seeds().size())) / 10
           << " %";
      if (std::isfinite(widths_[w]))
        text << " (N = " << widths_[w] << ')';
      else
        text << " (Gaussian process)";
    }
  }
  return text.str();
}

void TheoryPoints::add_axes(StudyRecord& record) {
  record.axis(stored::temperature, temperatures_);
  record.axis(stored::width, widths_);
  record.axis(axes::layer, 1, static_cast<long>(layers_));
  record.axis(axes::head, 0, static_cast<long>(most_heads_) - 1);
  record.axis(stored::path, 0, static_cast<long>(paths_) - 1);
  record.axis(stored::other_path, 0, static_cast<long>(paths_) - 1);
  record.axis(stored::component, 1, static_cast<long>(components_));
  record.axis(stored::removed, 1, static_cast<long>(all_heads_));
  record.axis(stored::example, 0, tasks_.test_examples() - 1);
  record.axis(stored::identity, 0, static_cast<long>(layers_) + 1);
  tasks_.describe(record);
}

std::vector<double> TheoryPoints::chosen_accuracies(const std::vector<std::vector<double>>& found,
                                                    std::size_t seed) const {
  std::vector<double> chosen;
  const auto validation = [&](const auto& numbers) { return numbers.end()[-std::ssize(tasks_.further())]; };
  for (std::size_t w = 0; w < widths_.size(); ++w) {
    const auto* best = &found[point(0, w, seed)];
    for (std::size_t t = 1; t < temperatures_.size(); ++t)
      if (const auto& one = found[point(t, w, seed)]; validation(one) > validation(*best)) best = &one;
    chosen.push_back(best->front());
  }
  return chosen;
}

void TheoryPoints::add(const std::vector<std::vector<double>>& found, const std::vector<double>& seconds,
                       StudyRecord& record) const {
  const auto tests = static_cast<std::size_t>(tasks_.test_examples());
  std::vector<std::pair<io::Variable, std::size_t>>
      lists;  // variables, and how many numbers of each a point has
  lists.reserve(singles.size() + 8);
  for (const auto& one : singles) lists.emplace_back(one, 1);
  lists.insert(lists.end(), {{stored::virial, layers_ + 2},
                             {stored::order, layers_ * paths_ * paths_},
                             {stored::head_score, layers_ * most_heads_},
                             {stored::ablated_accuracy, all_heads_},
                             {stored::overlap, components_},
                             {stored::mean, tests},
                             {stored::variance, tests}});
  if (!tasks_.further().empty()) lists.emplace_back(stored::further_accuracy, tasks_.further().size());
  for (std::size_t s = 0; s < tasks_.seeds().size(); ++s) {
    std::size_t from = 0;
    const auto collect = [&](std::size_t w_begin, std::size_t each) {
      std::vector<double> values;
      for (std::size_t t = 0; t < temperatures_.size(); ++t)
        for (std::size_t w = w_begin; w < widths_.size(); ++w) {
          const auto at = found[point(t, w, s)].begin() + from;
          values.insert(values.end(), at, at + static_cast<std::ptrdiff_t>(each));
        }
      from += each;
      return values;
    };
    for (const auto& [variable, each] : lists) record.add(group, variable, collect(0, each));
    if (!tasks_.further().empty()) record.add(group, stored::chosen_accuracy, chosen_accuracies(found, s));
    if (!tasks_.parts().empty())
      record.add(group, stored::part_accuracy, collect(widths_.size() - 1, tasks_.parts().size()));
    double sum = 0;
    for (std::size_t k = s; k < seconds.size(); k += tasks_.seeds().size()) sum += seconds[k];
    record.add(group, compare::seconds, {sum});
  }
}

std::vector<io::Variable> theory_measures() {
  auto all = singles;
  all.insert(all.end(), {stored::virial, stored::order, stored::head_score, stored::ablated_accuracy,
                         stored::overlap, stored::mean, stored::variance, stored::further_accuracy,
                         stored::chosen_accuracy, stored::part_accuracy});
  return all;
}

std::vector<io::Variable> theory_coordinates() {
  return {stored::temperature, stored::width,       axes::layer,       axes::head,
          stored::path,        stored::other_path,  stored::component, stored::removed,
          stored::example,     stored::further_set, stored::part,      stored::identity};
}

}  // namespace fluxformer
