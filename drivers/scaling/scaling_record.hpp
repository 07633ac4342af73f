#pragma once

// The measurements of `scaling` from all ranks, and its output file.

#include <iterator>
#include <string>
#include <vector>

#include "base/phases.hpp"
#include "base/settings.hpp"
#include "drivers/scaling/scaling_workload.hpp"
#include "drivers/study/study_record.hpp"
#include "io/axes.hpp"
#include "io/checkpoint.hpp"

namespace fluxformer {

// Variables of `scaling`, in /scaling.
namespace scaling {

inline constexpr const char* group = "/scaling";

inline const io::Variable repetition =
                              io::index("repetition", "repetition of the timed steps, counted from 1"),
                          message_bytes = [] {
                            auto axis = io::index(
                                "message_bytes", "bytes of the message, or of the numbers summed over ranks");
                            axis.unit = "B";
                            return axis;
                          }();

inline const io::Attribute study{"study", "name of the study"}, workload{"workload", "evolve or train"},
    mode{"mode", "strong (the same problem on any number of ranks) or weak (grown with them)"},
    over{"over", "what is split over the ranks: depth, tokens or samples"},
    precision{"precision", "arithmetic of the kernels: run.precision"}, nodes{"nodes", "number of nodes"},
    ranks_depth{"ranks_depth", "ranks along depth"}, ranks_token{"ranks_token", "ranks over tokens"},
    groups{"groups", "groups of ranks that share the samples"},
    micro_batches{"micro_batches", "parts of a group's batch that pass through the stages of depth (train)"},
    layers{"layers", "number of layers"}, cells{"cells", "depth cells"},
    tokens{"tokens", "tokens per sample"},
    samples{"samples", "samples solved simultaneously, or per training step"}, width{"width", "channels"},
    ffn{"ffn", "hidden width of the feed-forward network"}, heads{"heads", "attention heads"},
    parameters{"parameters", "number of parameters"}, steps{"steps", "timed steps per repetition"},
    flops{"flops",
          "additions and multiplications of the matrix products in the layers per step, all ranks; a "
          "backward pass counts as two forward passes"},
    statistics{"statistics", "what the three numbers over ranks are"};

inline const io::Variable step_seconds{
    "step_seconds", {"repetition"}, "s", "wall time of a step on the slowest rank"},
    flop_rate{
        "flop_rate", {"repetition"}, "1/s", "flops of a step over its wall time and the number of ranks"},
    peak_flop_rate{"peak_flop_rate",
                   {"extent_3"},
                   "1/s",
                   "flops per second of a large matrix product on a rank, with all ranks computing one at "
                   "the same time: least, median, greatest over ranks"},
    memory{"memory", {"extent_3"}, "B", "memory high-water mark: least, median, greatest over ranks"},
    message_seconds{"message_seconds",
                    {"message_bytes"},
                    "s",
                    "time of a message from the first rank to the last; NaN with one rank"},
    sum_seconds{"sum_seconds", {"message_bytes"}, "s", "time of a sum over all ranks; NaN with one rank"};

// Variables and attributes of each phase, in /scaling/<phase>.
inline const io::Variable phase_seconds{
    "seconds",
    {"repetition", "extent_3"},
    "s",
    "wall time of a phase in a step (output: in a checkpoint): least, median, greatest over ranks"};
inline const io::Attribute messages{
    "messages", "messages sent by all ranks in a step; a sum over ranks counts as one per rank"},
    bytes{"bytes", "bytes of these messages (output: of the checkpoint)", "B"};

}  // namespace scaling

/// Settings of a timing.
struct ScalingPlan {
  std::string workload, study;  ///< the workload, and the study it belongs to: by default the same
  std::string mode, over;       ///< strong or weak, over depth, tokens or samples
  std::string precision;        ///< run.precision
  bool in_double = true;        ///< arithmetic of the products whose rate is measured, double or single
  long warm_up = 0, steps = 1;  ///< untimed steps before, and steps of a repetition
  long repetitions = 1;
  bool machine = true;     ///< measure products and messages, too
  std::string trial = {};  ///< base name of the checkpoints that are timed, which no other run has
};

/// The plan of a timing.
ScalingPlan scaling_plan_of(const Settings& settings);

/// A repetition of the timed steps, on one rank.
struct Repetition {
  WorkCounts work;            ///< work of all steps
  double checkpoint_seconds;  ///< time of the checkpoint after them, s
};

/// The repetitions of all ranks, the properties of the machine, and what a file holds of both.
class ScalingRecord {
 public:
  /// Starts an empty record; all arguments are borrowed.
  ScalingRecord(const ScalingPlan& plan, MPI_Comm comm, const ScalingWorkload& workload);

  /// Number of repetitions so far.
  long count() const { return std::ssize(repetitions_); }
  /// Adds a repetition of all ranks. Collective.
  void add(const Repetition& mine);
  /// Measures the machine if scaling.machine is set. Collective.
  void measure_machine();
  /// Sets the size of a checkpoint in bytes.
  void set_checkpoint_bytes(double bytes) { checkpoint_bytes_ = bytes; }
  double checkpoint_bytes() const { return checkpoint_bytes_; }
  /// All repetitions as numbers, and back.
  std::vector<double> packed() const;
  void unpack(const std::vector<double>& numbers);
  /// How many numbers `packed` has for all repetitions of the deck.
  long numbers() const;
  /// Adds everything to the file's record. Collective.
  void add_to(StudyRecord& record) const;
  /// A summary of a few lines.
  std::string summary() const;

  /// Writes and reads the repetitions so far, on as many ranks. Collective.
  void save(io::CheckpointWriter& file) const;
  void load(const io::CheckpointReader& file);

 private:
  /// Values of `number` for each repetition and rank, [repetition][rank].
  template <class Number>
  std::vector<std::vector<double>> of_all(Number&& number) const;
  /// Sums of `number` over ranks, per step, for each repetition.
  template <class Number>
  std::vector<double> sums(Number&& number) const;
  /// Wall time of a step on the slowest rank, and flops over it and the number of ranks, by repetition.
  std::vector<double> step_seconds() const;
  std::vector<double> flop_rates() const;
  void describe_problem(StudyRecord& record) const;
  void add_phase(StudyRecord& record, std::size_t phase) const;
  void add_machine(StudyRecord& record) const;

  const ScalingPlan& plan_;
  MPI_Comm comm_;
  const ScalingWorkload& workload_;
  double steps_ = static_cast<double>(plan_.steps);   // in a repetition
  std::vector<std::vector<Repetition>> repetitions_;  // work by repetition and rank
  double checkpoint_bytes_ = 0;
  std::vector<double> peak_;  // rates of a large matrix product, by rank
  std::vector<double> sizes_, message_seconds_, sum_seconds_;
};

}  // namespace fluxformer
