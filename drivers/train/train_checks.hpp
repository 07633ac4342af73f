#pragma once

// Checks before a training: tokens, labels, memory, and unstable steps.

#include <cstddef>
#include <string>
#include <vector>

#include "data/dataset.hpp"
#include "drivers/train/train_options.hpp"
#include "mesh/token_line.hpp"
#include "model/depth_march.hpp"
#include "model/depth_model.hpp"
#include "model/parameters.hpp"
#include "training/trainable.hpp"

namespace fluxformer {

/// Throws BadInput for mesh.tokens_* that differ from the token lattice of the data, which the data alone
/// determine. Not collective.
void refuse_other_lattice(const SamplesPlan& plan, const data::Dataset& data);

/// The samples of a data set that have a label, in order. Not collective.
std::vector<std::size_t> labelled_samples(const data::Dataset& data);

/// Throws BadInput if a classifier cannot learn from the labels of `train`: none at all, with cross entropy a
/// single class, or in a token file more than half of the classes of a new head without training samples.
/// `outputs` are those of the model in model.file; 0: none. Not collective.
void refuse_unfit_labels(LossKind loss, const data::Dataset& train, const data::Dataset& test, int outputs);

/// Lines that say which classes have no samples among `training`, how many of these have a planted wrong label, and
/// how many samples of `test` have no label; empty if there is nothing to say. Not collective.
std::string label_notes(const data::Dataset& train, const std::vector<std::size_t>& training,
                        const data::Dataset& test);

/// Number of samples `members` of `data` whose tokens are those of a sample among `training` of `train`.
/// O(tokens) time; not collective.
std::size_t copies_of(const data::Dataset& train, const std::vector<std::size_t>& training,
                      const data::Dataset& data, const std::vector<std::size_t>& members);

/// The largest kappa and nu for which explicit steps through depth are stable, (2 kappa axes + nu) h/c <= 1
/// (docs/model.md section 3), of which each has a half in a model that has both; infinite for implicit steps.
/// `of`: the coefficients of the whole model, `parameters` those of this rank. Throws BadInput if some of them is larger.
/// Not collective.
CoefficientLimits stable_coefficients(const TrainPlan& plan, const Parameters& parameters,
                                      const EquationCoefficients& of, const TokenLine& line);

/// States of its micro-batches that a rank keeps.
struct KeptStates {
  DepthRange cells;             ///< cells of the rank's stage
  int micro_batches = 1;        ///< micro-batches kept at a time
  int tokens = 0, samples = 0;  ///< size of a slab
  bool one_stage = true;        ///< true if the depth is one stage
};
/// Refuses a training whose parameters, with gradient and moments, and whose states do not fit into the
/// memory of a rank, or into that of the plan. Collective over `comm`.
void require_memory_of_training(MPI_Comm comm, const TrainPlan& plan, const Parameters& parameters,
                                const KeptStates& states);

}  // namespace fluxformer
