#pragma once

// The Hessian of the training of a small classifier or model of masked words, on any number of replicas and
// of ranks over tokens.

#include <vector>

#include "analysis/hessian/training_hessian.hpp"
#include "model/tasks/word_targets.hpp"
#include "tests/support/small_classifier.hpp"

namespace fluxformer::test {

/// A model, thirteen samples (with masked words, where it guesses them) and what is minimised: the loss, a
/// smoothness penalty for knots, and all coefficients (kappa and nu where the model has token diffusion
/// and transport).
struct ClassifierHessian {
  ClassifierHessian(MPI_Comm comm, int ranks_token, const SmallClassifier& c)
      : data(c.model.vocabulary > 0
                 ? random_words(13, SmallClassifier::tokens_x, SmallClassifier::tokens_y,
                                SmallClassifier::words, c.model.segments, SmallClassifier::classes)
                 : random_samples(13, SmallClassifier::tokens_x, SmallClassifier::tokens_y, 4,
                                  SmallClassifier::classes, 1)),
        run(comm, ranks_token,
            {.cells = c.cells, .edges = c.edges, .global = size_of(comm) / ranks_token * 2, .loss = c.loss},
            data, c.parameters()),
        objective{c.loss,
                  c.model.variation == DepthVariation::linear ? 0.3 : 0.0,
                  {.kappa = c.kappa > 0, .alpha = true, .rho = true, .nu = c.nu > 0}},
        samples(c.loss.target == LossTarget::words
                    ? masked_for_evaluation(run.samples(data, all_of(data)), 0.3,
                                            mask_vocabulary_of_numbers(data), c.name)
                    : run.samples(data, all_of(data))),
        hessian(run.parameters, run.context, run.march.depth(), 1, samples, objective) {}

  std::vector<double> product(Curvature part, std::vector<double> v) {
    std::vector<double> result(v.size());
    hessian.multiply(part, v, result);
    return result;
  }

  ListedSamples data;
  TrainingRun run;
  hessian::Objective objective;
  SampleSet samples;
  hessian::TrainingHessian hessian;
};

}  // namespace fluxformer::test
