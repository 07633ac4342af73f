#pragma once

// Attention problems of the unit tests: sizes around the kernels' blocks, masks, settings, and seeded states
// on one rank.

#include <algorithm>
#include <string>
#include <vector>

#include "tests/support/attention_case.hpp"

namespace fluxformer::test {

enum class Mask { none, padding, causal, both, weights, weights_and_padding };

/// By so many tokens a sample is shorter than the one before.
inline int padding_of(int tokens) {
  return tokens < 200 ? 2 : 170;
}

inline TokenMask make_mask(Mask kind, int tokens, int samples) {
  TokenMask mask;
  mask.causal = kind == Mask::causal || kind == Mask::both;
  if (kind == Mask::padding || kind == Mask::both || kind == Mask::weights_and_padding)
    for (int s = 0; s < samples; ++s) mask.length.push_back(std::max(1, tokens - padding_of(tokens) * s));
  if (kind == Mask::weights || kind == Mask::weights_and_padding)
    for (int t = 0; t < tokens; ++t) mask.weight.push_back(0.5 + 0.3 * (t % 4));
  return mask;
}

struct Size {
  int tokens, samples, width, heads;
};

// Sizes below, at and above the vector widths (4 to 16 lanes), the channel blocks (16, 8, 4, 2, 1) and the
// runs of 128 keys; tiles of queries that are all padding.
inline const Size tiny{1, 1, 1, 1}, odd{7, 3, 15, 3}, wide{19, 2, 62, 2}, vit{49, 3, 32, 2},
    runs{139, 1, 6, 2}, long_padded{211, 2, 6, 2};

struct AttentionProblem {
  AttentionProblem(const Size& s, const AttentionSettings& base, Mask mask, const AttentionArrays& which = {})
      : size(s),
        settings(with_heads(base, s.heads)),
        arrays(which),
        line(TokenLine::even(MPI_COMM_SELF, s.tokens, 1)),
        p(AttentionLayout(s.width, settings, arrays), 5) {
    whole = {s.tokens, s.samples, s.width, make_mask(mask, s.tokens, s.samples)};
    const auto count = static_cast<std::size_t>(s.tokens * s.samples * s.width);
    u = random_vector(count, 1, 1.2, 0.3);
    v = random_vector(count, 2);
    w = random_vector(count, 3);
  }
  std::vector<double> reference_rhs() const {
    return reference::attention(whole, settings,
                                p.view<const double>(p.flat.data(), &p.flat.back()).attention, u);
  }
  std::vector<double> reference_matrix() const {
    return reference::attention_matrix(whole, settings,
                                       p.view<const double>(p.flat.data(), &p.flat.back()).attention, u);
  }

  static AttentionSettings with_heads(AttentionSettings settings, int heads) {
    settings.heads = heads;
    return settings;
  }

  Size size;
  AttentionSettings settings;
  AttentionArrays arrays;
  TokenLine line;
  reference::WholeLine whole;
  AttentionParameters p;
  std::vector<double> u, v, w;
};

/// In place of the number of Sinkhorn half-steps.
inline constexpr int softmax = 0, linear = -1;

inline Normalisation normalisation_of(int iterations) {
  if (iterations == linear) return Normalisation::linear;
  return iterations == softmax ? Normalisation::softmax : Normalisation::sinkhorn;
}

inline AttentionSettings make_settings(Kernel kernel, int iterations, bool layer_norm) {
  AttentionSettings settings;
  settings.kernel = kernel;
  settings.normalisation = normalisation_of(iterations);
  settings.sinkhorn_iterations = std::max(1, iterations);
  settings.layer_norm = layer_norm;
  return settings;
}

}  // namespace fluxformer::test
