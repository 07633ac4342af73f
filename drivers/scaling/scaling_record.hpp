#pragma once

// What `scaling` measured, of all ranks, and its file.

#include <memory>
#include <string>
#include <vector>

#include "base/phases.hpp"
#include "base/settings.hpp"
#include "drivers/common/experiment.hpp"
#include "drivers/scaling/scaling_workload.hpp"
#include "io/part_file.hpp"

namespace fluxformer {

/// Of one rank or, gathered, of one after the other.
struct Repetition {
  WorkCounts work;            ///< of all its steps
  double checkpoint_seconds;  ///< of the checkpoint after them
};

class ScalingFile;

class ScalingRecord {
 public:
  /// All borrowed.
  ScalingRecord(const Settings& settings, const RunContext& context, const ScalingWorkload& workload);

  /// Collective: one more repetition.
  void add(const Repetition& mine);
  /// Collective: the machine, if scaling.machine wants it.
  void measure_machine();
  /// Bytes of a checkpoint.
  void set_checkpoint_bytes(double bytes) { checkpoint_bytes_ = bytes; }
  /// Collective: writes output.file, which `claim` has claimed. A few lines for a reader.
  std::string finish(std::unique_ptr<io::PartFile> claim);

 private:
  /// [repetition][rank] of what `number` says.
  template <class Number>
  std::vector<std::vector<double>> of_all(Number&& number) const;
  /// The sum of that over ranks, per step, of each repetition.
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
