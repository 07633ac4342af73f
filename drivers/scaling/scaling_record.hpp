#pragma once

// The measurements of `scaling` from all ranks, and its output file.

#include <memory>
#include <string>
#include <vector>

#include "base/phases.hpp"
#include "base/settings.hpp"
#include "drivers/common/experiment.hpp"
#include "drivers/scaling/scaling_workload.hpp"
#include "io/part_file.hpp"

namespace fluxformer {

/// A repetition of the timed steps, on one rank.
struct Repetition {
  WorkCounts work;            ///< work of all steps
  double checkpoint_seconds;  ///< time of the checkpoint after them, s
};

class ScalingFile;

/// The repetitions of all ranks, the properties of the machine, and the file made of both.
class ScalingRecord {
 public:
  /// Starts an empty record; all arguments are borrowed.
  ScalingRecord(const Settings& settings, const RunContext& context, const ScalingWorkload& workload);

  /// Adds a repetition of all ranks. Collective.
  void add(const Repetition& mine);
  /// Measures the machine if scaling.machine is set. Collective.
  void measure_machine();
  /// Sets the size of a checkpoint in bytes.
  void set_checkpoint_bytes(double bytes) { checkpoint_bytes_ = bytes; }
  /// Writes output.file, claimed by `claim`, and returns a summary of a few lines. Collective.
  std::string finish(std::unique_ptr<io::PartFile> claim);

 private:
  /// Values of `number` for each repetition and rank, [repetition][rank].
  template <class Number>
  std::vector<std::vector<double>> of_all(Number&& number) const;
  /// Sums of `number` over ranks, per step, for each repetition.
  template <class Number>
  std::vector<double> sums(Number&& number) const;
  void describe_problem(ScalingFile& file) const;
  void write_phase(ScalingFile& file, std::size_t phase) const;
  void write_machine(ScalingFile& file) const;

  const Settings& settings_;
  const RunContext& context_;
  const ScalingWorkload& workload_;
  double steps_;                                      // steps in a repetition
  std::vector<std::vector<Repetition>> repetitions_;  // work by repetition and rank
  double checkpoint_bytes_ = 0;
  std::vector<double> peak_;  // rates of a large matrix product, by rank
  std::vector<double> sizes_, message_seconds_, sum_seconds_;
};

}  // namespace fluxformer
