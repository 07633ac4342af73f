#include "drivers/hessian/layer_study.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <sstream>

#include "analysis/decoder/decoder_variables.hpp"
#include "analysis/hessian/hessian_variables.hpp"
#include "base/error.hpp"
#include "base/memory.hpp"
#include "base/mpi.hpp"
#include "drivers/common/point_sweep.hpp"
#include "drivers/common/run_frame.hpp"
#include "drivers/compare/compare_variables.hpp"
#include "drivers/compare/study_record.hpp"
#include "drivers/hessian/heat_map.hpp"
#include "drivers/hessian/hessian_measures.hpp"
#include "drivers/hessian/layer_points.hpp"

namespace fluxformer {

namespace layered = decoder::variables;

namespace {

class LayerStudyExperiment final : public Experiment {
 public:
  LayerStudyExperiment(const Settings& settings, const RunContext& context);
  std::string describe() const override { return points_.describe(); }
  Report run() override;

 private:
  std::string summary() const;

  Settings settings_;
  RunContext context_;
  RunFrame frame_{settings_, context_};
  LayerPoints points_{settings_};
  PointSweep sweep_{settings_, context_, frame_, points_};
  bool heat_map_ = settings_.word("hessian.study") == "blocks" && settings_.flag("hessian.heat_map");
};

LayerStudyExperiment::LayerStudyExperiment(const Settings& settings, const RunContext& context)
    : settings_(settings), context_(context) {
  if (heat_map_)
    require_memory(
        context.comm, static_cast<double>(heat_map_bytes(points_)) / mpi::size(context.comm),
        "hessian.heat_map with hessian.width = " + std::to_string(settings.integer("hessian.width")));
  const auto width = static_cast<double>(settings.integer("hessian.width"));
  // Memory for the blocks of V, Q and K: the whole matrix of one sequence and the sum over sequences, 9 d^4
  // numbers each, and the diagonal blocks.
  if (settings.word("hessian.study") == "blocks")
    require_memory(context.comm, sizeof(double) * 21 * std::pow(width, 4),
                   "hessian.width = " + std::to_string(settings.integer("hessian.width")) +
                       ", for the entries of the blocks");
}

std::string LayerStudyExperiment::summary() const {
  std::ostringstream text;
  text << "done: " << points_.count() << " points, " << frame_.seconds() << " s";
  // Counts points that have overflowed. An infinite number alone does not show it, since the logarithms of
  // entries that are zero are infinite, too; overflow shows in a NaN or in a norm.
  std::size_t overflown = 0;
  std::string first;
  const bool norms = settings_.word("hessian.study") == "scaling";
  const auto& found = sweep_.found();
  for (std::size_t point = 0; point < found.size(); ++point) {
    const auto bad = [norms](double x) { return norms ? !std::isfinite(x) : std::isnan(x); };
    if (std::ranges::none_of(found[point], bad)) continue;
    if (overflown++ == 0) first = points_.name(point);
  }
  if (overflown > 0)
    text << "; numbers that are not finite in " << overflown << " of them, the first: " << first;
  return text.str();
}

Report LayerStudyExperiment::run() {
  constexpr const char* advice = "continue with --checkpoint.restart=auto";
  frame_.begin();
  sweep_.restart();
  auto claim = frame_.claim({.datasets = 16 * points_.kinds().size()});
  StudyRecord record(settings_, context_, std::move(claim), points_.seeds());
  points_.add_axes(record);
  sweep_.announce_restart();
  frame_.announce(*this);
  const Stopwatch measuring;
  if (!sweep_.run()) return frame_.stopped(sweep_.place(), advice);
  if (heat_map_ && !add_heat_maps(points_, context_.comm, frame_, record)) {
    sweep_.checkpoint();
    return frame_.stopped("in the heat map, after all points", advice);
  }
  frame_.add_seconds("measure", measuring.seconds());
  points_.add(sweep_.found(), record);
  for (std::size_t kind = 0; kind < points_.kinds().size(); ++kind) {
    const auto first = sweep_.seconds().begin() + static_cast<std::ptrdiff_t>(kind * points_.per_kind());
    const double all = std::accumulate(first, first + static_cast<std::ptrdiff_t>(points_.per_kind()), 0.0),
                 seeds = static_cast<double>(points_.seeds().size());
    for (std::size_t seed = 0; seed < points_.seeds().size(); ++seed)
      record.add(points_.kinds()[kind], compare::seconds, {all / seeds});
  }
  record.finish(frame_.parts());
  return frame_.done(summary());
}

}  // namespace

std::vector<io::Variable> layer_study_coordinates() {
  return {layered::weight_matrix, layered::sigma,     axes::layer,
          layered::entry_size,    layered::parameter, layered::other_parameter};
}

std::vector<io::Variable> layer_study_measures() {
  std::vector<io::Variable> measures;
  for (const auto& part : hessian_parts)
    for (const auto& one : {layered::entry_share, layered::median_entry, layered::largest_entries,
                            layered::layer_norm, layered::matrix_norm})
      measures.push_back(hessian::variables::of_part(part, one));
  return measures;
}

std::unique_ptr<Experiment> make_layer_study(const Settings& settings, const RunContext& context) {
  return std::make_unique<LayerStudyExperiment>(settings, context);
}

}  // namespace fluxformer
