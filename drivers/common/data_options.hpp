#pragma once

// The data keys, shared by all experiments on samples, and the data sets they describe.

#include <mpi.h>

#include <memory>
#include <string>

#include "base/settings.hpp"
#include "data/dataset.hpp"
#include "drivers/common/model_settings.hpp"

namespace fluxformer {

/// Declares the keys data.*.
void declare_data_options(Options& options);

/// The data set of the deck; `split` is "train" or "test", `words` a given vocabulary or empty. Reads files
/// on every rank; collective over `comm`. Throws BadInput (agreed).
std::unique_ptr<data::Dataset> open_data(const Settings& settings, const std::string& split,
                                         const std::vector<std::string>& words, MPI_Comm comm);

/// The vocabulary stored with the weights of model.file; empty without one, and for images. Collective; throws BadInput.
std::vector<std::string> stored_words(const Settings& settings, MPI_Comm comm);

}  // namespace fluxformer
