#pragma once

// The group /optimiser in a copy of the weights: the state of the optimiser that the analysis of the
// training's stability needs.

#include <optional>
#include <vector>

#include "base/index.hpp"
#include "io/archive_reader.hpp"
#include "io/archive_writer.hpp"
#include "io/variable.hpp"

namespace fluxformer {

/// The optimiser at one step x -= rate D^-1 (...), where D = sqrt(v_hat) + epsilon for adam and adamw and D =
/// 1 for sgd.
struct OptimiserRecord {
  double rate = 0;       ///< learning rate of the next step
  double threshold = 0;  ///< Optimiser::stability_threshold
  /// The diagonal of D over the flat vector; empty where it is 1, was not asked for, or before the first
  /// step.
  std::vector<double> preconditioner;
};

/// Writes the group /optimiser. Collective; every rank holds the same record.
void write_optimiser(io::ArchiveWriter& archive, const OptimiserRecord& record);
/// Reads the group /optimiser; std::nullopt if the file has none. Collective. Throws BadInput naming file and
/// object unless the numbers are positive and finite, and `size` of them.
std::optional<OptimiserRecord> read_optimiser(const io::ArchiveReader& archive, std::size_t size);
/// Describes the group /optimiser.
void describe_optimiser(io::Description& description);

}  // namespace fluxformer
