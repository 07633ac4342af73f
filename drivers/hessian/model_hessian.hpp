#pragma once

// The Hessian of a model on samples, as matrices, and the memory it takes.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "analysis/hessian/training_hessian.hpp"
#include "base/settings.hpp"
#include "drivers/compare/compare_models.hpp"
#include "drivers/compare/compare_problem.hpp"
#include "drivers/compare/guessed_words.hpp"
#include "solvers/spectra/symmetric_operator.hpp"

namespace fluxformer {

/// The keys train.loss, .label_smoothing, .smoothness, .coefficients and .masked. Those that were not given are
/// decided by the training of a model; their values are for a model of unknown origin.
struct MinimisedPlan {
  KeyOfTraining<std::string> loss = {};
  KeyOfTraining<double> label_smoothing = {}, smoothness = {};
  KeyOfTraining<std::string> coefficients = {};
  KeyOfTraining<double> masked = {};  ///< share of the words of a text that are to be guessed
};
/// The plan by the settings. Not collective.
MinimisedPlan minimised_plan_of(const Settings& settings);

/// The objective whose Hessian is analysed: as the plan says or, for what was not given, as in the training of
/// the model. `auto` trains the coefficients of PDE models, and kappa and nu only where they are above 0. The loss is
/// that of the classes, or of words for a model that guesses them. Throws BadInput for a loss that does
/// not exist.
hessian::Objective minimised(const MinimisedPlan& plan, const ModelOrigin& origin,
                             const Parameters& parameters);

/// Throws BadInput (agreed) if the Hessian of a model on these samples does not exist or does not fit into
/// the memory; the message begins with samples.count. Collective.
void require_hessian(const SampleSet& samples, const Parameters& parameters, const Loss& loss);
/// Throws BadInput (agreed) if the gradients of all outputs and the Gram matrices of `blocks` blocks do not
/// fit into the memory; the message begins with samples.count. Collective.
void require_gram(const SampleSet& samples, const Parameters& parameters, std::size_t blocks);

/// The same samples of the training split as the training of a model drew them: with its run.seed and, unless the deck
/// gives others, its wrong labels. A model of unknown origin leaves seed and labels to the deck.
InputPlan plan_of_training(InputPlan plan, const ModelOrigin& origin);
/// Leaves the keys of what is minimised to the training of each model where the deck does not give them: the stored
/// settings must not hold defaults, which a run that is repeated from them would take for what is wanted.
Settings minimised_as_trained(Settings settings);

/// The samples whose mean loss is analysed: those of the comparison, or with data.split = train those that
/// the training of the model drew, with their wrong labels (data.wrong_labels) unless the deck gives others. The
/// built-in data sets depend on run.seed, too. For a model that guesses
/// masked words they are masked as those of an evaluation.
class AnalysedSamples {
 public:
  /// Chooses samples for the models of `problem`, which is borrowed; `share` is that of masked words. Throws
  /// BadInput for a share that no model needs, and for masked words where there are none.
  AnalysedSamples(const KeyOfTraining<double>& share, const CompareProblem& problem);
  /// Samples for model `name`, valid until a call with another seed. Collective; throws BadInput (agreed).
  SampleSet of(std::size_t seed, const std::string& name);
  /// The input that `of` chooses from, before words are masked; valid as long. Collective; throws BadInput
  /// (agreed).
  const ComparedInput& input(std::size_t seed, const std::string& name);

 private:
  KeyOfTraining<double> share_;
  const CompareProblem& problem_;
  std::map<std::string, std::unique_ptr<ComparedInput>> inputs_;  // inputs of another seed, by data.tokens
};

/// A model on this rank's samples, and the products with its Hessian. Borrows all arguments but `objective`.
struct ModelHessian {
  /// Prepares the products. Collective; throws what TrainingHessian throws.
  ModelHessian(const SampleSet& samples, const Parameters& parameters, const hessian::Objective& objective);
  SlabContext context;
  hessian::TrainingHessian products;
};

/// A part of the Hessian (hessian, gauss_newton, functional) as a matrix.
class HessianPart {
 public:
  /// Makes the matrix; `of` is borrowed. Collective.
  HessianPart(MPI_Comm comm, hessian::TrainingHessian& of, const std::string& which);
  /// The matrix over the whole flat vector, in which blocks have their indices.
  Mat whole() const { return whole_.get(); }
  /// The matrix over the trained variables only.
  Mat trained() const { return trained_; }

 private:
  spectra::ReplicatedOperator whole_;
  MatHandle trained_;
};

}  // namespace fluxformer
