#include "drivers/scaling/scaling_experiment.hpp"

#include <filesystem>
#include <utility>

#include "base/mpi.hpp"
#include "base/phases.hpp"
#include "base/progress.hpp"
#include "base/session.hpp"
#include "drivers/common/data_options.hpp"
#include "drivers/common/model_options.hpp"
#include "drivers/common/run_frame.hpp"
#include "drivers/common/run_options.hpp"
#include "drivers/evolve/evolve_options.hpp"
#include "drivers/scaling/scaling_record.hpp"
#include "drivers/scaling/scaling_variables.hpp"
#include "drivers/train/train_options.hpp"
#include "io/file_names.hpp"
#include "io/layout.hpp"

namespace fluxformer {
void declare_scaling(Options& options) {
  const auto declare = [&](Option option) { options.declare(std::move(option)); };
  declare({.name = "scaling.study",
           .fallback = std::string(),
           .doc = "name of the study in tables and figures; empty: the workload"});
  declare({.name = "scaling.workload",
           .fallback = std::string("evolve"),
           .doc = "which steps are timed: time steps of evolve, or training steps of train",
           .choices = {"evolve", "train"}});
  declare({.name = "scaling.mode",
           .fallback = std::string("strong"),
           .doc = "strong: the problem of the deck is split over all ranks; weak: the deck gives the problem "
                  "per rank, which grows along scaling.over",
           .choices = {"strong", "weak"}});
  declare({.name = "scaling.over",
           .fallback = std::string("depth"),
           .doc = "what is split over the ranks: depth (evolve), tokens, or samples (train); "
                  "mesh.ranks_depth and mesh.ranks_token take precedence if given",
           .choices = {"depth", "tokens", "samples"}});
  declare({.name = "scaling.warm_up",
           .fallback = 2L,
           .doc = "untimed steps before the first repetition",
           .unit = "steps",
           .minimum = 1,
           .role = Role::free});
  declare({.name = "scaling.steps",
           .fallback = 5L,
           .doc = "timed steps per repetition",
           .unit = "steps",
           .minimum = 1,
           .role = Role::free});
  declare({.name = "scaling.repetitions",
           .fallback = 5L,
           .doc = "repetitions; each ends with a checkpoint, which is timed separately",
           .minimum = 1,
           .role = Role::free});
  declare({.name = "scaling.machine",
           .fallback = true,
           .doc = "also measure the machine: matrix products, messages, sums over ranks (a few seconds)",
           .role = Role::free});
  declare_model_options(options);
  declare_data_options(options);
  options.declare_when(When{"scaling.workload", "evolve"}, declare_evolution);
  options.declare_when(When{"scaling.workload", "train"}, declare_training);
  declare(output_option("scaling.h5"));
  declare(overwrite_option());
  declare(seed_option("seed of the built-in data, of noise and random starts, of the order of samples"));
  declare(time_limit_option("wall time after which the run ends without a result; 0: none"));
}

namespace {

class ScalingExperiment final : public Experiment {
 public:
  ScalingExperiment(const Settings& settings, const RunContext& context)
      : settings_(settings),
        context_(context),
        scaled_(scaled(settings, mpi::size(context.comm))),
        workload_(make_workload(scaled_, context.comm)) {}
  std::string describe() const override;
  Report run() override;

 private:
  /// Work of this rank since begin_repetition; writes the checkpoint.
  Repetition end_repetition();
  /// Base name for checkpoints that leaves those of other runs untouched.
  std::string trial() const { return settings_.word("output.file") + ".trial"; }
  /// Removes the last checkpoint and returns its size in bytes. Collective.
  double remove_checkpoints() const;
  /// Lets all ranks start counting together. Collective.
  void begin_repetition() const;

  Settings settings_;
  RunContext context_;
  RunFrame frame_{settings_, context_};
  Settings scaled_;  ///< settings scaled to this number of ranks
  std::unique_ptr<ScalingWorkload> workload_;
};

std::string ScalingExperiment::describe() const {
  return workload_->describe() + "\n" + settings_.word("scaling.mode") + " scaling over " +
         settings_.word("scaling.over") + ": " + std::to_string(settings_.integer("scaling.repetitions")) +
         " times " + std::to_string(settings_.integer("scaling.steps")) + " steps";
}

void ScalingExperiment::begin_repetition() const {
  check_mpi(MPI_Barrier(context_.comm));
  reset_work_counts();
}

Repetition ScalingExperiment::end_repetition() {
  Repetition repetition{.work = work_counts(), .checkpoint_seconds = 0};
  begin_repetition();
  workload_->save(trial());
  repetition.checkpoint_seconds = work_counts().seconds();
  return repetition;
}

double ScalingExperiment::remove_checkpoints() const {
  const auto last = io::checkpoint_path(trial());
  double bytes = 0;
  collectively(context_.comm, [&] {
    if (!mpi::is_root(context_.comm)) return;
    if (std::filesystem::exists(last)) bytes = static_cast<double>(std::filesystem::file_size(last));
    for (const auto& path : {last, io::previous_checkpoint_path(trial())}) std::filesystem::remove(path);
  });
  check_mpi(MPI_Bcast(&bytes, 1, MPI_DOUBLE, 0, context_.comm));
  return bytes;
}

Report ScalingExperiment::run() {
  frame_.begin();
  auto claim = frame_.claim();
  frame_.announce(*this);
  ScalingRecord record(settings_, context_, *workload_);
  record.measure_machine();

  const long warm_up = settings_.integer("scaling.warm_up"), steps = settings_.integer("scaling.steps");
  const long total = warm_up + steps * settings_.integer("scaling.repetitions");
  Progress progress = frame_.progress(static_cast<double>(total), "steps");
  long step = 0;
  bool stopped = false;
  workload_->run([&] {
    ++step;
    if (step < warm_up || (step - warm_up) % steps != 0) return true;
    if (step > warm_up) record.add(end_repetition());
    progress.update(static_cast<double>(step));
    stopped = step < total && frame_.asked_to_stop();
    begin_repetition();
    return step < total && !stopped;
  });
  progress.finish();
  record.set_checkpoint_bytes(remove_checkpoints());
  if (stopped)
    return frame_.stopped("after " + std::to_string(step) + " of " + std::to_string(total) + " steps",
                          "nothing was written; start the run again");
  if (step < total)
    throw BadInput("the run ended after " + std::to_string(step) + " of " + std::to_string(total) +
                   " steps: raise evolve.time, or reduce scaling.steps or scaling.repetitions");
  const auto measured = record.finish(std::move(claim));
  return {ExitCode::done, measured + "\nwritten to " + settings_.word("output.file")};
}

}  // namespace

void describe_scaling(io::Description& description) {
  using namespace scaling;
  io::describe_archive(description);
  description.variables("/", {repetition, message_bytes});
  description.attributes(group,
                         {study,       workload, mode,          over,       precision, nodes,  ranks_depth,
                          ranks_token, groups,   micro_batches, layers,     cells,     tokens, samples,
                          width,       ffn,      heads,         parameters, steps,     flops,  statistics});
  description.variables(group, {step_seconds, flop_rate, peak_flop_rate, memory});
  description.variables(names::in(group, "<phase>"), {phase_seconds});
  description.attributes(names::in(group, "<phase>"), {messages, bytes});
  description.variables(names::in(group, "machine"), {message_seconds, sum_seconds});
}

std::unique_ptr<Experiment> make_scaling(const Settings& settings, const RunContext& context) {
  return std::make_unique<ScalingExperiment>(settings, context);
}

}  // namespace fluxformer
