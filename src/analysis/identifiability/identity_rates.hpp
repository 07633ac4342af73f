#pragma once

// Is a token still recognised at each depth of a model? The share of tokens whose state, or a map g
// of it, is nearest to their own embedded input among those of the sample (nearest_tokens.hpp). Maps are
// fitted on training samples, chosen by validation samples and judged on test samples, one for each depth and
// distance. "Recoverable by g" is not "injective": two states may differ and yet g take both for one token.
// The smallest distance of two states is what injectivity is about (Nikolaou et al., arXiv 2510.15511).
// Source: Brunner et al., arXiv 1908.04211, section 4; docs/model.md, section 10.6.

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "analysis/identifiability/nearest_tokens.hpp"
#include "analysis/identifiability/token_map.hpp"
#include "analysis/model_probe.hpp"
#include "model/sample_set.hpp"

namespace fluxformer::identifiability {

/// The maps g that are tried. Angle: states and embedded tokens scaled to length 1, nearest by l2. Norm: the
/// state is known by its norm alone.
enum class TokenGuess : std::size_t {
  identity_cosine,
  identity_l2,
  linear_cosine,
  linear_l2,
  linear_angle,
  linear_norm,
  mlp_cosine,
  mlp_l2,
  mlp_angle,
  shuffled  ///< control: identity, cosine, with the embedded tokens in random order
};
inline constexpr std::size_t token_guess_count = 10;

/// Samples to fit, to choose and to judge by; no sample is in two of the sets.
struct IdentitySamples {
  SampleSet training, validation, test;
};

/// The maps that are fitted.
struct IdentityPlan {
  bool linear = true, mlp = true;  ///< true if these g are fitted; else their rates are NaN
  /// Ridge parameters, relative to the mean variance of a channel.
  std::vector<double> lambdas = {0, 1e-6, 1e-4, 1e-3, 1e-2, 1e-1, 1};
  MlpSettings mlp_settings = {};
  std::uint64_t seed = 1;  ///< seed of the control
};

/// Rates by depth row 0 .. M.
struct IdentityRates {
  std::array<std::vector<double>, token_guess_count> rate;  ///< share of the tokens of the test samples
  std::vector<double> smallest_distance;  ///< smallest_distance, least over the test samples
  double chance = 0;                      ///< rate of a guess
  double tokens = 0;                      ///< mean number of tokens in a test sample
  double identical = 0;                   ///< share of tokens whose embedding another one shares

  const std::vector<double>& of(TokenGuess guess) const { return rate[static_cast<std::size_t>(guess)]; }
};

/// Fits and measures; the same result on all ranks. Collective over the ranks of the samples. Memory: states
/// and embedded tokens of all samples of this rank at as many depths as fit in 1 GiB, at least one. Throws
/// BadInput for tokens spread over ranks.
IdentityRates identity_rates(const IdentitySamples& samples, ModelProbe& probe, const IdentityPlan& plan);

}  // namespace fluxformer::identifiability
