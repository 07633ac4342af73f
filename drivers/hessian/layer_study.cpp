#include "drivers/hessian/layer_study.hpp"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <sstream>

#include "analysis/hessian/hessian_variables.hpp"
#include "analysis/hessian/layer_variables.hpp"
#include "base/error.hpp"
#include "base/memory.hpp"
#include "base/progress.hpp"
#include "base/rank_of.hpp"
#include "base/reductions.hpp"
#include "drivers/common/restart_check.hpp"
#include "drivers/common/run_frame.hpp"
#include "drivers/compare/compare_record.hpp"
#include "drivers/compare/compare_variables.hpp"
#include "drivers/hessian/heat_map.hpp"
#include "drivers/hessian/hessian_measures.hpp"
#include "drivers/hessian/layer_points.hpp"

namespace fluxformer {

namespace measured = hessian::variables;

namespace {

// What a checkpoint holds: the numbers of the first points, one point behind the other, and the wall time so far
// of each kind.
constexpr io::WholeItem points_done{"points"};
constexpr io::NumbersItem numbers_found{.name = "numbers", .can_be_nan = true, .can_be_infinite = true};
constexpr io::NumbersItem seconds_of_kinds{.name = "seconds", .least = 0};

class LayerStudyExperiment final : public Experiment {
 public:
  LayerStudyExperiment(const Settings& settings, const RunContext& context);
  std::string describe() const override { return points_.describe(); }
  Report run() override;

 private:
  /// The next point on each rank.
  void advance();
  void restart(const io::CheckpointReader& from);
  void checkpoint();
  bool checkpoint_due();
  /// Keeps what is there, and how the run ends. `where`: "after 3 of 8 points".
  Report stop(const std::string& where);
  std::string summary() const;

  Settings settings_;
  RunContext context_;
  RunFrame frame_{settings_, context_};
  LayerPoints points_{settings_};
  bool heat_map_ = settings_.word("hessian.study") == "blocks" && settings_.flag("hessian.heat_map");
  // of the run
  std::vector<std::vector<double>> found_;  // of the points that are done, on all ranks
  std::vector<double> seconds_ = std::vector<double>(points_.kinds().size(), 0.0);
  Cadence checkpoints_{settings_.real("checkpoint.every")};
};

LayerStudyExperiment::LayerStudyExperiment(const Settings& settings, const RunContext& context)
    : settings_(settings), context_(context) {
  if (heat_map_)
    require_memory(
        context.comm, static_cast<double>(heat_map_bytes(points_)) / RankOf(context.comm).ranks,
        "hessian.heat_map with hessian.width = " + std::to_string(settings.integer("hessian.width")));
  const auto width = static_cast<double>(settings.integer("hessian.width"));
  // Blocks of V, Q and K: the whole matrix of one sequence and its sum, 9 d^4 numbers each, and the diagonal blocks.
  if (settings.word("hessian.study") == "blocks")
    require_memory(context.comm, sizeof(double) * 21 * std::pow(width, 4),
                   "hessian.width = " + std::to_string(settings.integer("hessian.width")) +
                       ", for the entries of the blocks");
}

void LayerStudyExperiment::advance() {
  const RankOf me(context_.comm);
  const std::size_t first = found_.size(),
                    count = std::min(points_.count() - first, static_cast<std::size_t>(me.ranks));
  const std::size_t mine = first + static_cast<std::size_t>(me.rank);
  std::vector<double> seconds(seconds_.size(), 0.0);
  found_.resize(first + count);
  collectively(context_.comm, [&] {
    if (mine >= found_.size()) return;
    const Stopwatch watch;
    found_[mine] = points_.measure(mine);
    seconds[mine / points_.per_kind()] += watch.seconds();
  });
  for (std::size_t point = first; point < found_.size(); ++point) {
    found_[point].resize(points_.numbers(point), 0.0);
    sum_over_ranks(found_[point], context_.comm);
  }
  sum_over_ranks(seconds, context_.comm);
  for (std::size_t kind = 0; kind < seconds_.size(); ++kind) seconds_[kind] += seconds[kind];
}

void LayerStudyExperiment::checkpoint() {
  const Stopwatch watch;
  std::vector<double> all;
  for (const auto& numbers : found_) all.insert(all.end(), numbers.begin(), numbers.end());
  io::CheckpointWriter file(context_.comm, settings_.word("output.file"));
  file.put("settings", settings_.resolved());
  file.put(points_done, static_cast<long>(found_.size()));
  file.put(numbers_found, all);
  file.put(seconds_of_kinds, seconds_);
  file.commit();
  frame_.add_seconds("output", watch.seconds());
}

void LayerStudyExperiment::restart(const io::CheckpointReader& from) {
  const auto done = static_cast<std::size_t>(from.integer(points_done));
  if (done > points_.count())
    throw BadInput(from.called() + ": its " + std::to_string(done) + " points are more than the " +
                   std::to_string(points_.count()) + " of these settings");
  std::size_t numbers = 0;
  for (std::size_t point = 0; point < done; ++point) numbers += points_.numbers(point);
  const auto all = from.numbers(numbers_found, numbers);
  seconds_ = from.numbers(seconds_of_kinds, seconds_.size());
  auto at = all.begin();
  for (std::size_t point = 0; point < done; ++point) {
    const auto end = at + static_cast<std::ptrdiff_t>(points_.numbers(point));
    found_.emplace_back(at, end);
    at = end;
  }
}

bool LayerStudyExperiment::checkpoint_due() {
  int due = checkpoints_.due(frame_.seconds()) ? 1 : 0;
  check_mpi(MPI_Bcast(&due, 1, MPI_INT, 0, context_.comm));  // rank 0's clock decides
  return due != 0;
}

std::string LayerStudyExperiment::summary() const {
  std::ostringstream text;
  text << "done: " << points_.count() << " points, " << frame_.seconds() << " s";
  // Infinite are the logarithms of entries that are zero, too; what has overflowed shows in a NaN or in a norm.
  std::size_t overflown = 0;
  std::string first;
  const bool norms = settings_.word("hessian.study") == "scaling";
  for (std::size_t point = 0; point < found_.size(); ++point) {
    const auto bad = [norms](double x) { return norms ? !std::isfinite(x) : std::isnan(x); };
    if (std::ranges::none_of(found_[point], bad)) continue;
    if (overflown++ == 0) first = points_.name(point);
  }
  if (overflown > 0)
    text << "; numbers that are not finite in " << overflown << " of them, the first: " << first;
  return text.str();
}

Report LayerStudyExperiment::stop(const std::string& where) {
  checkpoint();
  return frame_.stopped(where, "continue with --checkpoint.restart=auto");
}

Report LayerStudyExperiment::run() {
  frame_.begin();
  const auto continued = find_checkpoint(context_.comm, settings_);
  if (continued) restart(*continued);
  auto claim = frame_.claim({.datasets = 16 * points_.kinds().size()});
  CompareRecord record(settings_, context_, std::move(claim), points_.seeds());
  points_.add_axes(record);
  if (frame_.root() && continued)
    std::cerr << "fluxformer: continuing from " << continued->path() << " after " << found_.size()
              << " points\n";
  frame_.announce(*this);
  const std::size_t total = points_.count();
  Progress progress =
      frame_.progress(static_cast<double>(total), "points", static_cast<double>(found_.size()));
  const Stopwatch measuring;
  while (found_.size() < total) {
    advance();
    progress.update(static_cast<double>(found_.size()));
    if (found_.size() < total && frame_.asked_to_stop()) {
      progress.finish();
      return stop("after " + std::to_string(found_.size()) + " of " + std::to_string(total) + " points");
    }
    if (checkpoint_due()) checkpoint();
  }
  progress.finish();
  if (heat_map_ && !add_heat_maps(points_, context_.comm, frame_, record))
    return stop("in the heat map, after all points");
  frame_.add_seconds("measure", measuring.seconds());
  points_.add(found_, record);
  for (std::size_t kind = 0; kind < seconds_.size(); ++kind)
    for (std::size_t seed = 0; seed < points_.seeds().size(); ++seed)
      record.add(points_.kinds()[kind], compare::seconds,
                 {seconds_[kind] / static_cast<double>(points_.seeds().size())});
  record.finish(frame_.parts());
  return frame_.done(summary());
}

}  // namespace

std::vector<io::Variable> layer_study_coordinates() {
  return {measured::weight_matrix, measured::sigma,     axes::layer,
          measured::entry_size,    measured::parameter, measured::other_parameter};
}

std::vector<io::Variable> layer_study_measures() {
  std::vector<io::Variable> measures;
  for (const auto& part : hessian_parts)
    for (const auto& one : {measured::entry_share, measured::median_entry, measured::largest_entries,
                            measured::layer_norm, measured::matrix_norm})
      measures.push_back(measured::of_part(part, one));
  return measures;
}

std::unique_ptr<Experiment> make_layer_study(const Settings& settings, const RunContext& context) {
  return std::make_unique<LayerStudyExperiment>(settings, context);
}

}  // namespace fluxformer
