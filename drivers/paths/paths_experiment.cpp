#include "drivers/paths/paths_experiment.hpp"

#include <algorithm>
#include <utility>

#include "analysis/paths/path_variables.hpp"
#include "base/error.hpp"
#include "base/handle.hpp"
#include "base/memory.hpp"
#include "base/mpi.hpp"
#include "drivers/common/point_sweep.hpp"
#include "drivers/common/run_frame.hpp"
#include "drivers/compare/compare_variables.hpp"
#include "drivers/compare/study_record.hpp"
#include "drivers/paths/chain_measures.hpp"
#include "drivers/paths/learner_record.hpp"
#include "drivers/paths/path_points.hpp"
#include "drivers/paths/path_tasks.hpp"
#include "drivers/paths/path_training.hpp"
#include "drivers/paths/pruning_record.hpp"

namespace fluxformer {
namespace {

class AttentionPaths final : public Experiment {
 public:
  AttentionPaths(const Settings& settings, const RunContext& context, Communicator together)
      : settings_(settings), context_(context), together_(std::move(together)) {}
  /// Throws BadInput if kernels and chains do not fit into the memory. Collective.
  void require_memory_of_all() const {
    require_memory(context_.comm, tasks_.kernel_bytes() * static_cast<double>(tasks_.seeds().size()),
                   "the kernels of " + std::to_string(tasks_.paths()) + " paths between " +
                       std::to_string(tasks_.examples()) + " examples, for " +
                       std::to_string(tasks_.seeds().size()) + " seed(s), on " +
                       std::to_string(points_.ranks_of_point()) + " rank(s) a point,");
    require_memory(context_.comm, points_.bytes(),
                   "the draws of paths.chains, paths.samples and paths.sampled_widths");
  }
  std::string describe() const override { return points_.describe(); }
  Report run() override;

 private:
  Settings settings_;
  RunContext context_;
  Communicator together_;  // the ranks that share a point
  RunFrame frame_{settings_, context_};
  PathTasks tasks_{settings_, together_};
  PathPoints points_{settings_, tasks_};
  PointSweep sweep_{settings_, context_, frame_, points_};
};

/// Ranks that share a point with this one. Collective.
Communicator ranks_of_point(const Settings& settings, MPI_Comm comm) {
  const int rank = mpi::rank(comm), ranks = mpi::size(comm);
  const int together = settings.word("paths.study") == "theory" ? settings.count("paths.ranks_point") : 1;
  if (ranks % together != 0)
    throw BadInput("paths.ranks_point = " + std::to_string(together) + ": must divide the number of ranks, " +
                   std::to_string(ranks));
  MPI_Comm mine = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split(comm, rank / together, rank, &mine));
  return Communicator(mine);
}

Report AttentionPaths::run() {
  frame_.begin();
  sweep_.restart();
  StudyRecord record(settings_, context_, frame_.claim({.datasets = 20}), tasks_.seeds());
  collectively(context_.comm, [&] { points_.add_axes(record); });
  sweep_.announce_restart();
  frame_.announce(*this);
  const Stopwatch measuring;
  if (!sweep_.run()) return frame_.stopped(sweep_.place(), "continue with --checkpoint.restart=auto");
  frame_.add_seconds("measure", measuring.seconds());
  points_.add(sweep_.found(), sweep_.seconds(), record);
  record.finish(frame_.parts());
  return frame_.done("done: " + points_.summary(sweep_.found()));
}

}  // namespace

void describe_paths(io::Description& description) {
  using namespace paths::variables;
  std::vector<io::Variable> coordinates, measures;
  const auto add = [](std::vector<io::Variable>& to, const std::vector<io::Variable>& more) {
    for (const auto& one : more)
      if (std::ranges::none_of(to, [&](const auto& other) { return other.name == one.name; }))
        to.push_back(one);
  };
  for (const auto& more :
       {theory_coordinates(), chain_coordinates(), learner_coordinates(), prune_coordinates()})
    add(coordinates, more);
  for (const auto& more : {theory_measures(), chain_variables(), learner_variables(), prune_measures()})
    add(measures, more);
  auto notes = prune_notes();
  notes.insert(notes.end(), {task, path_names, parts, further_sets, heads, dimension, train_examples,
                             quantities, images, judged_sets});
  compare::describe_models_over_seeds(description, "paths", {coordinates, notes, {}, measures});
}

std::unique_ptr<Experiment> make_paths(const Settings& settings, const RunContext& context) {
  if (settings.word("paths.study") == "train") return make_path_training(settings, context);
  auto together = ranks_of_point(settings, context.comm);
  auto experiment = collectively(
      context.comm, [&] { return std::make_unique<AttentionPaths>(settings, context, std::move(together)); });
  experiment->require_memory_of_all();
  return experiment;
}

}  // namespace fluxformer
