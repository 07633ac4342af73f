#include "drivers/interventions/steering.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "base/mpi.hpp"
#include "base/random.hpp"
#include "model/tasks/task.hpp"

namespace fluxformer::interventions {

void Steering::take_means(const std::vector<std::size_t>& fit) {
  const int classes = runs_.spec().classes, rank = mpi::rank(comm_), ranks = mpi::size(comm_);
  const Index tokens = runs_.extents().tokens, width = runs_.extents().width, each = tokens * width;
  std::vector<double> sums(classes * each, 0.0), counts(classes, 0.0);
  for (std::size_t k = 0; k < fit.size(); ++k) {
    if (static_cast<int>(k % static_cast<std::size_t>(ranks)) != rank) continue;
    const int label = runs_.data().label(fit[k]);
    if (label < 0 || label >= classes) continue;
    counts[label] += 1;
    Eigen::Map<RowMatrix>(sums.data() + label * each, tokens, width) += runs_.run(fit[k]).at.faces[face()];
  }
  sum_over_ranks(sums, comm_);
  sum_over_ranks(counts, comm_);
  for (int label = 0; label < classes; ++label) {
    means_.emplace_back();
    if (counts[label] > 0)
      means_.back() = Eigen::Map<const RowMatrix>(sums.data() + label * each, tokens, width) / counts[label];
  }
}

RowMatrix Steering::slope(const Run& run, int wanted, int own) {
  return runs_.patches()
      .cotangents(run, {.kind = GoalKind::logits, .a = wanted, .b = own, .token = 0})
      .faces[face()];
}

void Steering::steer(std::size_t sample, double* sums) {
  const Index doses = std::ssize(plan_.doses), classes = runs_.spec().classes;
  const int own = runs_.data().label(sample);
  if (own < 0 || own >= classes || means_[own].size() == 0) return;
  const auto run_of_sample = runs_.run(sample);
  const RowMatrix& state = run_of_sample.at.faces[face()];
  auto& many = runs_.patches().many();
  const auto random = RandomStream(plan_.seed, "steering").item(sample);
  struct SteeredRun {
    int wanted;
    Index place;  // of its goal among the sums
    RowMatrix change;
  };
  std::vector<SteeredRun> all;
  for (int wanted = 0; wanted < classes; ++wanted) {
    if (wanted == own || means_[wanted].size() == 0) continue;
    RowMatrix v = means_[wanted] - means_[own], other(v.rows(), v.cols());
    v.bottomRows(v.rows() - run_of_sample.length).setZero();
    const auto draw = random.item(static_cast<std::uint64_t>(wanted));
    for (Index k = 0; k < other.size(); ++k) other.data()[k] = draw.normal(static_cast<std::uint64_t>(k));
    other.bottomRows(v.rows() - run_of_sample.length).setZero();
    other *= v.norm() / other.norm();
    sums[0] += slope(run_of_sample, wanted, own).cwiseProduct(v).sum();
    sums[1] += 1;
    for (Index k = 0; k < doses; ++k) {
      all.push_back({wanted, 2 + 2 * k, plan_.doses[k] * v});
      all.push_back({wanted, 2 + 2 * (doses + k), plan_.doses[k] * other});
    }
  }
  many.show(run_of_sample.length);
  std::vector<double> u(many.size(), 0.0);
  const Question question{.kind = GoalKind::logit, .a = own, .b = own, .token = 0};
  for (Index first = 0; first < std::ssize(all); first += many.runs()) {
    const Index count = std::min<Index>(many.runs(), std::ssize(all) - first);
    for (Index run = 0; run < many.runs(); ++run)
      many.put(run < count ? RowMatrix(state + all[first + run].change) : state, static_cast<int>(run), u);
    many.run_on(face(), question, u);
    const auto& z = many.goal().logits();
    for (Index run = 0; run < count; ++run) {
      const auto& steered = all[first + run];
      const double* const logits = z.data() + run * classes;
      const double goal = logits[steered.wanted] - logits[own];
      if (!std::isfinite(goal))
        throw NumericalFailure(called_ + ": the goal of steering sample " + std::to_string(sample) +
                               " is not finite");
      sums[steered.place] += goal;
      if (most_likely(logits, static_cast<int>(classes)) == steered.wanted) sums[steered.place + 1] += 1;
    }
  }
}

void Steering::measure(const std::vector<std::size_t>& steered, const std::vector<std::size_t>& fit) {
  take_means(fit);
  sums_.assign(2 + 4 * plan_.doses.size(), 0.0);
  const auto rank = static_cast<std::size_t>(mpi::rank(comm_)),
             ranks = static_cast<std::size_t>(mpi::size(comm_));
  collectively(comm_, [&] {
    for (std::size_t k = rank; k < steered.size(); k += ranks) steer(steered[k], sums_.data());
  });
  sum_over_ranks(sums_, comm_);
}

void Steering::put(Results& to) const {
  const std::size_t doses = plan_.doses.size();
  const double count = sums_[1];
  const auto means = [&](std::size_t first) {
    std::vector<double> all;
    for (std::size_t k = 0; k < doses; ++k) all.push_back(sums_[first + 2 * k] / count);
    return all;
  };
  to.put(variables::steering_goal, means(2));
  to.put(variables::steering_reached, means(3));
  to.put(variables::steering_goal_random, means(2 + 2 * doses));
  to.put(variables::steering_reached_random, means(3 + 2 * doses));
  to.put(variables::steering_slope, {sums_[0] / count});
}

}  // namespace fluxformer::interventions
