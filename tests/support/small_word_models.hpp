#pragma once

// Models of a few numbers that guess masked words, on the lattice of SmallClassifier, and a batch with masked
// tokens.

#include <vector>

#include "tests/support/small_classifier.hpp"

namespace fluxformer::test {

/// A tied word head behind a dense map and LayerNorm (as BERT), one with a matrix of its own behind the final
/// LayerNorm, a tied one on a PDE model with diffusion over tokens and on a causal one with transport, and the
/// decoders and encoders of today: small_language_model with a tied head without a bias, and (as ModernBERT)
/// LayerNorms without biases of which the first layer has none, GeGLU, windows on both sides and two tables of
/// angles.
inline std::vector<SmallClassifier> small_word_models() {
  const auto language_model_of = [](ModelSpec layers, const ModelSpec& around) {
    layers.vocabulary = around.vocabulary;
    layers.word_head = around.word_head;
    return layers;
  };
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
  auto drifting = pde;
  drifting.name = "drifting";
  drifting.kappa = 0;
  drifting.nu = 0.3;
  drifting.model.causal = drifting.model.transport = drifting.model.nu_per_channel = true;
  auto decoder = of_words("decoder");
  decoder.model = language_model_of(small_language_model(2), decoder.model);
  decoder.model.word_head.bias = false;
  auto encoder = of_words("encoder");
  encoder.model.biases = Biases::none;
  encoder.model.first_norm = false;
  encoder.model.embedding_norm = true;
  encoder.model.gated = true;
  encoder.model.tokens = 0;
  encoder.model.attention.rotary = {.layout = RotaryLayout::interleaved, .channels = 2};
  encoder.model.rotary = {.theta = {1.0, 0.1}, .table = {0, 1}};
  encoder.model.windows = {0, 1};
  encoder.model.word_head.transform = {true, HeadActivation::gelu_erf, true, false};
  return {tied, own, pde, drifting, decoder, encoder};
}

/// small_batch with five masked tokens of the two samples that count.
inline Batch masked_batch(const ModelSpec& model) {
  auto batch = small_batch(model);
  batch.targets = {{0, 0, 3, 0.2}, {0, 3, 1, 0.1}, {1, 1, 4, 0.3}, {1, 2, 2, 0.25}, {1, 5, 0, 0.15}};
  return batch;
}

}  // namespace fluxformer::test
