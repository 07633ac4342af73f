#pragma once

// Classifiers of a few numbers on a lattice of 3 x 2 tokens, in the settings in which they differ, and a
// batch with padding and a filler.

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
  std::vector<double> edges = {};
  double kappa = 0, nu = 0;
  Loss loss = {LossKind::cross_entropy, 0.1};

  Parameters parameters() const {
    return random_parameters({.model = model, .kappa = kappa, .alpha = 0.9, .rho = 1.2, .nu = nu});
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

/// With what published models have around their layers: segments, class tokens, LayerNorm of the embedding,
/// pooling of one token, a dense map before the head.
inline std::vector<SmallClassifier> classifiers_of_published_shape() {
  SmallClassifier bert{.name = "bert", .model = small_classifier(2)};
  bert.model.features = 0;
  bert.model.vocabulary = SmallClassifier::words;
  bert.model.segments = 2;
  bert.model.embedding_norm = true;
  bert.model.norm = Norm::post;
  bert.model.attention.layer_norm = false;
  bert.model.pooling = Pooling::first;
  bert.model.head_transform = {true, HeadActivation::tanh, false};
  SmallClassifier gpt{.name = "gpt", .model = small_classifier(2)};
  gpt.model.features = 0;
  gpt.model.vocabulary = SmallClassifier::words;
  gpt.model.causal = true;
  gpt.model.activation = Activation::gelu_tanh;
  gpt.model.pooling = Pooling::last;
  SmallClassifier vit{.name = "vit", .model = small_classifier(2)};
  vit.model.class_tokens = 1;
  vit.model.embedding_norm = true;
  vit.model.pooling = Pooling::first;
  vit.model.head_transform = {true, HeadActivation::gelu_erf, true};
  SmallClassifier deit{.name = "deit", .model = small_classifier(2)};
  deit.model.class_tokens = 2;
  deit.model.pooling = Pooling::front;
  SmallClassifier two_stages{.name = "two_stages", .model = small_classifier(2)};
  two_stages.model.head_transform = {true, HeadActivation::gelu_tanh, true};
  return {bert, gpt, vit, deit, two_stages};
}

/// Transformers (pre- and post-norm, of words, with linear attention, of published shape) and PDE models with
/// knots, kappa, nu and the midpoint rule.
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
  macaron.model.order = SubLayerOrder::macaron;
  macaron.model.transport = true;
  macaron.nu = 0.15;
  macaron.model.own_halves = true;
  macaron.model.kappa_per_channel = false;
  macaron.model.subflow = SubLayerIntegrator::midpoint;
  SmallClassifier unequal = pde;
  unequal.name = "unequal_cells";
  unequal.edges = {0, 0.2, 0.5, 0.9, 1.4, 2, 2.7, 3.3, 3.8, 4.5, 5};
  SmallClassifier linear{.name = "linear", .model = small_classifier(2)};
  linear.model.attention.normalisation = Normalisation::linear;
  std::vector<SmallClassifier> all{pre, post, of_words, pde, macaron, unequal, linear};
  for (auto& published : classifiers_of_published_shape()) all.push_back(published);
  return all;
}

/// Three samples, two of them with padding; the third only fills the batch.
inline Batch small_batch(const ModelSpec& model) {
  constexpr std::size_t samples = 3, tokens = SmallClassifier::tokens_x * SmallClassifier::tokens_y;
  Batch batch{.input = random_vector(samples * tokens * static_cast<std::size_t>(model.input_size()), 21),
              .length = {4, 6, 3},
              .label = {2, 0, 1},
              .weight = {0.3, 0.7, 0},
              .key = {0, 1, 2}};
  const auto numbers = static_cast<std::size_t>(model.input_size());
  if (model.vocabulary > 0)
    for (std::size_t j = 0; j < batch.input.size(); j += numbers) {
      const std::size_t token = j / numbers;
      batch.input[j] = static_cast<double>(token * token % SmallClassifier::words);
      if (numbers == 2) batch.input[j + 1] = static_cast<double>(token % 5 / 3);
    }
  return batch;
}

}  // namespace fluxformer::test
