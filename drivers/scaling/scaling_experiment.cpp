// `scaling`: times steps of `evolve` or `train` by phase, and measures the machine's peak performance.

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "base/mpi.hpp"
#include "base/phases.hpp"
#include "drivers/common/data_options.hpp"
#include "drivers/common/model_options.hpp"
#include "drivers/common/run_options.hpp"
#include "drivers/evolve/evolve_options.hpp"
#include "drivers/registry.hpp"
#include "drivers/scaling/scaling_record.hpp"
#include "drivers/study/study.hpp"
#include "drivers/train/train_options.hpp"
#include "io/digest.hpp"
#include "io/file_names.hpp"
#include "io/layout.hpp"

namespace fluxformer {
namespace {

void declare_scaling(Options& options) {
  options.declare("scaling.study", "", "name of the study in tables and figures; empty: the workload");
  options.declare("scaling.workload", "evolve",
                  "which steps are timed: time steps of evolve, or training steps of train",
                  {.choices = {"evolve", "train"}});
  options.declare("scaling.mode", "strong",
                  "strong: the problem of the deck is split over all ranks; weak: the deck gives the problem "
                  "per rank, which grows along scaling.over",
                  {.choices = {"strong", "weak"}});
  options.declare("scaling.over", "depth",
                  "what is split over the ranks: depth (evolve), tokens, or samples (train); "
                  "mesh.ranks_depth and mesh.ranks_token take precedence if given",
                  {.choices = {"depth", "tokens", "samples"}});
  options.declare("scaling.warm_up", 2L, "untimed steps before the first repetition",
                  {.unit = "steps", .minimum = 1, .role = Role::free});
  options.declare("scaling.steps", 5L, "timed steps per repetition",
                  {.unit = "steps", .minimum = 1, .role = Role::free});
  options.declare("scaling.repetitions", 5L,
                  "repetitions; each ends with a checkpoint, which is timed separately",
                  {.minimum = 1, .role = Role::free});
  options.declare("scaling.machine", true,
                  "also measure the machine: matrix products, messages, sums over ranks (a few seconds)",
                  {.role = Role::free});
  declare_model_options(options);
  declare_data_options(options);
  options.declare_when(When{"scaling.workload", "evolve"}, declare_evolution);
  options.declare_when(When{"scaling.workload", "train"}, declare_training);
  options.declare(
      seed_option("seed of the built-in data, of noise and random starts, of the order of samples"));
  declare_study_run(options, "scaling.h5");
}

const io::Variable checkpoint_bytes{"checkpoint_bytes", {}, "B", "size of a checkpoint"};

/// One place: all repetitions, since steps follow each other.
class Scaling final : public Study {
 public:
  /// The record of the repetitions writes everything at the end.
  static study::Contents contents() { return {{}, {}, {}, {}, scaling::group}; }
  Scaling(const Settings& settings, MPI_Comm comm)
      : plan_(scaling_plan_of(settings)),
        comm_(comm),
        workload_(make_workload(scaled(settings, mpi::size(comm)), comm)),
        schedule_(plan_.workload == "train" ? settings.word("train.pipeline") : std::string()) {}
  std::string describe() const override;
  std::vector<Place> places() const override { return {{.group = "", .name = "all repetitions"}}; }
  std::string unit() const override { return "workloads"; }
  int ranks_of_place() const override { return all_ranks; }
  std::vector<io::Variable> kept() const override { return {repetitions(), checkpoint_bytes}; }
  /// The layout of the ranks and the length of a repetition: times of others do not mix with these.
  std::vector<Source> sources() const override;
  void begin(StudyRecord&) override {}
  /// Times the repetitions that are left, after untimed steps.
  void measure(const Place& place, Results& to) override;
  bool half_way() const override { return timing_ && timed_.count() > 0; }
  void save(io::CheckpointWriter& file) const override { timed_.save(file); }
  void load(const Place&, const io::CheckpointReader& file) override {
    timed_.load(file);
    timing_ = true;
  }
  /// Measures the machine, and adds everything.
  bool conclude(const Findings& found, RunFrame& frame, StudyRecord& record) override;
  std::string summary(const Findings&) const override { return timed_.summary(); }

 private:
  /// All repetitions of all ranks, one after the other.
  io::Variable repetitions() const {
    return {"repetitions", {"extent_" + std::to_string(timed_.numbers())}, "", "work of all repetitions"};
  }
  /// Work of this rank since begin_repetition; writes the checkpoint.
  Repetition end_repetition();
  /// Removes the last checkpoint and returns its size in bytes. Collective.
  double remove_checkpoints() const;
  /// Lets all ranks start counting together. Collective.
  void begin_repetition() const;

  ScalingPlan plan_;
  MPI_Comm comm_;
  std::unique_ptr<ScalingWorkload> workload_;
  std::string schedule_;  // train.pipeline
  ScalingRecord timed_{plan_, comm_, *workload_};
  bool timing_ = false;  ///< true while the place is measured
};

std::string Scaling::describe() const {
  return workload_->describe() + "\n" + plan_.mode + " scaling over " + plan_.over + ": " +
         std::to_string(plan_.repetitions) + " times " + std::to_string(plan_.steps) + " steps";
}

std::vector<Study::Source> Scaling::sources() const {
  const auto size = workload_->size();
  std::ostringstream way;
  way << "the timing by steps of " << plan_.steps << " on " << mpi::size(comm_) << " rank(s), "
      << size.ranks_depth << " over depth, " << size.ranks_token << " over tokens, " << size.groups
      << " over samples";
  if (!schedule_.empty()) way << ", " << size.micro_batches << " micro-batch(es), " << schedule_;
  return {{.called = way.str(), .digest = io::digest_of(way.str())}};
}

void Scaling::begin_repetition() const {
  check_mpi(MPI_Barrier(comm_));
  reset_work_counts();
}

Repetition Scaling::end_repetition() {
  Repetition repetition{.work = work_counts(), .checkpoint_seconds = 0};
  begin_repetition();
  workload_->save(plan_.trial);
  repetition.checkpoint_seconds = work_counts().seconds();
  return repetition;
}

double Scaling::remove_checkpoints() const {
  const auto last = io::checkpoint_path(plan_.trial);
  double bytes = 0;
  collectively(comm_, [&] {
    if (!mpi::is_root(comm_)) return;
    if (std::filesystem::exists(last)) bytes = static_cast<double>(std::filesystem::file_size(last));
    for (const auto& path : {last, io::previous_checkpoint_path(plan_.trial)}) std::filesystem::remove(path);
  });
  check_mpi(MPI_Bcast(&bytes, 1, MPI_DOUBLE, 0, comm_));
  return bytes;
}

void Scaling::measure(const Place&, Results& to) {
  const long warm_up = plan_.warm_up, steps = plan_.steps, wanted = plan_.repetitions;
  // One at least: it tells the size of a checkpoint.
  const long total = warm_up + steps * std::max(1L, wanted - timed_.count());
  long step = 0;
  bool stopped = false;
  timing_ = true;
  workload_->run([&] {
    ++step;
    if (step < warm_up || (step - warm_up) % steps != 0) return true;
    if (step > warm_up) {
      const auto repetition = end_repetition();
      if (timed_.count() < wanted) timed_.add(repetition);
    }
    stopped = step < total && !to.go_on(static_cast<double>(timed_.count()) / static_cast<double>(wanted),
                                        std::to_string(timed_.count()) + " done");
    begin_repetition();
    return step < total && !stopped;
  });
  timed_.set_checkpoint_bytes(remove_checkpoints());
  if (stopped) return;
  timing_ = false;
  if (step < total)
    throw BadInput("the run ended after " + std::to_string(step) + " of " + std::to_string(total) +
                   " steps: raise evolve.time, or reduce scaling.steps or scaling.repetitions");
  to.put(repetitions(), timed_.packed());
  to.put(checkpoint_bytes, {timed_.checkpoint_bytes()});
}

bool Scaling::conclude(const Findings& found, RunFrame&, StudyRecord& record) {
  timed_.unpack(found.at(0, repetitions()));
  timed_.set_checkpoint_bytes(found.at(0, checkpoint_bytes).front());
  timed_.measure_machine();
  timed_.add_to(record);
  return true;
}

void describe_scaling(io::Description& description) {
  using namespace scaling;
  io::describe_archive(description);
  description.variables("/", {repetition, message_bytes});
  description.attributes(
      group, {scaling::study, workload, mode,          over,       precision, nodes,  ranks_depth,
              ranks_token,    groups,   micro_batches, layers,     cells,     tokens, samples,
              width,          ffn,      heads,         parameters, steps,     flops,  statistics});
  description.variables(group, {step_seconds, flop_rate, peak_flop_rate, memory});
  description.variables(names::in(group, "<phase>"), {phase_seconds});
  description.attributes(names::in(group, "<phase>"), {messages, bytes});
  description.variables(names::in(group, "machine"), {message_seconds, sum_seconds});
}

}  // namespace

ExperimentEntry scaling_experiment() {
  return study_entry<Scaling>(
      {.name = "scaling",
       .family = "scaling",
       .sentence = "times the steps of evolve or train by phase, on any number of ranks",
       .cites = "docs/performance.md",
       .declare = declare_scaling,
       .describe = describe_scaling});
}

}  // namespace fluxformer
