#pragma once

// The group /optimiser of a copy of the weights: what the analysis of the training's stability needs of the optimiser.

#include <optional>
#include <vector>

#include "io/archive_reader.hpp"
#include "io/archive_writer.hpp"
#include "io/variable.hpp"

namespace fluxformer {

/// A step is x -= rate D^-1 (...): D = sqrt(v_hat) + epsilon of adam and adamw, 1 for sgd.
struct OptimiserRecord {
  double rate = 0;       ///< learning rate of the next step
  double threshold = 0;  ///< Optimiser::stability_threshold
  /// The diagonal of D over the flat vector; empty where it is 1, was not asked for, or before the first step.
  std::vector<double> preconditioner;
};

/// Collective; every rank holds the same record.
void write_optimiser(io::ArchiveWriter& archive, const OptimiserRecord& record);
/// None if there is none in the file. Collective; throws BadInput naming file and object unless the numbers are positive
/// and finite, `size` of them.
std::optional<OptimiserRecord> read_optimiser(const io::ArchiveReader& archive, std::size_t size);
/// What it writes.
void describe_optimiser(io::Description& description);

}  // namespace fluxformer
