#pragma once

// The data keys, shared by all experiments on samples, and the data sets they describe.

#include <mpi.h>

#include <memory>
#include <string>

#include "base/settings.hpp"
#include "data/dataset.hpp"
#include "data/dataset_spec.hpp"
#include "drivers/common/model_settings.hpp"

namespace fluxformer {

/// Declares the keys data.*.
void declare_data_options(Options& options);

/// What is known of the input before the data are read: from a model, or from the other split.
struct KnownInput {
  std::vector<std::string> words;  ///< the vocabulary; empty: not known
  data::ModelSizes sizes = {};     ///< counts for token files
};

/// The data set of the deck; `split` is "train" or "test". Reads files on every rank; collective over `comm`. Throws
/// BadInput (agreed).
std::unique_ptr<data::Dataset> open_data(const Settings& settings, const std::string& split,
                                         const KnownInput& known, MPI_Comm comm);

/// What model.file says of its input: for texts the vocabulary stored with the weights, for token files sizes, too. Nothing
/// without such a file, and for images. Collective; throws BadInput.
KnownInput known_input(const Settings& settings, MPI_Comm comm);
/// What the data set says, for another split of it.
KnownInput known_input(const data::Dataset& data);

/// Whether a model may have more positions than the samples have tokens: those of token files take the first ones.
bool takes_first_positions(const Settings& settings);

/// Unless it is given, the token file decides data.length: it is omitted from the resolved settings.
void leave_data_to_file(Settings& settings);

}  // namespace fluxformer
