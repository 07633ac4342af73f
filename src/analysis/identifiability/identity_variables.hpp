#pragma once

// What is stored of token identifiability (identity_rates.hpp).

#include <array>

#include "io/axes.hpp"

namespace fluxformer::identifiability::variables {

/// A rate by depth.
inline io::Variable rate(const std::string& of, const std::string& what) {
  return {"rate_" + of, {"<model>_depth"}, "", "share of the tokens that are found: " + what};
}

/// In the order of TokenGuess.
inline const std::array<io::Variable, 10> rates = {
    rate("identity_cosine", "the state itself, nearest by angle"),
    rate("identity_l2", "the state itself, nearest by distance"),
    rate("linear_cosine", "a linear map of the state, nearest by angle"),
    rate("linear_l2", "a linear map of the state, nearest by distance"),
    rate("linear_angle", "a linear map of the state's direction to that of the token"),
    rate("linear_norm", "a linear map of the state's norm alone"),
    rate("mlp_cosine", "a map with a hidden layer, nearest by angle"),
    rate("mlp_l2", "a map with a hidden layer, nearest by distance"),
    rate("mlp_angle", "a map with a hidden layer from the state's direction to that of the token"),
    rate("shuffled", "control, with the embedded tokens in random order")};
/// The same of a model that is not trained.
inline io::Variable of_untrained(const io::Variable& of) {
  return io::variant(of, "untrained", "the same of an untrained model");
}
inline const io::Variable chance{"chance", {}, "", "the rate of a guess"},
    sample_tokens{"sample_tokens", {}, "", "mean number of real tokens of a sample"},
    identical{
        "identical", {}, "", "share of the tokens whose embedding another token of the sample has, too"},
    smallest_distance{
        "smallest_distance",
        {"<model>_depth"},
        "",
        "the smallest distance between two tokens' states of a sample, over the root mean square "
        "of their norms; 0 only where two tokens have met"};

}  // namespace fluxformer::identifiability::variables
