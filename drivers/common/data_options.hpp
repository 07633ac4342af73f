#pragma once

// The data keys, shared by all experiments on samples, and the data sets they describe.

#include <mpi.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/settings.hpp"
#include "data/dataset.hpp"
#include "data/dataset_spec.hpp"

namespace fluxformer {

/// Declares the keys data.*.
void declare_data_options(Options& options);

/// Knowledge of the input before the data are read: from a model file, or from the other split.
struct KnownInput {
  std::vector<std::string> words;  ///< the vocabulary; empty if it is not known
  data::ModelSizes sizes = {};     ///< sizes for token files
};

/// The data set of a deck, and the model file that knows something of it.
struct DataPlan {
  data::DatasetSpec set;            ///< without split, words and sizes
  std::string model;                ///< model.file; empty: none
  bool takes_vocabulary = false;    ///< true if the words of a model file are those of the data
  bool wrong_labels_given = false;  ///< false: analyses of training samples take those of the training
};
/// The plan by the settings. Not collective.
DataPlan data_plan(const Settings& settings);

/// Opens the data set of the plan; `split` is "train" or "test". Reads files on every rank; collective over
/// `comm`. Throws BadInput (agreed). Warns, on rank 0, of features beyond 20 in a token file: pixels that
/// were not normalised.
std::unique_ptr<data::Dataset> open_data(const DataPlan& plan, const std::string& split,
                                         const KnownInput& known, MPI_Comm comm);

/// Input recorded in the model file: for texts the vocabulary stored with the weights, for token files the
/// sizes, too. Empty without such a file, and for images. Collective; throws BadInput.
KnownInput known_input(const DataPlan& plan, MPI_Comm comm);
/// Input of an open data set, as needed to open another split of it.
KnownInput known_input(const data::Dataset& data);

/// Digest of tokens, lengths and labels of some samples. Not collective: the same on all ranks.
std::uint64_t digest_of_samples(const data::Dataset& data, std::span<const std::size_t> members);

/// True if a model may have more positions than the samples have tokens: samples of token files take the
/// first ones.
bool takes_first_positions(const Settings& settings);

/// Omits data.length from the resolved settings unless it is given: the token file decides it.
void leave_data_to_file(Settings& settings);

}  // namespace fluxformer
