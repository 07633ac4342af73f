#pragma once

// Classify hidden Markov chains of two states by how likely they are to stay in a state (0.7 or 0.3), with
// the published data and the published frozen heads of two layers.
//
//   token  = [feature (200); one-hot position (31)]       token 0: beginning of sequence, feature 0
//   feature = v_state + noise,   v+ = sqrt(2) on the first 100 channels, v- = sqrt(2) on the others
//
// Heads, all logits times 10. Layer 1: "good" (looks at the previous token if its state is the query's, else
// at token 0), and one of random weights (four paths) or of none (two paths: the mean over tokens). Layer 2:
// the mean over tokens, and one of random weights (four paths). Read-out: last token.
// Source: Tiberi et al., arXiv 2405.15926 and its code; docs/model.md, section 11.10.

#include <Eigen/Core>
#include <cstdint>

#include "analysis/paths/frozen_attention.hpp"
#include "analysis/paths/path_examples.hpp"

namespace fluxformer::paths {

inline constexpr int markov_states = 30;                  ///< states of a chain
inline constexpr int markov_tokens = 31;                  ///< T: token 0 and one for each state
inline constexpr int markov_features = 200;               ///< channels of a feature
inline constexpr int markov_dimension = 231;              ///< D = features + positions
inline constexpr double markov_inverse_temperature = 10;  ///< factor of all logits

/// The heads of the network.
enum class MarkovVariant {
  four_paths,  ///< two heads in each layer: good, adversarial 1, denoising, adversarial 2
  two_paths    ///< two heads and one: good, denoising
};

/// Strengths of the noise along orthogonal directions: factors of standard normal numbers.
struct MarkovNoise {
  double difference = 1;     ///< noise along v+ - v-
  double sum = 1;            ///< noise along v+ + v-
  double perpendicular = 1;  ///< sigma_perp, noise in the other 198 dimensions
};

/// Seeds of the four streams.
struct MarkovSeeds {
  std::uint32_t train = 27, test = 59;
  std::uint32_t layer_1 = 147, layer_2 = 247;  ///< seeds of the random heads
};

/// Variant, sizes, noise, seeds and share of the task.
struct MarkovSettings {
  MarkovVariant variant = MarkovVariant::four_paths;
  int examples = 100, test_examples = 1000;  ///< even numbers: the first half is of class +1
  MarkovNoise noise;
  MarkovSeeds seeds;
  ExampleShare share;  ///< the training and test examples that this rank makes
};

/// The published settings: sigma_perp = 1 for four paths, 5 for two.
MarkovSettings published_markov(MarkovVariant variant);

/// The seeds that one number stands for: s, s + 100, s + 200, s + 300. Throws BadInput beyond 32 bits.
MarkovSeeds markov_seeds(std::int64_t seed);

/// Drawn chains, before any attention.
struct MarkovChains {
  Eigen::MatrixXi states = {};   ///< P x 30, +1 or -1
  RowMatrix features = {};       ///< [example][channel][state], P x (200 x 30), rows of this rank alone
  Eigen::VectorXd targets = {};  ///< P

  ExampleShare share = {};  ///< the examples that this rank holds

  /// x of an example that this rank holds, by its row of `features`: D x T, columns are tokens.
  Eigen::MatrixXd tokens(int row) const;
};

/// Draws `count` chains from one stream: coins of all chains first, then one normal fill. Throws BadInput
/// unless count is even and positive, and the noise finite and not negative.
MarkovChains markov_chains(int count, const MarkovNoise& noise, std::uint32_t seed,
                           const ExampleShare& share = {});

/// The frozen heads of the task.
FrozenAttention markov_attention(MarkovVariant variant, const MarkovSeeds& seeds);

/// Makes the task. Throws BadInput for bad settings. The published one of four paths costs 8 GFlop, and 50 MB
/// for features.
PathTask markov_task(const MarkovSettings& settings);

}  // namespace fluxformer::paths
