#include "drivers/train/depth_report.hpp"

#include <algorithm>
#include <memory>
#include <sstream>

#include "base/error.hpp"
#include "base/mpi.hpp"
#include "data/dataset.hpp"
#include "model/model_file.hpp"
#include "solvers/march/march_field.hpp"

namespace fluxformer {
namespace {

constexpr int refinements[] = {1, 2, 4, 8};  // cells over those of the training
constexpr Index most_samples = 64;
constexpr double share_of_training = 0.03;

/// The number of samples, at least 1, for which the passes over all meshes are that share of those that the
/// training took: three for each of its samples, of which two go back.
Index affordable_samples(const TrainProblem& problem) {
  int passes = 0;
  for (const int refinement : refinements) passes += refinement;
  const double taken = 3.0 * static_cast<double>(problem.total_steps()) * problem.batches->global();
  return std::clamp(static_cast<Index>(share_of_training * taken / passes), Index{1}, most_samples);
}

/// The samples of the report: test samples, in an order of their own, since a file may be sorted by class.
SampleSet samples_of_report(const TrainProblem& problem) {
  const bool tests = !problem.members.testing.empty();
  const auto& all = tests ? problem.members.testing : problem.members.training;
  auto chosen = shuffled(all.size(), problem.plan.seed, "depth report", 0);
  chosen.resize(std::min(std::ssize(chosen), affordable_samples(problem)));
  for (auto& place : chosen) place = all[place];
  return problem.samples(tests ? *problem.test : *problem.train, chosen).first(std::ssize(chosen));
}

/// The model of the training for batches of the report, and its evaluation on any number of cells.
class FinerModel {
 public:
  FinerModel(TrainProblem& problem, const SampleSet& samples)
      : problem_(problem), samples_(samples), slab_(problem.slab) {
    slab_.samples = samples.capacity();
    slab_.mask.length.clear();
    slab_.dropout = nullptr;
    model_ = collectively(
        problem.comm, [&] { return make_depth_model(*problem.parameters, slab_, problem.plan.precision); });
  }

  /// Collective; throws (agreed).
  Evaluation on(const DepthCells& cells, const GradientPlan& plan) {
    auto equation = equation_for(problem_.plan.equation, problem_.parameters->spec);
    equation.depth = cells;
    const auto range = problem_.stage_on(cells.cells);
    auto pipeline = collectively(problem_.comm, [&] {
      return std::make_unique<Pipeline>(
          problem_.ranks.of_training(problem_.comm).depth, PipelineSettings{}, [&] {
            Slot slot{make_march(*model_, equation, plan, range), nullptr};
            slot.evaluator = std::make_unique<GradientEvaluator>(*problem_.parameters, slab_, *slot.march,
                                                                 problem_.plan.objective.loss);
            return slot;
          });
    });
    return problem_.trainer->evaluate(samples_, *pipeline);
  }

 private:
  TrainProblem& problem_;
  const SampleSet& samples_;
  SlabContext slab_;
  std::unique_ptr<DepthModel> model_;
};

}  // namespace

DepthReport depth_report(TrainProblem& problem) {
  DepthReport report;
  if (const auto without = without_field(problem.parameters->spec); !without.empty()) {
    report.without = "with " + without + " there is no equation that it could solve";
    return report;
  }
  auto plan = problem.plan.gradient;
  if (plan.adjoint && !plan.settings.layer_map()) report.method = plan.settings.method;
  plan.settings.tapes = false;
  try {
    const auto samples = samples_of_report(problem);
    report.samples = samples.size();
    FinerModel model(problem, samples);
    for (const int refinement : refinements) {
      const auto cells = problem.depth.divided(refinement);
      const auto found = model.on(cells, plan);
      report.cells.push_back(cells.cells);
      report.loss.push_back(found.loss);
      report.accuracy.push_back(found.correct);
    }
    report.limit = depth_limit(report.loss, order_of(plan.settings));
  } catch (const Error& e) {  // the training is done, whatever finer cells do
    report.without = std::string("finer cells: ") + e.what();
  }
  return report;
}

std::string DepthReport::text() const {
  if (!without.empty()) return without;
  std::ostringstream text;
  text.precision(3);
  text << "loss of " << samples << (samples == 1 ? " sample" : " samples");
  if (!method.empty()) text << " by adjoint.method = " << method;
  text << ' ' << loss.front() << " on " << cells.front()
       << (cells.front() == 1 ? " depth cell" : " depth cells");
  for (std::size_t k = 1; k < cells.size(); ++k) text << ", " << loss[k] << " on " << cells[k];
  if (limit.asymptotic)
    text << ", " << limit.value << " in the limit (order " << limit.order << ")";
  else
    text << " (no limit: these differences do not show the order of the method)";
  const auto is = converged();
  text << (is == "yes"  ? ": converged in depth"
           : is == "no" ? ": not converged in depth"
                        : ": not known to be converged in depth");
  if (samples < fewest_samples) text << ", from so few samples";
  return text.str();
}

std::string DepthReport::converged() const {
  const auto is = limit.within(tolerance);
  return samples < fewest_samples || !is ? "unknown" : *is ? "yes" : "no";
}

namespace stored = depth_report_variables;

void DepthReport::write(io::ArchiveWriter& archive, const std::string& group) const {
  archive.attribute(model_file::depth_report, text(), group);
  if (!without.empty()) return;
  archive.axis(stored::cells, cells);
  archive.write(group, {{stored::loss, loss}, {stored::accuracy, accuracy}});
  archive.attribute(stored::samples, long{samples}, group);
  archive.attribute(stored::order, limit.order, group);
  archive.attribute(stored::asymptotic, std::string(limit.asymptotic ? "yes" : "no"), group);
  archive.attribute(stored::limit, limit.value, group);
  archive.attribute(model_file::depth_converged, converged(), group);
}

void DepthReport::describe(io::Description& description, const std::string& group) {
  description.variables("/", {stored::cells});
  description.variables(group, {stored::loss, stored::accuracy});
  description.attributes(group, {stored::samples, stored::order, stored::asymptotic, stored::limit,
                                 model_file::depth_converged, model_file::depth_report});
}

}  // namespace fluxformer
