#pragma once

// What is stored of Hidden Token Attribution (contributions.hpp) and of the accounts beside it (attribution.hpp).

#include <array>
#include <string>

#include "io/axes.hpp"

namespace fluxformer::identifiability::variables {

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
    {"effective", "effective attention"},
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
/// The same with the control as a factor.
inline io::Variable times_moved(const io::Variable& of) {
  return io::variant(of, "times_moved", of.long_name + ", times how far the blanked token moves");
}
/// The control alone.
inline io::Variable agreement_moved(std::size_t effect) {
  return {"agreement_moved" + effects[effect].first,
          {},
          "",
          "Spearman correlation of how far the blanked token moves with " + effects[effect].second};
}

}  // namespace fluxformer::identifiability::variables
