#pragma once

// What the comparisons compare: a trained Transformer and PDE models for each of several seeds, and the test
// samples they are shown. Ranks share the samples; each holds whole token lines and all models.

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

class CompareProblem {
 public:
  /// Collective over `comm`; throws BadInput (agreed) for files that are missing or do not fit each other or
  /// the data.
  CompareProblem(const Settings& settings, MPI_Comm comm);
  CompareProblem(const CompareProblem&) = delete;
  CompareProblem& operator=(const CompareProblem&) = delete;
  /// In a few lines, for --validate and the log.
  std::string describe() const;

  MPI_Comm comm() const { return comm_; }
  const ComparedModels& models() const { return models_; }
  /// A model at hand for this rank's samples. Not collective.
  std::unique_ptr<ModelProbe> probe(const Parameters& parameters) const;
  const data::Dataset& data() const { return *data_; }
  const TokenLine& line() const { return line_; }
  /// The samples that are looked at, whole on each rank.
  const SampleSet& samples() const { return samples_; }
  const std::vector<std::size_t>& members() const { return samples_.members(); }
  /// `count` other samples of the test split, drawn by the same seed. Throws BadInput naming `key` if there
  /// are not so many.
  SampleSet other_samples(long count, const std::string& key) const;

 private:
  SampleSet choose_samples(const Settings& settings) const;

  MPI_Comm comm_;
  Precision precision_;
  ComparedModels models_;
  std::unique_ptr<data::Dataset> data_;
  TokenLine line_;
  std::vector<std::size_t> drawn_;  // all test samples, in the order in which they are taken
  SampleSet samples_;
};

}  // namespace fluxformer
