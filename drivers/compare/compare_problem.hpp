#pragma once

// Models and data of a comparison: a trained Transformer and other models for each of several seeds, and the
// samples they are evaluated on. Samples are distributed over ranks, or over lines of ranks that share the
// tokens; each rank holds all models.

#include <mpi.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "analysis/model_probe.hpp"
#include "base/settings.hpp"
#include "data/dataset.hpp"
#include "drivers/common/data_options.hpp"
#include "drivers/common/rank_layout.hpp"
#include "drivers/compare/compare_models.hpp"
#include "drivers/study/study_record.hpp"
#include "model/depth_model.hpp"
#include "model/sample_set.hpp"

namespace fluxformer {

/// Samples of a split of a data set.
struct InputPlan {
  DataPlan data;
  std::string split = "test";
  long count = 0;          ///< number of samples; 0: all
  int batch = 1;           ///< samples of a batch on each rank
  std::uint64_t seed = 1;  ///< of the choice of samples
};

/// A comparison.
struct ComparePlan {
  Precision precision = Precision::float64;
  ModelsPlan models;
  InputPlan input;
  int ranks_token = 1;  ///< ranks that share the tokens of a sample
};
/// The plan by models.*, data.*, samples.* and run.*. Throws BadInput for a precision that this processor does
/// not have. Not collective.
ComparePlan compare_plan_of(const Settings& settings);

/// One split of a data set, and samples drawn from it.
class ComparedInput {
 public:
  /// Opens the data and draws samples. `known`: the input recorded in the models; `line`: the ranks that share
  /// the tokens of a sample. Collective over `comm`; throws BadInput (agreed).
  ComparedInput(const InputPlan& plan, MPI_Comm comm, MPI_Comm line, const KnownInput& known);
  ComparedInput(const ComparedInput&) = delete;
  ComparedInput& operator=(const ComparedInput&) = delete;

  const InputPlan& plan() const { return plan_; }
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
  SampleSet choose(MPI_Comm comm) const;

  InputPlan plan_;
  std::unique_ptr<data::Dataset> data_;
  TokenLine line_;
  std::vector<std::size_t> drawn_;  // all samples of the split, in drawing order
  SampleSet samples_;
  mutable long others_ = 0;  // the most further samples that were asked for
};

/// The models and samples of a comparison, before anything is measured.
class CompareProblem {
 public:
  /// Reads models and data. Collective over `comm`; throws BadInput (agreed) for files that are missing or
  /// inconsistent with each other or the data.
  CompareProblem(const ComparePlan& plan, MPI_Comm comm, ModelNeeds needs, Marches marches);
  CompareProblem(const CompareProblem&) = delete;
  CompareProblem& operator=(const CompareProblem&) = delete;
  /// Description in a few lines, for --validate and the log.
  std::string describe() const;
  /// Adds the coordinates of the seeds and of the depths of each model, and a description of the models.
  void describe(StudyRecord& record) const;
  /// Throws BadInput if one of `samples` has no label; `purpose`, such as "the loss", is what needs one.
  void require_labels(const std::string& purpose, const SampleSet& samples) const;
  /// The same of the samples on which all models are evaluated, and if there is only one class: cross entropy
  /// is then 0 and every sample is classified correctly, whatever the model.
  void require_classes(const std::string& purpose) const;

  MPI_Comm comm() const { return comm_; }
  const ComparedModels& models() const { return models_; }
  /// A probe of a model for this rank's samples. Not collective.
  std::unique_ptr<ModelProbe> probe(const Parameters& parameters) const {
    return probe(parameters, samples().capacity());
  }
  /// A probe for batches of `capacity` samples, by this march.
  std::unique_ptr<ModelProbe> probe(const Parameters& parameters, int capacity,
                                    MarchMaker march = layer_maps) const;
  /// The march of the training of a model.
  MarchMaker march_of(const ComparedModel& model) const;
  const data::Dataset& data() const { return input_->data(); }
  const TokenLine& line() const { return input_->line(); }
  /// Samples on which all models are evaluated.
  const SampleSet& samples() const { return input_->samples(); }
  const std::vector<std::size_t>& members() const { return samples().members(); }
  /// The samples, split into the tokens of this model: a control may split images differently.
  const ComparedInput& input_of(const std::string& model) const;
  /// Further samples, from ComparedInput::other_samples.
  SampleSet other_samples(long count, const std::string& key) const {
    return input_->other_samples(count, key);
  }

 private:
  MPI_Comm comm_;
  Precision precision_;
  ComparedModels models_;
  RankLayout ranks_;
  std::unique_ptr<ComparedInput> input_;
  std::map<std::string, std::unique_ptr<ComparedInput>> other_inputs_;  // inputs by data.tokens
};

}  // namespace fluxformer
