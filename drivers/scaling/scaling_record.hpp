#pragma once

// The measurements of `scaling` from all ranks, and its output file.

#include <iterator>
#include <string>
#include <vector>

#include "base/phases.hpp"
#include "base/settings.hpp"
#include "drivers/scaling/scaling_workload.hpp"
#include "drivers/study/study_record.hpp"
#include "io/checkpoint.hpp"

namespace fluxformer {

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

  /// Throws BadInput, beginning with the name of a file, for repetitions of another number of ranks or steps.
  void require_same(long ranks, long steps, const std::string& file) const;
  /// Writes and reads the repetitions so far. BadInput for those of another number of ranks or steps.
  /// Collective.
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
