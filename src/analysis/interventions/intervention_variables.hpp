#pragma once

// Variables of the experiment `interventions`, in /analysis/interventions/<model>, over seeds.
//
// Effects at all places of a site are <site>_<account>, [pair], then the depth, then the head or group if the site has them,
// then the token:
//
//   face       [pair, <model>_face, token]                     attention, ffn  [pair, <model>_cell, token]
//   head, query  [pair, <model>_cell, <model>_head, token]     key, value      [pair, <model>_cell, <model>_group, token]
//
//   exact, first, null, size, reverse   all sites, "face_exact", "head_first", ...
//   softmax                             query_softmax, key_softmax
//   second, untrusted, integrated       face_second, face_untrusted, face_integrated
//
// Those that were not asked for are not in the file. Padding, and places that were not run again, are NaN.

#include <string>
#include <utility>
#include <vector>

#include "analysis/interventions/sites.hpp"
#include "io/axes.hpp"
#include "io/variable.hpp"

namespace fluxformer::interventions::variables {

/// An account of effects, in the order of the file's table.
enum class Account { exact, first, softmax, second, integrated, null, size, reverse, untrusted };
/// All accounts.
inline constexpr Account all_accounts[] = {Account::exact,  Account::first,      Account::softmax,
                                           Account::second, Account::integrated, Account::null,
                                           Account::size,   Account::reverse,    Account::untrusted};
/// The accounts that are compared with `exact`, in the order of the axis `account`.
inline constexpr Account compared_accounts[] = {Account::first,      Account::softmax, Account::second,
                                                Account::integrated, Account::null,    Account::size,
                                                Account::reverse};

/// The word of an account in decks and in the names of variables.
inline std::string account_word(Account account) {
  static constexpr const char* words[] = {"exact", "first", "softmax", "second",   "integrated",
                                          "null",  "size",  "reverse", "untrusted"};
  return words[static_cast<int>(account)];
}

/// True if the file can hold this account of a site.
inline bool has_account(Site site, Account account) {
  switch (account) {
    case Account::softmax:
      return site == Site::query || site == Site::key;
    case Account::second:
    case Account::integrated:
    case Account::untrusted:
      return site == Site::face;
    default:
      return true;
  }
}

/// The axis of a model's own size: <model> stands for its name.
inline io::Variable model_index(const std::string& name, std::string meaning) {
  return io::index("<model>_" + name, std::move(meaning));
}

inline const io::Variable pair = io::index("pair", "pair of samples, clean and donor"),
                          face = model_index("face", "face: 0, the embedded input, to the last state"),
                          cell = model_index("cell", "depth cell, counted from the input, from 1"),
                          head = model_index("head", "attention head, from 1"),
                          group = model_index("group", "group of keys and values, from 1"),
                          other_token = io::index("other_token", "token index of the other token"),
                          site = io::index("site", "number of the site, in the order of site_names"),
                          account =
                              io::index("account", "number of the account, in the order of account_names"),
                          dose = io::coordinate("dose", "", "multiple of the steering vector that is added"),
                          word = io::index("word", "word of the model's table"),
                          words{"words", {"word"}, "", "words of the table, in UTF-8"};

inline const io::Attribute site_names{"site_names", "sites in words, one a line"},
    account_names{"account_names", "accounts that are compared with exact effects, one a line"},
    goal{"goal", "logits, logit or loss: whose change an effect is"},
    put{"put", "what replaces a state: donor, mean or zero"},
    middle_face{"middle_face", "face of steering and of pairs of tokens"};

/// The effects at the places of a site by an account.
inline io::Variable effects(Site of, Account by) {
  static constexpr const char* sites[] = {
      "a face", "what attention adds", "what the network adds", "a head", "a query", "a key", "a value"};
  static constexpr const char* meanings[] = {
      "effect of replacing it at one token, run again; NaN: not run",
      "the same effect to first order, by one adjoint",
      "the same effect with the soft-max computed again, to first order behind it",
      "the same effect to second order",
      "the same effect by integrated gradients of the whole face",
      "control: first order with the adjoint of another pair's sample",
      "control: norm of the change alone",
      "effect of the opposite replacement in the other sample, run again, sign turned; NaN: not run",
      "1 where the second order is above the limit beside the first, else 0"};
  io::Variable variable{.name = site_word(of) + "_" + account_word(by), .axes = {pair.name}};
  variable.axes.push_back(of == Site::face ? face.name : cell.name);
  if (of == Site::head || of == Site::query) variable.axes.push_back(head.name);
  if (of == Site::key || of == Site::value) variable.axes.push_back(group.name);
  variable.axes.push_back(axes::token.name);
  variable.long_name = std::string(sites[static_cast<int>(of)]) + ": " + meanings[static_cast<int>(by)];
  return variable;
}

// The pairs.
inline const io::Variable pair_clean{
    "pair_clean", {"pair"}, "", "index in the split of the sample that is changed", true},
    pair_donor{"pair_donor", {"pair"}, "", "index in the split of the sample whose states are put", true},
    pair_a{"pair_a", {"pair"}, "", "class or word a of the goal: the answer of clean", true},
    pair_b{"pair_b", {"pair"}, "", "class or word b of the goal: the answer of donor", true},
    pair_token{"pair_token", {"pair"}, "", "token at which words are asked for; -1: classes", true},
    pair_length{"pair_length", {"pair"}, "", "real tokens of both samples", true},
    value_clean{"value_clean", {"pair"}, "", "the goal of clean"},
    value_donor{"value_donor", {"pair"}, "", "the goal of donor"},
    clean_features{
        "clean_features", {"pair", "token", "feature"}, "", "numbers of the tokens of clean in the data"},
    donor_features{"donor_features", {"pair", "token", "feature"}, "", "the same of donor"};

// How well accounts agree with exact effects: means over depths, parts of a token and pairs of the agreement over
// tokens. `size` is compared with magnitudes.
inline const io::Variable agreement_spearman{
    "agreement_spearman",
    {"site", "account"},
    "",
    "rank correlation with exact effects over tokens, mean over pairs, depths and heads"},
    agreement_pearson{
        "agreement_pearson", {"site", "account"}, "", "correlation with exact effects, mean as above"},
    agreement_relative_error{"agreement_relative_error",
                             {"site", "account"},
                             "",
                             "norm of the error over that of exact effects, mean as above"},
    agreement_top_share{"agreement_top_share",
                        {"site", "account"},
                        "",
                        "share of the 10 largest exact effects that are among its 10 largest, mean as above"},
    spearman_by_depth{
        "spearman_by_depth",
        {"site", "account", "<model>_face"},
        "",
        "rank correlation with exact effects, mean over pairs and heads, by face; that of a cell "
        "at the face behind it"},
    untrusted_share{"untrusted_share",
                    {"<model>_face"},
                    "",
                    "share of tokens at which the second order is above the limit beside the first"};

// Integrated gradients.
inline const io::Variable integrated_gap{
    "integrated_gap",
    {"pair", "<model>_face"},
    "",
    "| sum of integrated effects - effect of replacing the whole face |"},
    integrated_estimate{
        "integrated_estimate", {"pair", "<model>_face"}, "", "estimated error of the quadrature"},
    integrated_nodes{"integrated_nodes",
                     {"pair", "<model>_face"},
                     "",
                     "gradients computed on the line from own to put states",
                     true};

// Pairs of tokens at the middle face.
inline const io::Variable pairs_curvature{"pairs_curvature",
                                          {"pair", "token", "other_token"},
                                          "",
                                          "second derivative of the goal along the changes of two tokens"},
    pairs_exact{"pairs_exact",
                {"pair", "token", "other_token"},
                "",
                "effect of both tokens together, less the effects of each; NaN: one and the same token"},
    pairs_spearman{"pairs_spearman", {"pair"}, "", "rank correlation of the two over all pairs of tokens"};

// Values set to 0.
inline const io::Variable zeroing{"zeroing",
                                  {"pair", "<model>_cell", "token", "other_token"},
                                  "",
                                  "norm of the change of what attention adds to a token of clean where the "
                                  "value of the other token is 0"};

// Steering at the middle face: the difference of two class means added at all tokens.
inline const io::Variable steering_goal{
    "steering_goal",
    {"dose"},
    "",
    "logit of the wanted class less that of the sample's own, mean over samples and wanted classes"},
    steering_goal_random{
        "steering_goal_random", {"dose"}, "", "control: the same along a random vector of equal norm"},
    steering_reached{
        "steering_reached", {"dose"}, "", "share of samples of other classes that get the wanted class"},
    steering_reached_random{
        "steering_reached_random", {"dose"}, "", "control: the same along a random vector of equal norm"},
    steering_slope{
        "steering_slope", {}, "", "slope of steering_goal at dose 0 by the adjoint, mean as above"};

}  // namespace fluxformer::interventions::variables
