#pragma once

// Variables of the clusters_* experiments.

#include "io/variable.hpp"

namespace fluxformer::clusters::variables {

/// All experiments of the family write to /analysis/clusters.
inline constexpr const char* group = "clusters";
/// Groups in it: tokens with soft-max attention, and with unnormalised attention.
inline constexpr const char *softmax = "softmax", *unnormalised = "unnormalised";

inline const io::Variable beta = io::coordinate("beta", "", "inverse temperature of the attention"),
                          degree =
                              io::index("degree", "degree of the harmonic by which tokens are displaced");

inline const io::Attribute start{"start", "how tokens are spread"}, tokens{"tokens", "number of tokens"},
    dimension{"dimension", "d, of the space of the unit sphere"};

inline const io::Variable rate{
    "rate",
    {"beta", "degree"},
    "1/time",
    "rate at which a small displacement grows, by the derivative of attention at these tokens"},
    rate_theory{"rate_theory",
                {"beta", "degree"},
                "1/time",
                "rate at which a small displacement of infinitely many tokens grows, in closed form"},
    rate_tokens{"rate_tokens",
                {"beta", "degree"},
                "1/time",
                "rate of so many tokens on a ring, in closed form; NaN: not a ring"},
    layer_growth{
        "layer_growth",
        {"beta", "degree"},
        "",
        "factor by which a layer multiplies a small displacement, by its derivative at these tokens"},
    layer_growth_theory{"layer_growth_theory",
                        {"beta", "degree"},
                        "",
                        "factor of a layer for infinitely many tokens, in closed form"},
    bare_layer_growth{
        "bare_layer_growth", {"beta", "degree"}, "", "factor of a layer without residual connection"},
    bare_layer_growth_theory{
        "bare_layer_growth_theory",
        {"beta", "degree"},
        "",
        "factor of a layer without residual connection for infinitely many tokens, in closed form"},
    fastest_degree{
        "fastest_degree", {"beta"}, "", "degree that grows fastest by theory; 0: none grows", true};

inline const io::Attribute beta_of_two{
    "beta_of_two", "beta at which degree 1 gives way to degree 2 as the fastest, by theory"};

// Tokens on the circle in time.
inline const io::Variable time = io::coordinate("time", "time", "stored times"),
                          mode = io::index("mode", "waves around the circle"),
                          angle = io::coordinate("angle", "", "middle of a bin of angles, in turns"),
                          place = io::index("place", "clusters, the largest first"),
                          count = io::index("count", "numbers of clusters");

inline const io::Variable number{"number",
                                 {"time"},
                                 "",
                                 "clusters: components of tokens at most delta apart, once nearly all tokens "
                                 "are in compact ones; else NaN"},
    components{"components", {"time"}, "", "components of tokens at most delta apart", true},
    compact_share{"compact_share",
                  {"time"},
                  "",
                  "share of tokens in compact components: of a diameter up to 3 delta, on the sphere within "
                  "3/2 delta of their first leader"},
    number_2{"number_2", {"time"}, "", "N_2 = n^2 / sum_ij k_ij, a number of clusters without threshold"},
    number_1{
        "number_1", {"time"}, "", "N_1 = exp(-mean log(z_i / n)), a number of clusters without threshold"},
    energy{"energy", {"time"}, "", "energy E = sum_ij k_ij / (2 beta n^2)"},
    dissipation{"dissipation", {"time"}, "1/time", "rate of the energy, from the velocities"},
    moment{"moment", {"time", "mode"}, "", "|mean e^{i k angle}|"},
    density{"density", {"time", "angle"}, "", "share of the tokens in each bin of angles"},
    mass{"mass",
         {"time", "place"},
         "",
         "share of the tokens in each of the largest clusters; 0: there is none"},
    moving{
        "moving",
        {"time"},
        "",
        "tokens that move: one for each cluster, with its weight, where clusters.reduce has made points of "
        "them",
        true},
    formed{"formed", {}, "time", "first stored time with clusters; NaN: none"},
    merged_after{"merged_after",
                 {"count"},
                 "time",
                 "last stored time with so many clusters or more, if there are fewer later; else NaN"},
    merged_by{"merged_by", {"count"}, "time", "next stored time with fewer clusters; NaN: none"},
    ring_lifetime{"ring_lifetime",
                  {"count"},
                  "time",
                  "1 / rate at which so many equal clusters on a ring leave their places, by theory; NaN: of "
                  "one"},
    wave_rate{
        "wave_rate",
        {},
        "1/time",
        "rate of the wave that is followed, between the stored times at which |M_k| is from its noise, 3 "
        "/ sqrt(n), from 0 if they are not random, to 0.03; NaN: fewer than two"},
    unresolved{
        "unresolved",
        {},
        "time",
        "time at which the last coefficients of the density have grown beyond 1e-8: the end; NaN: none"},
    evaluations{"evaluations", {}, "", "evaluations of all velocities", true},
    evaluation_seconds{"evaluation_seconds", {}, "s", "wall time of one of them"};

inline const io::Attribute temperature{"beta", "inverse temperature of the attention"},
    delta{"delta", "angle up to which tokens belong together"},
    fastest_wave{"fastest_wave", "waves of the displacement that grows fastest, by theory"},
    followed_wave{"followed_wave", "waves that are followed: the fastest, or those of the ring"},
    wave_rate_theory{"wave_rate_theory", "rate of the followed waves, by theory", "1/time"},
    formation_theory{"formation_theory",
                     "time in which what grows fastest, or is followed, grows to order one by theory: log n "
                     "/ (2 rate) from the noise of n "
                     "tokens, log(2 / amplitude) / rate on a ring",
                     "time"};

// Tokens that all have the same cosine with each other.
inline const io::Variable context = io::coordinate("context", "", "number of tokens"),
                          scaling = io::coordinate("scaling", "", "c of beta = c log n"),
                          cosine = io::coordinate("cosine", "", "cosine of each two tokens at the beginning"),
                          key_dimension =
                              io::coordinate("key_dimension", "", "d of random keys on the sphere");

inline const io::Variable gathering_time{
    "gathering_time",
    {"context", "scaling", "cosine"},
    "time",
    "time in which the cosine grows to the one asked for; infinite: longer than a number can say"},
    layer_cosine{
        "layer_cosine", {"context", "scaling", "cosine"}, "", "cosine behind a layer, in closed form"},
    bare_layer_cosine{"bare_layer_cosine",
                      {"context", "scaling", "cosine"},
                      "",
                      "cosine behind a layer without residual connection, in closed form"},
    layer_cosine_tokens{"layer_cosine_tokens",
                        {"context", "scaling", "cosine"},
                        "",
                        "cosine of two tokens behind a layer of the program; NaN: too many tokens"},
    bare_layer_cosine_tokens{"bare_layer_cosine_tokens",
                             {"context", "scaling", "cosine"},
                             "",
                             "the same without residual connection"},
    acting_keys{"acting_keys",
                {"context", "scaling", "key_dimension"},
                "",
                "random keys that act on a query: below some 30 a mean field does not describe them"};

inline const io::Attribute until{"until", "cosine up to which times are taken"},
    layer_step{"step", "h of the layer with residual connection", "layers"};

// Tokens on the sphere in time, beside those on the circle.
inline const io::Variable power_degree = io::index("power_degree", "degree of harmonics, 1 or 2"),
                          shown = io::index("shown", "tokens whose places are stored, the first of all");

inline const io::Variable components_low{
    "components_low",
    {"time"},
    "",
    "components of tokens at most delta apart are at least so many; NaN: "
    "more leaders than clusters.leaders"},
    components_high{"components_high",
                    {"time"},
                    "",
                    "components of tokens at most delta apart are at most so many; NaN as above"},
    degree_power{"degree_power",
                 {"time", "power_degree"},
                 "",
                 "|mean x|^2, and (d |mean x x^T|^2 - 1) / (d - 1): 0 for an even cloud, 1 for equal tokens"},
    length_error{"length_error",
                 {"time"},
                 "",
                 "largest | |u| - 1 | of the states that were integrated; their directions are the tokens"},
    position{"position", {"time", "shown", "channel"}, "", "places of the first tokens on the sphere"};

inline const io::Attribute fastest_harmonic{"fastest_harmonic",
                                            "degree of the displacement that grows fastest, by theory"},
    harmonic_rate_theory{"harmonic_rate_theory", "its rate", "1/time"};

// Tokens on the circle with noise.
namespace with_noise {
inline const io::Variable ratio = io::coordinate("noise_ratio", "",
                                                 "noise kappa_s over that at which an even cloud gathers"),
                          branch_order = io::coordinate("branch_order", "", "M_1 of a stationary cluster");

inline const io::Variable order_up{"order_up",
                                   {"noise_ratio"},
                                   "",
                                   "M_1 = |mean e^{i angle}|, mean over time, while noise rises: from one "
                                   "cluster on"},
    order_up_error{"order_up_error", {"noise_ratio"}, "", "its standard error, from 16 parts of the time"},
    order_down{"order_down", {"noise_ratio"}, "", "M_1 while noise falls again"},
    order_down_error{"order_down_error", {"noise_ratio"}, "", "its standard error"},
    number_2_up{
        "number_2_up", {"noise_ratio"}, "", "N_2 = n^2 / sum_ij k_ij, mean over time, while noise rises"},
    number_2_down{"number_2_down", {"noise_ratio"}, "", "N_2 while noise falls again"},
    order_up_theory{"order_up_theory",
                    {"noise_ratio"},
                    "",
                    "M_1 of the stable cluster of infinitely many tokens; 0: there is none"},
    order_down_theory{
        "order_down_theory", {"noise_ratio"}, "", "the same where an even cloud does not stay; else 0"},
    fastest_wave{"fastest_wave",
                 {"noise_ratio"},
                 "",
                 "waves that grow fastest in an even cloud with this noise, by theory; 0: none",
                 true},
    branch_ratio{"branch_ratio",
                 {"branch_order"},
                 "",
                 "noise of stationary clusters, stable and unstable ones, over that at which an even cloud "
                 "gathers"};

inline const io::Attribute critical_noise{
    "critical_noise", "noise kappa_s at which an even cloud gathers, by theory", "1/time"},
    critical_ratio_of_steps{"critical_ratio_of_steps",
                            "the same for steps of this length, over that of continuous time"},
    survival_ratio{"survival_ratio", "noise up to which there is a cluster, by theory, over critical_noise"},
    equal_ratio{"equal_ratio",
                "noise at which cluster and even cloud have the same free energy, over critical_noise"},
    beta_of_jump{"beta_of_jump",
                 "beta beyond which M_1 of unnormalised attention jumps, by theory; with soft-max attention "
                 "it does not"},
    step{"step", "length of a step", "time"},
    settle{"settle", "time at each noise before M_1 is taken", "time"},
    averaged{"averaged", "time over which M_1 is averaged", "time"};
}  // namespace with_noise

// Tokens of trained models by depth.
inline const io::Variable centring = io::index(
                              "centring",
                              "0: tokens as they are, 1: less the mean of all tokens of that depth"),
                          token_delta = io::coordinate(
                              "token_delta", "", "angle up to which two tokens belong together, in radians");

namespace of_models {
inline const io::Variable number_2{
    "number_2",
    {"<model>_depth", "centring", "beta"},
    "",
    "N_2 = n^2 / sum_ij k_ij of the tokens of a sample, geometric mean over samples"},
    number_2_normal{"number_2_normal",
                    {"<model>_depth", "centring", "beta"},
                    "",
                    "null: N_2 of normal tokens with mean and covariance of that depth"},
    number_2_permuted{"number_2_permuted",
                      {"<model>_depth", "centring", "beta"},
                      "",
                      "null: N_2 of tokens each of whose vectors has its channels permuted"},
    number_2_across{
        "number_2_across",
        {"<model>_depth", "centring", "beta"},
        "",
        "null: N_2 of sets of as many tokens, one from each of so many samples; NaN: a sample has more "
        "tokens than there are samples"},
    number_2_untrained{"number_2_untrained",
                       {"<model>_depth", "centring", "beta"},
                       "",
                       "null: N_2 of the model before its training"},
    number_2_uniform{"number_2_uniform",
                     {"beta"},
                     "",
                     "null: N_2 of independent tokens that are spread evenly over the sphere"},
    components{"components",
               {"<model>_depth", "centring", "token_delta"},
               "",
               "components of tokens of a sample at most delta apart, mean over samples"},
    compact_share{"compact_share",
                  {"<model>_depth", "centring", "token_delta"},
                  "",
                  "share of tokens in components of a diameter up to 3 delta"},
    plateau{"plateau",
            {"centring", "token_delta"},
            "layers",
            "longest stretch of depth over which a sample keeps its number of compact components, at least 2 "
            "and at "
            "most half of its tokens, mean over samples"},
    plateau_share{"plateau_share",
                  {"centring", "token_delta"},
                  "",
                  "share of samples in which that stretch is at least three layers"},
    plateau_share_untrained{"plateau_share_untrained",
                            {"centring", "token_delta"},
                            "",
                            "null: the share in the model before its training"},
    effective_rank{
        "effective_rank",
        {"<model>_depth", "centring"},
        "",
        "exponential of the entropy of the singular values of a sample's tokens over their sum, mean over "
        "samples"},
    effective_rank_normal{"effective_rank_normal",
                          {"<model>_depth", "centring"},
                          "",
                          "null: effective rank of normal tokens with mean and covariance of that depth"},
    effective_rank_untrained{"effective_rank_untrained",
                             {"<model>_depth", "centring"},
                             "",
                             "null: effective rank in the model before its training"},
    leaders{"leaders",
            {"<model>_depth", "centring"},
            "",
            "tokens of a sample that are farther than the middle delta from all leaders before them, mean "
            "over samples"},
    leader_angle{"leader_angle",
                 {"<model>_depth", "centring"},
                 "",
                 "angle of a token to the nearest leader, in radians, mean over tokens and samples"},
    log_energy{"log_energy",
               {"layer", "head"},
               "",
               "log(1/n^2 sum_ij e^a_ij), a = <x, W_Q^T W_K y> / sqrt(c) of each head, of the tokens at the "
               "beginning of "
               "its layer, mean over samples"},
    energy_change{"energy_change",
                  {"layer", "head"},
                  "",
                  "change of log_energy until the end of the layer, with the same head"},
    energy_change_untrained{"energy_change_untrained",
                            {"layer", "head"},
                            "",
                            "null: the change in the model before its training"},
    energy_falls{
        "energy_falls", {"layer", "head"}, "", "share of samples in which the energy falls in the layer"},
    cosine_within{
        "cosine_within", {"<model>_depth", "centring"}, "", "mean cosine of two tokens of the same sample"},
    cosine_between{"cosine_between",
                   {"<model>_depth", "centring"},
                   "",
                   "mean cosine of two tokens of different samples"},
    left_out{"left_out", {"<model>_depth", "centring"}, "", "tokens whose vector is 0, left out", true},
    escape{
        "escape",
        {"centring", "beta"},
        "",
        "log N_2 at the last depth less that at the depth of the least, which the other half of the samples "
        "chose"},
    escape_error{
        "escape_error", {"centring", "beta"}, "", "its standard deviation over bootstraps of the samples"},
    escape_untrained{
        "escape_untrained", {"centring", "beta"}, "", "null: escape of the model before its training"},
    value_radius{"value_radius",
                 {"layer", "head"},
                 "",
                 "largest |eigenvalue| of W_O W_V of each head, gain of the norm included"},
    value_scale{"value_scale", {"layer", "head"}, "", "s for which s W_Q^T W_K is nearest to W_O W_V"},
    value_mismatch{"value_mismatch", {"layer", "head"}, "", "|W_O W_V - s W_Q^T W_K| / |W_O W_V|"},
    antisymmetry{"antisymmetry", {"layer", "head"}, "", "|M - M^T| / (2 |M|) of M = W_Q^T W_K; 0: symmetric"},
    least_eigenvalue{"least_eigenvalue",
                     {"layer", "head"},
                     "",
                     "smallest eigenvalue of the symmetric part of W_Q^T W_K over its largest in size"};
}  // namespace of_models

// Tokens of a state that evolves on depth cells, at the stored times.
namespace of_fields {
inline const io::Variable components_low{
    "components_low",
    {"time", "depth", "sample"},
    "",
    "components of tokens at most delta apart are at least so many; NaN: more leaders than "
    "clusters.leaders, or no token with a direction"},
    components_high{"components_high",
                    {"time", "depth", "sample"},
                    "",
                    "components of tokens at most delta apart are at most so many; NaN as above"},
    compact_share{
        "compact_share",
        {"time", "depth", "sample"},
        "",
        "share of tokens in compact components: within 3/2 delta of their first leader; 0: too many leaders"},
    number_2{"number_2",
             {"time", "depth", "sample"},
             "",
             "N_2 = n^2 / sum_ij k_ij, k = e^{beta (cos - 1)}, a number of clusters without threshold"},
    number_1{"number_1",
             {"time", "depth", "sample"},
             "",
             "N_1 = exp(-mean log(z_i / n)), z_i = sum_j k_ij, a number of clusters without threshold"},
    energy{"energy", {"time", "depth", "sample"}, "", "energy E = sum_ij k_ij / (2 beta n^2)"},
    zero_tokens{"zero_tokens",
                {"time", "depth", "sample"},
                "",
                "tokens whose vector is 0: they have no direction and are left out"};

/// In the order of FieldClusters::measure.
inline const io::Variable* const all[] = {&components_low, &components_high, &compact_share, &number_2,
                                          &number_1,       &energy,          &zero_tokens};
}  // namespace of_fields

}  // namespace fluxformer::clusters::variables
