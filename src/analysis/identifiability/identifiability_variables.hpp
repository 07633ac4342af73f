#pragma once

// The variables of identifiability. Attention weights: how many there are (nullities.hpp), the part that acts
// (effective_attention.hpp), and others that do as well (alternative_weights.hpp). Means over samples.

#include <array>
#include <string>
#include <vector>

#include "analysis/identifiability/weight_accumulator.hpp"
#include "io/axes.hpp"

namespace fluxformer::identifiability::variables {

inline const io::Variable length =
    io::index("length", "tokens that samples are cut to; the last: whole samples");
inline const io::Variable epsilon =
    io::coordinate("epsilon", "", "singular values below this share of the largest count as zeros");

/// A number by length, layer and head.
inline io::Variable by_head(const std::string& name, const std::string& what) {
  return {name, {"length", "layer", "head"}, "", what};
}
/// A number of every head for each epsilon.
inline io::Variable for_epsilons(io::Variable of) {
  of.name += "_epsilon";
  of.axes.emplace_back("epsilon");
  of.long_name += ", counting small singular values as zeros";
  return of;
}

inline const io::Variable tokens_of_length{"tokens_of_length", {"length"}, "", "mean number of real tokens"},
    samples_of_length{"samples_of_length", {"length"}, "", "samples that are at least as long"};

/// A number of every head, and its variable.
struct OfHead {
  HeadNumber number;
  io::Variable variable;
};
inline const std::vector<OfHead> of_heads = {
    {HeadNumber::nullity_linear,
     by_head("nullity_linear",
             "dimensions in which a row of weights may change without a change of the output")},
    {HeadNumber::nullity_simplex,
     by_head("nullity_simplex", "the same for changes that keep the sum of the row")},
    {HeadNumber::nullity_reachable,
     by_head("nullity_reachable",
             "the same for changes that another query makes, keys fixed; mean over some rows")},
    {HeadNumber::uncertain,
     by_head("uncertain",
             "share of nullity_linear and nullity_simplex whose rank is a matter of the threshold")},
    {HeadNumber::uncertain_reachable,
     by_head("uncertain_reachable",
             "share of samples in which a rank behind nullity_reachable is a matter of the threshold")},
    {HeadNumber::correlation, by_head("correlation", "Pearson correlation of raw and effective weights")},
    {HeadNumber::correlation_null, by_head("correlation_null", "the same for a random column space")},
    {HeadNumber::row_sum, by_head("row_sum", "mean sum of a row of effective weights")},
    {HeadNumber::row_sum_null, by_head("row_sum_null", "the same for a random column space")},
    {HeadNumber::kept_norm, by_head("kept_norm", "norm of the effective weights over that of the raw ones")},
    {HeadNumber::negative_share, by_head("negative_share", "share of negative effective weights")},
    {HeadNumber::entropy,
     {"entropy", {"length", "layer", "head"}, "nat", "mean entropy of a row of weights"}},
    {HeadNumber::effective_entropy,
     {"effective_entropy",
      {"length", "layer", "head"},
      "nat",
      "the same of absolute effective weights over their sum"}},
    {HeadNumber::moved_share,
     by_head("moved_share", "share of rows whose largest effective weight sits elsewhere")},
    {HeadNumber::correlation_simplex,
     by_head("correlation_simplex",
             "Pearson correlation of raw weights and effective ones with the same sums")},
    {HeadNumber::correlation_simplex_null,
     by_head("correlation_simplex_null", "the same for a random column space")},
    {HeadNumber::kept_norm_simplex,
     by_head("kept_norm_simplex", "norm of effective weights with the same sums over that of the raw ones")},
    {HeadNumber::negative_share_simplex,
     by_head("negative_share_simplex", "share of negative effective weights with the same sums")},
    {HeadNumber::moved_share_simplex,
     by_head("moved_share_simplex",
             "share of rows whose largest effective weight with the same sums sits elsewhere")},
    {HeadNumber::frequent_raw,
     by_head("frequent_raw", "share of the weights on the most frequent words of the samples")},
    {HeadNumber::frequent_effective, by_head("frequent_effective", "the same of absolute effective weights")},
    {HeadNumber::punctuation_raw,
     by_head("punctuation_raw", "share of the weights on words without letters and digits")},
    {HeadNumber::punctuation_effective,
     by_head("punctuation_effective", "the same of absolute effective weights")}};
/// The numbers that are over epsilon, too, and the first of their places.
inline const std::vector<OfHead> over_epsilons = {
    {HeadNumber::nullity_linear_epsilon, for_epsilons(of_heads[0].variable)},
    {HeadNumber::nullity_simplex_epsilon, for_epsilons(of_heads[1].variable)},
    {HeadNumber::nullity_reachable_epsilon, for_epsilons(of_heads[2].variable)}};
inline const io::Variable excess_linear{"excess_linear",
                                        {"length", "layer"},
                                        "",
                                        "freedom of all heads together beyond the sum over heads, linear"},
    excess_simplex{
        "excess_simplex", {"length", "layer"}, "", "the same for changes that keep the sums of rows"},
    nullity_joint{"nullity_joint",
                  {"layer", "head"},
                  "",
                  "dimensions in which queries and keys may change the weights of the first sample without a "
                  "change of the output; NaN where it has too many tokens"},
    uncertain_joint{"uncertain_joint",
                    {"layer", "head"},
                    "",
                    "whether a rank behind nullity_joint is a matter of the threshold: 1"},
    alternative_distance{"alternative_distance",
                         {"layer", "head"},
                         "",
                         "total variation, mean over rows, between the weights and others that are "
                         "non-negative, have the same sums and the same output"},
    alternative_error{"alternative_error",
                      {"layer", "head"},
                      "",
                      "largest difference of their outputs over the largest output"};

/// Raw, effective and alternative weights of one head of the first sample.
inline io::Variable map(const std::string& of, const std::string& what) {
  return {"map_" + of, {"layer", "query", "key"}, "", what + " of one head and the first sample"};
}
inline const io::Variable map_raw = map("raw", "attention weights"),
                          map_effective = map("effective", "effective attention"),
                          map_alternative = map("alternative", "other weights with the same output");
inline const io::Attribute map_head{"map_head", "head whose maps are stored"},
    value_width{"value_width", "d_v, the width of the values of a head"};

// Token identifiability (identity_rates.hpp).

/// A rate by depth.
inline io::Variable rate(const std::string& of, const std::string& what) {
  return {"rate_" + of, {"<model>_depth"}, "", "share of the tokens that are found: " + what};
}

/// Rates in the order of TokenGuess.
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
/// The variable of a model that is not trained.
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

// Hidden Token Attribution (contributions.hpp) and the accounts beside it (attribution.hpp).

inline const io::Variable distance_group = io::index("distance_group",
                                                     "least distance of two tokens in the group (Manhattan "
                                                     "on a lattice): 0, 1, 2, 3, 4-5, 6-10, 11 and more"),
                          input_token = io::index("input_token", "token of the embedded input");

inline const io::Variable own_share{
    "own_share",
    {"<model>_depth"},
    "",
    "contribution of its own input token to a hidden token, mean over tokens"},
    own_share_lower{"own_share_lower", {"<model>_depth"}, "", "lower quartile of that"},
    own_share_median{"own_share_median", {"<model>_depth"}, "", "median of that"},
    own_share_upper{"own_share_upper", {"<model>_depth"}, "", "upper quartile of that"},
    own_largest{"own_largest",
                {"<model>_depth"},
                "",
                "share of the hidden tokens to which their own input token contributes most"},
    half_distance{"half_distance",
                  {"<model>_depth"},
                  "",
                  "distance within which tokens contribute half of all, mean over tokens"},
    contribution_by_distance{"contribution_by_distance",
                             {"<model>_depth", "distance_group"},
                             "",
                             "what a hidden token gets from all tokens at a distance"},
    contribution_by_pair{"contribution_by_pair",
                         {"<model>_depth", "distance_group"},
                         "",
                         "what it gets from one token at a distance"},
    contribution_map{"contribution_map",
                     {"<model>_depth", "input_token", "token"},
                     "",
                     "contribution of input tokens to hidden tokens of the first sample; 0 for padding"},
    contribution_error{"contribution_error",
                       {},
                       "",
                       "largest standard error of an estimated square of a block's norm, over that square"},
    blanked_change{"blanked_change",
                   {"input_token"},
                   "",
                   "change of the output of the first sample when a token is blanked"};

/// Names of the accounts, in the order of Account, and what they are.
inline const std::array<std::pair<std::string, std::string>, 6> accounts = {{
    {"raw", "attention weights"},
    {"effective", "effective attention (absolute values of each head's entries, mean over the heads)"},
    {"norm_based", "norms of weighted values"},
    {"rollout", "attention rollout"},
    {"flow", "attention flow"},
    {"contributions", "Hidden Token Attribution"},
}};
/// Names of the effects, in the order of Effect, and what they are.
inline const std::array<std::pair<std::string, std::string>, 2> effects = {
    {{"", "the change of the output"}, {"_drop", "the fall of the largest logit"}}};

/// The rank correlation of an account with an effect of blanking, by layer.
inline io::Variable agreement(std::size_t account, std::size_t effect) {
  return {"agreement_" + accounts[account].first + effects[effect].first,
          {"layer"},
          "",
          "Spearman correlation of " + accounts[account].second + " with " + effects[effect].second +
              " when a token is blanked"};
}
/// An agreement with the control as a factor.
inline io::Variable times_moved(const io::Variable& of) {
  return io::variant(of, "times_moved", of.long_name + ", times how far the blanked token moves");
}
/// The rank correlation of the control alone.
inline io::Variable agreement_moved(std::size_t effect) {
  return {"agreement_moved" + effects[effect].first,
          {},
          "",
          "Spearman correlation of how far the blanked token moves with " + effects[effect].second};
}

}  // namespace fluxformer::identifiability::variables
