#pragma once

// The output of evolve: the history line by line, fields at intervals, and the results at the end.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "analysis/clusters/field_clusters.hpp"
#include "analysis/states/depth_measures.hpp"
#include "drivers/common/run_frame.hpp"
#include "drivers/evolve/evolve_problem.hpp"
#include "io/archive_writer.hpp"
#include "io/axes.hpp"
#include "io/checkpoint.hpp"
#include "solvers/evolve/evolve.hpp"

namespace fluxformer {

// Variables of `evolve` beside the measures of states and attention: the hidden state and the time history.
namespace evolution {

inline constexpr const char *history = "/history", *analysis = "/analysis/evolve", *attention = "/attention",
                            *prediction = "/prediction";

inline const io::Variable hidden_state{
    "u", {"time", "depth", "token", "sample", "channel"}, "", "hidden state"};

// What the stored states are about: the words of the samples, where they have names, or else the numbers of their tokens.
inline const io::Variable sample_words{
    "sample_words", {"sample", "token"}, "", "words of the samples; empty behind their end"},
    sample_features{
        "sample_features", {"sample", "token", "feature"}, "", "numbers of the samples' tokens in the data"};

inline const io::Variable time{"time", {"step"}, "time", "propagation time at the end of the step"},
    step_size{"step_size", {"step"}, "time", "length of the step"},
    cfl{"cfl", {"step"}, "", "Courant number c dt/h"},
    wall_time{"wall_time", {"step"}, "s", "wall time since the program (or its restart) began"};

/// Axis of attention in `evolve`: attention has a layer axis as for models, and here the layers are the cells
/// of the mesh.
inline const io::Variable depth_cell = io::index(axes::layer.name, "depth cell");

inline const io::Variable class_index = io::index("class", "class that a classifier knows"),
                          word_index = io::index("word", "word of the model's table");
inline const io::Variable class_logits{"class_logits",
                                       {"sample", "class"},
                                       "",
                                       "logits of the classifier at the last depth, at the end of the run"},
    word_logits{"word_logits",
                {"token", "sample", "word"},
                "",
                "logits of the word head at the last depth, at the end of the run"};

/// The numbers 0 .. count - 1, values of an axis that only counts.
inline std::vector<double> indices(std::size_t count) {
  std::vector<double> list(count);
  std::iota(list.begin(), list.end(), 0.0);
  return list;
}

inline const io::Variable arrival_time{
    "arrival_time", {"depth"}, "time", "arrival of the front; NaN where it has not arrived"};

}  // namespace evolution

/// This rank's part of a state on the mesh, for output.
io::FieldPart field_part(const Mesh& mesh);

/// Item of a checkpoint: the number of fields stored in the output so far.
inline constexpr io::WholeItem fields_stored{"fields", 0};

/// Least size of the output of a run, in bytes: the weights and the stored states. States are counted only
/// where steps and end are fixed beforehand and nothing is compressed.
std::uint64_t least_output_bytes(const EvolveOutput& output, const EvolveProblem& problem);

/// Throws BadInput (the same on all ranks) if one rank cannot hold the attention weights of all cells.
void require_storable_attention(const EvolveProblem& problem);
/// Throws BadInput if the model has no head, or if there are too many logits to gather. Collective over the
/// mesh.
void require_storable_logits(const EvolveProblem& problem);

/// Throws BadInput if one rank cannot hold the tokens whose clusters are measured, as output.counts says, and the numbers that it keeps of all
/// stored times. Collective over the mesh.
void require_memory_of_clusters(const EvolveOutput& output, const EvolveProblem& problem);

/// The output file of `evolve`. All members are collective over the mesh.
class EvolveRecord {
 public:
  /// Opens the output file claimed by `claim` and describes the run by its attributes; problem and
  /// measurement are borrowed.
  EvolveRecord(const EvolveOutput& output, const RunAttributes& run, std::unique_ptr<io::PartFile> claim,
               const EvolveProblem& problem, states::DepthMeasurement& measurement);

  /// Writes the fields at `time`, and clusters of tokens if they are measured.
  void write_fields(double time, Vec u);
  /// Time of the last fields written or copied; NaN before any.
  double last_fields() const { return last_fields_; }
  /// Adds one line of the history.
  void write_history(const Step& step, double courant, double wall_time);
  /// Stores the record so far in a checkpoint; the fields stay in the output file, flushed.
  void save(io::CheckpointWriter& checkpoint);
  void load(const io::CheckpointReader& checkpoint);
  /// Copies the first `count` fields of an earlier run, with the clusters that `load` has read, or fewer if it has
  /// fewer.
  void copy_fields(const io::ArchiveReader& earlier, long count);

  /// Writes arrival times, attention, logits if requested and timings, then renames the file and returns its
  /// name (ArchiveWriter::finish). `status` as in the schema; `message` may be empty.
  std::string finish(const std::string& status, const std::string& message, Vec u,
                     const std::vector<double>& inflow_slab,
                     const std::vector<std::pair<std::string, double>>& seconds);

 private:
  void define_axes();
  void write_weights();
  /// Writes what the samples are, if they stay and anything is stored that differs between them.
  void describe_samples();
  void append_line(const std::vector<double>& line);
  /// Adds the clusters of a stored time, as FieldClusters::measure returns them.
  void append_counts(std::span<const double> numbers);
  /// Writes the entropy of attention per depth cell and head, averaged over samples and queries and divided
  /// by log n. If asked for, the weights are written, too (n^2 numbers per cell, sample and head, held by
  /// every rank). Else nothing is written beyond 1024 tokens or 2^25 weights of a depth cell on one rank,
  /// where the weights would no longer be small compared with the state.
  void write_attention(Vec u, const std::vector<double>& inflow_slab);
  /// Writes the logits of the heads that the model has, from the last depth cell of the state u.
  void write_logits(Vec u);

  EvolveOutput output_;
  const EvolveProblem& problem_;
  const Mesh& mesh_;
  states::DepthMeasurement& measurement_;
  io::FieldPart part_;
  io::FieldSelection selection_;
  io::ArchiveWriter archive_;
  io::Series *time_ = nullptr, *step_ = nullptr;
  std::vector<io::Series*> scalars_, measures_;  ///< the series in the order of a history line
  std::vector<io::Series*> counts_;              ///< those of clusters, in the order of their measures
  io::Field* u_ = nullptr;                       ///< null without output.fields
  states::ArrivalTimes arrival_;
  states::DepthResult last_;
  std::size_t fields_written_ = 0;
  double last_fields_ = std::numeric_limits<double>::quiet_NaN();
  // History lines so far, for checkpoints: scalars, then the measures row by row.
  std::vector<double> lines_;
  std::size_t line_size_ = 0;
  // Clusters at the stored times so far, for checkpoints, and those of the run that is continued.
  std::optional<clusters::FieldClusters> clusters_;
  std::vector<double> counted_, counted_earlier_;
};

}  // namespace fluxformer
