#pragma once

// The common part of studies of models: seeds x models, each of them measured by all ranks together, which
// share the samples.
//
//   for each seed, for each model: results = measure_model(seed, model)

#include <memory>
#include <string>
#include <vector>

#include "drivers/compare/compare_problem.hpp"
#include "drivers/study/study.hpp"

namespace fluxformer {

/// A study of models that are read from files. The constructors throw BadInput for invalid values of keys.
class ModelStudy : public Study {
 public:
  /// Reads models and data. Collective over `comm`; throws BadInput (agreed).
  ModelStudy(const Settings& settings, MPI_Comm comm, ModelNeeds needs = ModelNeeds::classes)
      : problem_(settings, comm, needs) {}

  std::string describe() const override { return problem_.describe(); }
  /// Seed by seed, the Transformer first.
  std::vector<Place> places() const final;
  std::string unit() const final { return "models"; }
  int ranks_of_place() const final { return all_ranks; }
  /// The models, their weight snapshots and the samples.
  std::vector<Source> sources() const final;
  void begin(StudyRecord& record) final;
  void measure(const Place& place, Results& to) final;

 protected:
  const CompareProblem& problem() const { return problem_; }
  /// Adds the axes of the measures, and notes. Not collective.
  virtual void add_axes(StudyRecord& record) = 0;
  /// Measures model `name` of the seed with index `seed`. Collective; the numbers are the same on all ranks.
  virtual void measure_model(std::size_t seed, const std::string& name, Results& to) = 0;
  /// Epochs whose weight snapshots are analysed, too.
  virtual std::vector<long> epochs() const { return {}; }

 private:
  CompareProblem problem_;
};

/// Makes an experiment of a study that is constructed from settings and communicator. Collective; throws
/// BadInput (agreed).
template <class OwnStudy>
std::unique_ptr<Experiment> make_study_of(const Settings& settings, const RunContext& context) {
  return make_study(settings, context,
                    [](const Settings& s, MPI_Comm comm) { return std::make_unique<OwnStudy>(s, comm); });
}

}  // namespace fluxformer
