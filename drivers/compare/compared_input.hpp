#pragma once

// The samples that models of a comparison are evaluated on, split into tokens as these models take them.

#include <mpi.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/settings.hpp"
#include "data/dataset.hpp"
#include "drivers/common/data_options.hpp"
#include "model/sample_set.hpp"

namespace fluxformer {

/// One split of a data set, and samples drawn from it.
class ComparedInput {
 public:
  /// Opens the data and draws samples by data.*, samples.* and run.seed. `known`: the input recorded in the
  /// models; `line`: the ranks that share the tokens of a sample. Collective over `comm`; throws BadInput
  /// (agreed).
  ComparedInput(const Settings& settings, MPI_Comm comm, MPI_Comm line, const KnownInput& known);
  ComparedInput(const ComparedInput&) = delete;
  ComparedInput& operator=(const ComparedInput&) = delete;

  const data::Dataset& data() const { return *data_; }
  const TokenLine& line() const { return line_; }
  /// Samples on which models are evaluated.
  const SampleSet& samples() const { return samples_; }
  /// `count` further samples, none of them in `samples()`. Throws BadInput naming `key` if there are too few.
  SampleSet other_samples(long count, const std::string& key) const;
  /// Digest of tokens, lengths and labels of the samples, and of as many further ones as were asked for. Not
  /// collective: the same on all ranks.
  std::uint64_t digest() const;
  /// Description of the samples in a few words, for --validate and the log.
  std::string describe() const;

 private:
  SampleSet choose(const Settings& settings, MPI_Comm comm) const;

  std::string split_;
  std::unique_ptr<data::Dataset> data_;
  TokenLine line_;
  std::vector<std::size_t> drawn_;  // all samples of the split, in drawing order
  SampleSet samples_;
  mutable long others_ = 0;  // the most further samples that were asked for
};

}  // namespace fluxformer
