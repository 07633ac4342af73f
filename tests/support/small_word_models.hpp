#pragma once

// Models of a few numbers that guess masked words, on the lattice of SmallClassifier, and a batch with masked
// tokens.

#include <vector>

#include "tests/support/small_classifier.hpp"

namespace fluxformer::test {

/// A tied word head behind a dense map and LayerNorm (as BERT), one with a matrix of its own behind the final
/// LayerNorm, and a tied one on a PDE model.
inline std::vector<SmallClassifier> small_word_models() {
  const auto of_words = [](const char* name) {
    SmallClassifier c{.name = name, .model = small_classifier(2), .loss = {}};
    c.loss.target = LossTarget::words;
    c.model.features = c.model.classes = 0;
    c.model.vocabulary = SmallClassifier::words;
    c.model.word_head.present = true;
    return c;
  };
  auto tied = of_words("tied");
  tied.loss.smoothing = 0.1;
  tied.model.segments = 2;
  tied.model.embedding_norm = true;
  tied.model.norm = Norm::post;
  tied.model.attention.layer_norm = false;
  tied.model.word_head.transform = {true, HeadActivation::gelu_erf, true};
  auto own = of_words("own");
  own.model.causal = true;
  own.model.word_head.own_matrix = true;
  auto pde = of_words("pde");
  pde.model.layers = 5;
  pde.cells = 10;
  pde.kappa = 0.2;
  pde.model.variation = DepthVariation::linear;
  pde.model.knots = 3;
  return {tied, own, pde};
}

/// small_batch with five masked tokens of the two samples that count.
inline Batch masked_batch(const ModelSpec& model) {
  auto batch = small_batch(model);
  batch.targets = {{0, 0, 3, 0.2}, {0, 3, 1, 0.1}, {1, 1, 4, 0.3}, {1, 2, 2, 0.25}, {1, 5, 0, 0.15}};
  return batch;
}

}  // namespace fluxformer::test
