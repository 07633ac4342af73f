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

/// For one rank or, once gathered, for all ranks in order.
struct Repetition {
  WorkCounts work;            ///< of all its steps
  double checkpoint_seconds;  ///< of the checkpoint after them
};

class ScalingFile;

/// The repetitions of all ranks, the properties of the machine, and the file made of both.
class ScalingRecord {
 public:
  /// All borrowed.
  ScalingRecord(const Settings& settings, const RunContext& context, const ScalingWorkload& workload);

  /// Collective: adds a repetition.
  void add(const Repetition& mine);
  /// Collective: measures the machine, if scaling.machine is set.
  void measure_machine();
  /// Bytes of a checkpoint.
  void set_checkpoint_bytes(double bytes) { checkpoint_bytes_ = bytes; }
  /// Collective: writes output.file, claimed by `claim`. Returns a summary of a few lines.
  std::string finish(std::unique_ptr<io::PartFile> claim);

 private:
  /// `number` of each repetition, [repetition][rank].
  template <class Number>
  std::vector<std::vector<double>> of_all(Number&& number) const;
  /// The same summed over ranks, per step, for each repetition.
  template <class Number>
  std::vector<double> sums(Number&& number) const;
  void describe_problem(ScalingFile& file) const;
  void write_phase(ScalingFile& file, std::size_t phase) const;
  void write_machine(ScalingFile& file) const;

  const Settings& settings_;
  const RunContext& context_;
  const ScalingWorkload& workload_;
  double steps_;                                      // of a repetition
  std::vector<std::vector<Repetition>> repetitions_;  // by repetition and rank
  double checkpoint_bytes_ = 0;
  std::vector<double> peak_;  // by rank
  std::vector<double> sizes_, message_seconds_, sum_seconds_;
};

}  // namespace fluxformer
