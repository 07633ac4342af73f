#include "drivers/paths/theory_points.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <sstream>
#include <utility>

#include "analysis/paths/head_pruning.hpp"
#include "analysis/paths/path_variables.hpp"
#include "base/error.hpp"
#include "base/mpi.hpp"
#include "base/statistics.hpp"

namespace fluxformer {

namespace stored = paths::variables;
using namespace paths;
namespace {

constexpr double no_limit = std::numeric_limits<double>::infinity();

/// Variables with one number for each point.
const std::vector<io::Variable> singles = {
    stored::accuracy,      stored::draw_accuracy,   stored::bias_error,   stored::variance_error,
    stored::action,        stored::energy,          stored::readout,      stored::gradient,
    stored::iterations,    stored::largest_overlap, stored::pruning_loss, stored::good_weight,
    stored::good_denoising};

std::vector<double> list(const Eigen::VectorXd& values) {
  return {values.data(), values.data() + values.size()};
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

TheoryPlan theory_plan_of(const Settings& settings) {
  return {.temperatures = settings.reals("paths.temperatures"),
          .widths = settings.reals("paths.widths"),
          .components = settings.count("paths.components")};
}

TheoryPoints::TheoryPoints(TheoryPlan plan, PathTasks& tasks)
    : tasks_(tasks),
      temperatures_(std::move(plan.temperatures)),
      widths_(std::move(plan.widths)),
      components_(static_cast<std::size_t>(std::min(plan.components, tasks.examples()))),
      layers_(tasks.heads().size()),
      paths_(static_cast<std::size_t>(tasks.paths())),
      most_heads_(static_cast<std::size_t>(*std::ranges::max_element(tasks.heads()))),
      all_heads_(static_cast<std::size_t>(std::accumulate(tasks.heads().begin(), tasks.heads().end(), 0))) {
  std::ranges::sort(widths_);
  widths_.push_back(no_limit);
}

std::vector<Place> TheoryPoints::places() const {
  std::vector<Place> all;
  for (std::size_t t = 0; t < temperatures_.size(); ++t)
    for (std::size_t w = 0; w < widths_.size(); ++w)
      for (std::size_t s = 0; s < tasks_.seeds().size(); ++s) {
        std::ostringstream name;
        name << "theory, T = " << temperatures_[t] << ", N = " << widths_[w] << ", seed "
             << tasks_.seeds()[s];
        all.push_back(
            {.group = theory_group,
             .name = name.str(),
             .index = {{stored::temperature.name, t}, {stored::width.name, w}, {axes::seed.name, s}}});
      }
  return all;
}

std::size_t TheoryPoints::point(std::size_t temperature, std::size_t width, std::size_t seed) const {
  return (temperature * widths_.size() + width) * tasks_.seeds().size() + seed;
}

void TheoryPoints::put(const OrderParameters& order, const SaddlePoint& saddle, double width,
                       double temperature, const TaskTheory& theory, Results& to) const {
  const auto& u = order.u.front();
  const auto [judged, further] = theory.evaluate_all(u, temperature);
  const auto ablated = theory.ablated_accuracies(u, temperature);
  const auto overlaps = theory.overlaps(u);
  to.put(stored::accuracy, {judged.accuracy});
  to.put(stored::draw_accuracy, {judged.draw_accuracy});
  to.put(stored::bias_error, {judged.bias_error});
  to.put(stored::variance_error, {judged.variance_error});
  to.put(stored::action, {saddle.action});
  to.put(stored::energy, {saddle.energy});
  to.put(stored::readout, {order.readout});
  to.put(stored::gradient, {saddle.gradient});
  to.put(stored::iterations, {static_cast<double>(saddle.iterations)});
  to.put(stored::largest_overlap, {overlaps.maxCoeff()});
  to.put(stored::pruning_loss, {judged.accuracy - ablated.front()});
  to.put(stored::good_weight, {tasks_.first_is_good() ? u(0, 0) / u.diagonal().mean() : missing_value});
  to.put(stored::good_denoising, {good_denoising(u, theory.task().path_names)});
  // At infinite width there is no saddle point, so the virial identities are undefined.
  to.put(stored::virial,
         std::isinf(width) ? std::vector<double>(layers_ + 2, missing_value)
                           : theory.virials_at(network_of_width(tasks_.heads(), width), temperature, order));
  to.put(stored::order, padded_orders(order));
  const auto scores = head_scores(u, tasks_.heads());
  const double highest = *std::ranges::max_element(scores);
  auto score = scores.begin();
  // Head scores relative to the largest; layers with fewer heads are filled up with NaN.
  std::vector<double> relative;
  for (const int heads : tasks_.heads())
    for (std::size_t h = 0; h < most_heads_; ++h)
      relative.push_back(h < static_cast<std::size_t>(heads) ? *score++ / highest : missing_value);
  to.put(stored::head_score, relative);
  to.put(stored::ablated_accuracy, ablated);
  to.put(stored::overlap, list(overlaps.head(static_cast<Eigen::Index>(components_))));
  to.put(stored::mean, list(judged.prediction.mean));
  to.put(stored::variance, list(judged.prediction.variance));
  if (!further.empty()) to.put(stored::further_accuracy, further);
}

void TheoryPoints::measure(const Place& place, Results& to) {
  const double width = widths_[place.along(stored::width)],
               temperature = temperatures_[place.along(stored::temperature)];
  const auto& theory = tasks_.of(tasks_.seeds()[place.along(axes::seed)]);
  if (std::isfinite(width)) {
    const auto saddle = theory.solve(network_of_width(tasks_.heads(), width), temperature);
    return put(saddle.order, saddle, width, temperature, theory, to);
  }
  // Infinite width: U stays that of the prior, and only the energy of the action is defined.
  const auto rest = gaussian_process_point(network_of_width(tasks_.heads(), 1));
  SaddlePoint none{.action = missing_value, .gradient = missing_value};
  none.energy = theory.energy(rest.u.front(), temperature);
  put(rest, none, width, temperature, theory, to);
  if (tasks_.parts().empty()) return;
  std::vector<double> accuracies;
  for (const auto& part : tasks_.parts()) {
    const auto task = collectively(tasks_.together(), [&] { return with_heads(theory.task(), part.kept); });
    // A sub-network of infinite width is a Gaussian process, too: U is the prior's over its paths.
    const int count = path_count(task.heads);
    accuracies.push_back(TaskTheory(task, tasks_.together())
                             .evaluate(Eigen::MatrixXd::Identity(count, count), temperature)
                             .accuracy);
  }
  to.put(stored::part_accuracy, accuracies);
}

TheoryPoints::PointResult TheoryPoints::result_of(const Findings& found, std::size_t place) const {
  const auto paths = static_cast<Eigen::Index>(paths_);
  const auto& mean = found.at(place, stored::mean);
  return {.accuracy = found.at(place, stored::accuracy).front(),
          .u = Eigen::Map<const RowMatrix>(found.at(place, stored::order).data(), paths, paths),
          .mean = Eigen::Map<const Eigen::VectorXd>(mean.data(), std::ssize(mean))};
}

std::string TheoryPoints::describe() const {
  std::ostringstream text;
  text << tasks_.name() << ": " << tasks_.examples() << " examples, " << tasks_.paths()
       << " paths; theory of " << widths_.size() - 1 << " widths and of infinite width at "
       << temperatures_.size() << " temperature(s), " << tasks_.seeds().size() << " seed(s)";
  if (const int ranks = mpi::size(tasks_.together()); ranks > 1) text << "; " << ranks << " ranks a point";
  return text.str();
}

std::string TheoryPoints::summary(const Findings& found) const {
  std::ostringstream text;
  text << "accuracy";
  for (std::size_t t = 0; t < temperatures_.size(); ++t) {
    text << (t > 0 ? ";" : "") << " at T = " << temperatures_[t] << ':';
    for (std::size_t w = 0; w < widths_.size(); ++w) {
      double sum = 0;
      for (std::size_t s = 0; s < tasks_.seeds().size(); ++s)
        sum += found.at(point(t, w, s), stored::accuracy).front();
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

void TheoryPoints::begin(StudyRecord& record) {
  record.seeds(tasks_.seeds());
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

void TheoryPoints::conclude(const Findings& found, StudyRecord& record) const {
  if (tasks_.further().empty()) return;
  const auto validation = [&](std::size_t place) {
    return found.at(place, stored::further_accuracy).front();
  };
  for (std::size_t s = 0; s < tasks_.seeds().size(); ++s) {
    std::vector<double> chosen;
    for (std::size_t w = 0; w < widths_.size(); ++w) {
      std::size_t best = point(0, w, s);
      for (std::size_t t = 1; t < temperatures_.size(); ++t)
        if (validation(point(t, w, s)) > validation(best)) best = point(t, w, s);
      chosen.push_back(found.at(best, stored::accuracy).front());
    }
    record.add({.group = theory_group, .index = {{axes::seed.name, s}}}, stored::chosen_accuracy, chosen);
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
