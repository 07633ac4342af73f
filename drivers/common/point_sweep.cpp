#include "drivers/common/point_sweep.hpp"

#include <algorithm>
#include <iostream>
#include <limits>
#include <utility>

#include "base/error.hpp"
#include "base/mpi.hpp"
#include "base/progress.hpp"
#include "drivers/common/restart_check.hpp"
#include "io/digest.hpp"

namespace fluxformer {
namespace {

// Items of a checkpoint: the results of the first points, one point behind the other, and the wall time of
// each.
constexpr io::WholeItem points_done{"points"};
constexpr io::NumbersItem numbers_found{.name = "numbers", .can_be_nan = true, .can_be_infinite = true};
constexpr io::WholeItem digest_of_source{.name = "source", .least = std::numeric_limits<long>::min()};
constexpr io::NumbersItem seconds_of_points{.name = "seconds", .least = 0};

}  // namespace

PointSweep::PointSweep(const Settings& settings, const RunContext& context, RunFrame& frame,
                       SweepPoints& points)
    : settings_(settings),
      context_(context),
      frame_(frame),
      points_(points),
      checkpoints_(settings.real("checkpoint.every")) {}

void PointSweep::restart() {
  const auto from = find_checkpoint(context_.comm, settings_);
  if (!from) return;
  const auto done = static_cast<std::size_t>(from->integer(points_done));
  if (done > points_.count())
    throw BadInput(from->called() + ": its " + std::to_string(done) + " points are more than the " +
                   std::to_string(points_.count()) + " of these settings");
  const auto source = points_.source();
  if (from->integer(digest_of_source) != io::as_attribute(source.digest))
    throw BadInput(
        from->called() + ": " + source.called +
        " is no longer the file that its points were computed from; start anew with checkpoint.restart = no, "
        "once the checkpoint is removed");
  std::size_t numbers = 0;
  for (std::size_t point = 0; point < done; ++point) numbers += points_.numbers(point);
  const auto all = from->numbers(numbers_found, numbers);
  seconds_ = from->numbers(seconds_of_points, done);
  auto at = all.begin();
  for (std::size_t point = 0; point < done; ++point) {
    const auto end = at + static_cast<std::ptrdiff_t>(points_.numbers(point));
    found_.emplace_back(at, end);
    at = end;
  }
  continued_ = from->path();
}

void PointSweep::announce_restart() const {
  if (frame_.root() && !continued_.empty())
    std::cerr << "fluxformer: continuing from " << continued_ << " after " << found_.size() << " points\n";
}

void PointSweep::advance() {
  const int rank = mpi::rank(context_.comm), ranks = mpi::size(context_.comm);
  const int together = points_.ranks_of_point();
  const std::size_t first = found_.size(),
                    count = std::min(points_.count() - first, static_cast<std::size_t>(ranks / together));
  const auto here = static_cast<std::size_t>(rank / together);
  std::vector<std::vector<double>> next(count);
  std::vector<double> seconds(count);
  collectively(context_.comm, [&] {
    if (here >= count) return;
    const Stopwatch watch;
    auto numbers = points_.measure(first + here);
    if (rank % together != 0) return;
    next[here] = std::move(numbers);
    seconds[here] = watch.seconds();
  });
  for (std::size_t k = 0; k < count; ++k) {
    next[k].resize(points_.numbers(first + k), 0.0);
    sum_over_ranks(next[k], context_.comm);
    found_.push_back(std::move(next[k]));
  }
  sum_over_ranks(seconds, context_.comm);
  seconds_.insert(seconds_.end(), seconds.begin(), seconds.end());
}

void PointSweep::checkpoint() {
  const Stopwatch watch;
  std::vector<double> all;
  for (const auto& numbers : found_) all.insert(all.end(), numbers.begin(), numbers.end());
  io::CheckpointWriter file(context_.comm, settings_.word("output.file"));
  file.put("settings", settings_.resolved());
  file.put(points_done, static_cast<long>(found_.size()));
  file.put(digest_of_source, io::as_attribute(points_.source().digest));
  file.put(numbers_found, all);
  file.put(seconds_of_points, seconds_);
  file.commit();
  frame_.add_seconds("output", watch.seconds());
}

std::string PointSweep::place() const {
  return "after " + std::to_string(found_.size()) + " of " + std::to_string(points_.count()) + " points";
}

bool PointSweep::run() {
  const std::size_t total = points_.count();
  Progress progress =
      frame_.progress(static_cast<double>(total), "points", static_cast<double>(found_.size()));
  while (found_.size() < total) {
    try {
      advance();
    } catch (const Error&) {
      progress.finish();
      if (!found_.empty()) checkpoint();
      throw;
    }
    progress.update(static_cast<double>(found_.size()));
    if (found_.size() < total && frame_.asked_to_stop()) {
      progress.finish();
      checkpoint();
      return false;
    }
    if (frame_.due(checkpoints_)) checkpoint();
  }
  progress.finish();
  return true;
}

}  // namespace fluxformer
