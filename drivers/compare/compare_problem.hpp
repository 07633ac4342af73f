#pragma once

// Models and data of a comparison: a trained Transformer and PDE models for each of several seeds, and the
// test samples they are evaluated on. Samples are distributed over ranks; each rank holds whole token lines
// and all models.

#include <mpi.h>

#include <memory>
#include <string>
#include <vector>

#include "analysis/model_probe.hpp"
#include "base/settings.hpp"
#include "data/dataset.hpp"
#include "drivers/compare/compare_models.hpp"
#include "model/precision.hpp"
#include "model/sample_set.hpp"

namespace fluxformer {

/// What a comparison is made of, before anything is measured.
class CompareProblem {
 public:
  /// Collective over `comm`; throws BadInput (agreed) for files that are missing or inconsistent with each
  /// other or the data.
  CompareProblem(const Settings& settings, MPI_Comm comm);
  CompareProblem(const CompareProblem&) = delete;
  CompareProblem& operator=(const CompareProblem&) = delete;
  /// A few lines for --validate and the log.
  std::string describe() const;

  MPI_Comm comm() const { return comm_; }
  const ComparedModels& models() const { return models_; }
  /// A model ready for use on this rank's samples. Not collective.
  std::unique_ptr<ModelProbe> probe(const Parameters& parameters) const;
  const data::Dataset& data() const { return *data_; }
  const TokenLine& line() const { return line_; }
  /// The samples used, each whole on one rank.
  const SampleSet& samples() const { return samples_; }
  const std::vector<std::size_t>& members() const { return samples_.members(); }
  /// `count` further samples of the test split, drawn with the same seed. Throws BadInput naming `key` if
  /// there are too few.
  SampleSet other_samples(long count, const std::string& key) const;

 private:
  SampleSet choose_samples(const Settings& settings) const;

  MPI_Comm comm_;
  Precision precision_;
  ComparedModels models_;
  std::unique_ptr<data::Dataset> data_;
  TokenLine line_;
  std::vector<std::size_t> drawn_;  // all test samples, in drawing order
  SampleSet samples_;
};

}  // namespace fluxformer
