#pragma once

// The output of evolve: the history line by line, fields at intervals, and the results at the end.

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "analysis/states/depth_measures.hpp"
#include "base/settings.hpp"
#include "drivers/common/experiment.hpp"
#include "drivers/evolve/evolve_problem.hpp"
#include "io/archive_writer.hpp"
#include "io/checkpoint.hpp"
#include "solvers/evolve/evolve.hpp"

namespace fluxformer {

/// This rank's part of a state on the mesh, for output.
io::FieldPart field_part(const Mesh& mesh);

/// Item of a checkpoint: the number of fields stored in the output so far.
inline constexpr io::WholeItem fields_stored{"fields", 0};

/// Least size of the output of a run, in bytes: the weights and the stored states. States are counted only
/// where steps and end are fixed beforehand and nothing is compressed.
std::uint64_t least_output_bytes(const Settings& settings, const EvolveProblem& problem);

/// The output file of `evolve`. All members are collective over the mesh.
class EvolveRecord {
 public:
  /// Opens the output file claimed by `claim`; the other arguments are borrowed.
  EvolveRecord(const Settings& settings, std::unique_ptr<io::PartFile> claim, const RunContext& context,
               const Mesh& mesh, const Equation& equation, const Parameters& parameters, const Inflow& inflow,
               states::DepthMeasurement& measurement);

  /// Writes the fields at `time`.
  void write_fields(double time, Vec u);
  /// Time of the last fields written or copied; NaN before any.
  double last_fields() const { return last_fields_; }
  /// Adds one line of the history.
  void write_history(const Step& step, double courant, double wall_time);
  /// Stores the record so far in a checkpoint; the fields stay in the output file, flushed.
  void save(io::CheckpointWriter& checkpoint);
  void load(const io::CheckpointReader& checkpoint);
  /// Copies the first `count` fields of an earlier run, or fewer if it has fewer.
  void copy_fields(const io::ArchiveReader& earlier, long count);

  /// Writes arrival times, attention entropy (and attention itself if requested) and timings, then renames
  /// the file and returns its name (ArchiveWriter::finish). `status` as in the schema; `message` may be
  /// empty.
  std::string finish(const std::string& status, const std::string& message, Vec u,
                     const std::vector<double>& inflow_slab,
                     const std::vector<std::pair<std::string, double>>& seconds);

 private:
  void describe(const RunContext& context);
  void define_axes();
  void write_weights();
  void append_line(const std::vector<double>& line);

  const Settings& settings_;
  const Mesh& mesh_;
  const Equation& equation_;
  const Parameters& parameters_;
  const Inflow& inflow_;
  states::DepthMeasurement& measurement_;
  io::FieldPart part_;
  io::FieldSelection selection_;
  io::ArchiveWriter archive_;
  io::Series *time_ = nullptr, *step_ = nullptr;
  std::vector<io::Series*> scalars_, measures_;  ///< the series in the order of a history line
  io::Field* u_ = nullptr;                       ///< null without output.fields
  states::ArrivalTimes arrival_;
  states::DepthResult last_;
  bool fields_;
  std::size_t fields_written_ = 0;
  double last_fields_ = std::numeric_limits<double>::quiet_NaN();
  // History lines so far, for checkpoints: scalars, then the measures row by row.
  std::vector<double> lines_;
  std::size_t line_size_ = 0;
};

}  // namespace fluxformer
