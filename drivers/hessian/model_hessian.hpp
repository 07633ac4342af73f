#pragma once

// The Hessian of a model on samples, as matrices, and the memory it takes.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "analysis/hessian/training_hessian.hpp"
#include "base/settings.hpp"
#include "drivers/compare/compare_problem.hpp"
#include "drivers/compare/model_origin.hpp"
#include "solvers/spectra/symmetric_operator.hpp"

namespace fluxformer {

/// What is minimised: the keys train.loss, .label_smoothing, .smoothness and .coefficients, as they are given or, where
/// they are not, as they were in the training of the model (their defaults for a model of unknown origin). `auto` trains
/// the coefficients of PDE models, and kappa only where it is above 0. Throws BadInput for a loss that does not exist.
hessian::Objective minimised(const Settings& settings, const ModelOrigin& origin,
                             const Parameters& parameters);

/// Throws BadInput (agreed) if the Hessian of a model on these samples does not exist or does not fit into the memory;
/// the message begins with samples.count. Collective.
void require_hessian(const SampleSet& samples, const Parameters& parameters, const Loss& loss);
/// The same for the gradients of all outputs and the Gram matrices of so many blocks.
void require_gram(const SampleSet& samples, const Parameters& parameters, std::size_t blocks);

/// The samples whose mean loss is analysed: those of the comparison, but with data.split = train those that the training of
/// the model drew. The built-in data sets depend on run.seed, too.
class AnalysedSamples {
 public:
  /// `problem` is borrowed.
  AnalysedSamples(const Settings& settings, const CompareProblem& problem)
      : settings_(settings), problem_(problem) {}
  /// Of one of the models. Valid until it is called for another seed. Collective; throws BadInput (agreed).
  const SampleSet& of(std::size_t seed, const std::string& name);

 private:
  struct Opened {
    long seed = -1;
    std::unique_ptr<ComparedInput> input;
  };
  Settings settings_;
  const CompareProblem& problem_;
  std::map<std::string, Opened> opened_;  // by data.tokens
};

/// A model on this rank's samples, and its Hessian. Borrows all but `objective`.
struct ModelHessian {
  /// Collective; throws as TrainingHessian.
  ModelHessian(const SampleSet& samples, const Parameters& parameters, const hessian::Objective& objective);
  SlabContext context;
  hessian::TrainingHessian products;
};

/// A part of the Hessian (hessian, gauss_newton, functional) as a matrix.
class HessianPart {
 public:
  /// `of` is borrowed. Collective.
  HessianPart(MPI_Comm comm, hessian::TrainingHessian& of, const std::string& which);
  /// Over the whole flat vector, where blocks have their indices.
  Mat whole() const { return whole_.get(); }
  /// Over the trained variables only.
  Mat trained() const { return trained_; }

 private:
  spectra::ReplicatedOperator whole_;
  MatHandle trained_;
};

}  // namespace fluxformer
