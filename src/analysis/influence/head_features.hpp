#pragma once

// What the last linear map of a classifier reads.

#include "analysis/dense_matrices.hpp"
#include "analysis/model_probe.hpp"
#include "model/sample_set.hpp"

namespace fluxformer::influence {

/// The input of the last linear map of the classes for each sample of a set, [place][feature], the same on all ranks:
/// the pooled state behind the final norm, or what the dense map in front of the head makes of it. Collective over the
/// ranks of the samples; `probe` has the samples' token line. Throws BadInput for a model without classes.
RowMatrix head_features(ModelProbe& probe, const SampleSet& samples);

}  // namespace fluxformer::influence
