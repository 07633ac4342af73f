#pragma once

// Classifiers of a few numbers on a lattice of 3 x 2 tokens, in the settings in which they differ, and a batch
// with padding and a filler.

#include <ostream>
#include <string>
#include <vector>

#include "tests/support/small_problem.hpp"
#include "tests/support/small_training.hpp"
#include "tests/support/test_vectors.hpp"

namespace fluxformer::test {

struct SmallClassifier {
  static constexpr int tokens_x = 3, tokens_y = 2, classes = 3, words = 5;
  std::string name;
  ModelSpec model = {};
  int cells = 2;
  double kappa = 0;
  Loss loss = {LossKind::cross_entropy, 0.1};

  Parameters parameters() const {
    return random_parameters({.model = model, .kappa = kappa, .alpha = 0.9, .rho = 1.2});
  }
};

inline void PrintTo(const SmallClassifier& c, std::ostream* out) {
  *out << c.name;
}

inline ModelSpec small_classifier(int layers) {
  auto model = small_model(layers);
  model.features = 4;
  model.tokens = SmallClassifier::tokens_x * SmallClassifier::tokens_y;
  model.classes = SmallClassifier::classes;
  return model;
}

/// Transformers (pre- and post-norm, of words, with linear attention) and PDE models with knots, kappa and the midpoint rule.
inline std::vector<SmallClassifier> small_classifiers() {
  SmallClassifier pre{.name = "pre", .model = small_classifier(2)};
  SmallClassifier post{.name = "post", .model = small_classifier(2)};
  post.model.norm = Norm::post;
  post.model.attention.layer_norm = false;
  SmallClassifier of_words{
      .name = "words", .model = small_classifier(2), .loss = {LossKind::mean_squared_error, 0}};
  of_words.model.features = 0;
  of_words.model.vocabulary = SmallClassifier::words;
  SmallClassifier pde{.name = "pde", .model = small_classifier(5), .cells = 10, .kappa = 0.2};
  pde.model.variation = DepthVariation::linear;
  pde.model.knots = 3;  // at s = 0, 2, 4
  pde.model.kappa_per_channel = true;
  SmallClassifier macaron = pde;
  macaron.name = "macaron";
  macaron.model.order = Order::macaron;
  macaron.model.own_halves = true;
  macaron.model.kappa_per_channel = false;
  macaron.model.subflow = Subflow::midpoint;
  SmallClassifier linear{.name = "linear", .model = small_classifier(2)};
  linear.model.attention.normalisation = Normalisation::linear;
  return {pre, post, of_words, pde, macaron, linear};
}

/// Three samples, two of them with padding; the third only fills the batch.
inline Batch small_batch(const ModelSpec& model) {
  constexpr std::size_t samples = 3, tokens = SmallClassifier::tokens_x * SmallClassifier::tokens_y;
  Batch batch{.input = random_vector(samples * tokens * static_cast<std::size_t>(model.input_size()), 21),
              .length = {4, 6, 3},
              .label = {2, 0, 1},
              .weight = {0.3, 0.7, 0},
              .key = {0, 1, 2}};
  if (model.vocabulary > 0)
    for (std::size_t j = 0; j < batch.input.size(); ++j)
      batch.input[j] = static_cast<double>(j * j % SmallClassifier::words);
  return batch;
}

}  // namespace fluxformer::test
