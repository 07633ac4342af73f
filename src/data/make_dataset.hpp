#pragma once

// Data sets by name.

#include <memory>

#include "data/dataset.hpp"
#include "data/dataset_spec.hpp"

namespace fluxformer::data {

/// The data set called `spec.name`:
///   "digits"      synthetic pen-stroke digits drawn from `seed`
///   "mnist"       the IDX files (gzip'd or not) of MNIST, or of a set in its form, in or below `directory`
///   "omniglot"    handwritten characters, from the zip (or its unpacked folder) in or below `directory`;
///                 also "omniglot_small1", "omniglot_small2" and "omniglot_evaluation": its other zips
///   "20news"      posts of 20 newsgroups, from the tar.gz or its tree in `directory` or `directory`/20news
///   "topics"      synthetic texts drawn from `seed`
///   "tokens"      what another program has made, from the token file `file` (HDF5)
/// Only the first `at_most` samples are kept ("20news": that many, evenly spaced). A share `wrong_labels` of the
/// training samples gets a wrong label (WrongLabels). Throws BadInput for an
/// unknown word, a number out of range and for missing or damaged files, naming the folder and the files it
/// looked for. Reads files on this rank: wrap it in `collectively` where ranks must agree.
std::unique_ptr<Dataset> make_dataset(const DatasetSpec& spec);

}  // namespace fluxformer::data
