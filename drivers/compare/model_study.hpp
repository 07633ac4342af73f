#pragma once

// The common part of studies of models: seeds x models, each of them measured by all ranks together, which
// share the samples; their keys, and the variables that each stores beside its own measures in
// /analysis/<experiment>/<model>, over seeds. <model> is transformer or the kind of PDE model: independent,
// normed, distilled, converged, inherited. Measures of a pair are stored with the PDE model.
//
//   for each seed, for each model: results = measure_model(seed, model)

#include <memory>
#include <string>
#include <vector>

#include "drivers/compare/compare_problem.hpp"
#include "drivers/study/study.hpp"
#include "io/axes.hpp"
#include "io/variable.hpp"

namespace fluxformer {

namespace compare {

inline const io::Attribute files{"files", "model file of each seed"},
    parameters{"parameters", "number of parameters of each model"},
    trained{"trained", "origin of each model's weights"}, norm{"norm", "pre, post, sphere or none"},
    knots{"knots", "parameter sets"};

// What the maps of the first sample are about: its words, where they have names, or else the numbers of its tokens.
inline const io::Attribute sample_words{
    "sample_words", "words of the first sample, a line each; ↵ for an end of line in a word"};
inline const io::Variable sample_features{
    "sample_features", {"query", "feature"}, "", "numbers of the first sample's tokens in the data"};
/// Adds them; the record has the axis `query`. Not collective.
void describe_first_sample(const CompareProblem& problem, StudyRecord& record);

/// A variable over the weight snapshots after some epochs of the training.
inline io::Variable after_epochs(const io::Variable& of) {
  return io::along(axes::copied_epoch, "epoch_", of, ", after that epoch");
}

/// Adds what the file of every study of models contains: their depths, and the notes above.
study::Contents with_models(study::Contents contents);

}  // namespace compare

/// Declares what is compared: models.*, samples.*, data.*, run.seed and run.precision. The other keys are
/// those of a study's run (declare_study_run).
void declare_compared(Options& options);

/// The key that lists the epochs to analyse (ComparedModels::after_epoch).
Option epochs_option(const std::string& name);

/// A study of models that are read from files. The constructors throw BadInput for invalid values of keys.
class ModelStudy : public Study {
 public:
  /// Reads models and data. Collective over `comm`; throws BadInput (agreed).
  ModelStudy(const Settings& settings, MPI_Comm comm, ModelNeeds needs = {},
             Marches marches = Marches::layer_map)
      : problem_(compare_plan_of(settings), comm, needs, marches) {}

  std::string describe() const override { return problem_.describe(); }
  /// Seed by seed, the Transformer first.
  std::vector<Place> places() const final;
  std::string unit() const final { return "models"; }
  int ranks_of_place() const final { return all_ranks; }
  /// The models, their weight snapshots and the samples.
  std::vector<Source> sources() const override;
  void begin(StudyRecord& record) final;
  void measure(const Place& place, Results& to) final;

 protected:
  const CompareProblem& problem() const { return problem_; }
  /// A probe of model `name` of the seed with index `seed`, for this rank's samples. Not collective.
  std::unique_ptr<ModelProbe> probe(std::size_t seed, const std::string& name) const {
    return problem_.probe(problem_.models().at(seed, name).parameters);
  }
  /// Throws BadInput, naming the model and its file, unless its depth cells end where layers do.
  void require_layer_ends(const std::string& name) const;
  /// Adds the axes of the measures, and notes. Not collective.
  virtual void add_axes(StudyRecord& record) = 0;
  /// Measures model `name` of the seed with index `seed`. Collective; the numbers are the same on all ranks.
  virtual void measure_model(std::size_t seed, const std::string& name, Results& to) = 0;
  /// Epochs whose weight snapshots are analysed, too.
  virtual std::vector<long> epochs() const { return {}; }

 private:
  CompareProblem problem_;
};

}  // namespace fluxformer
