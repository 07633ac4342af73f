#pragma once

// What the clusters_* experiments store.

#include "io/variable.hpp"

namespace fluxformer::clusters::variables {

/// All experiments of the family write to /analysis/clusters.
inline constexpr const char* group = "clusters";
/// Tokens with soft-max attention.
inline constexpr const char* softmax = "softmax";

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
                "rate at which a small displacement of tokens without number grows, in closed form"},
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
                        "factor of a layer for tokens without number, in closed form"},
    bare_layer_growth{
        "bare_layer_growth", {"beta", "degree"}, "", "factor of a layer without residual connection"},
    bare_layer_growth_theory{
        "bare_layer_growth_theory",
        {"beta", "degree"},
        "",
        "factor of a layer without residual connection for tokens without number, in closed form"},
    fastest_degree{
        "fastest_degree", {"beta"}, "", "degree that grows fastest by theory; 0: none grows", true};

inline const io::Attribute beta_of_two{
    "beta_of_two", "beta at which degree 1 gives way to degree 2 as the fastest, by theory"};

// Of tokens on the circle in time.
inline const io::Variable time = io::coordinate("time", "time", "stored times"),
                          mode = io::index("mode", "waves around the circle"),
                          angle = io::coordinate("angle", "", "middle of a bin of angles, in turns"),
                          place = io::index("place", "clusters at the end, the largest first");

inline const io::Variable number{"number",
                                 {"time"},
                                 "",
                                 "clusters: components of tokens at most delta apart, once nearly all tokens "
                                 "are in compact ones; else NaN"},
    components{"components", {"time"}, "", "components of tokens at most delta apart", true},
    compact_share{"compact_share", {"time"}, "", "share of tokens in components of a diameter up to 3 delta"},
    number_2{"number_2", {"time"}, "", "N_2 = n^2 / sum_ij k_ij, a number of clusters without threshold"},
    number_1{
        "number_1", {"time"}, "", "N_1 = exp(-mean log(z_i / n)), a number of clusters without threshold"},
    energy{"energy", {"time"}, "", "energy E = sum_ij k_ij / (2 beta n^2)"},
    dissipation{"dissipation", {"time"}, "1/time", "rate of the energy, from the velocities"},
    moment{"moment", {"time", "mode"}, "", "|mean e^{i k angle}|"},
    density{"density", {"time", "angle"}, "", "share of the tokens in each bin of angles"},
    mass{"mass",
         {"place"},
         "",
         "share of the tokens in each of the largest clusters at the end; 0: there is none"},
    formed{"formed", {}, "time", "first stored time with clusters; NaN: none"},
    wave_rate{"wave_rate",
              {},
              "1/time",
              "rate of the fastest wave, between the stored times at which |M_k| is from 3 / sqrt(n) to "
              "0.03; NaN: fewer than two"},
    evaluations{"evaluations", {}, "", "evaluations of all velocities", true},
    evaluation_seconds{"evaluation_seconds", {}, "s", "wall time of one of them"};

inline const io::Attribute temperature{"beta", "inverse temperature of the attention"},
    delta{"delta", "angle up to which tokens belong together"},
    fastest_wave{"fastest_wave", "waves of the displacement that grows fastest, by theory"},
    wave_rate_theory{"wave_rate_theory", "its rate", "1/time"},
    formation_theory{"formation_theory",
                     "log n / (2 rate): the time in which it grows from the noise of n tokens to order one",
                     "time"},
    lifetime{"lifetime", "1 / rate at which so many equal clusters on a ring leave their places, by theory",
             "time"};

}  // namespace fluxformer::clusters::variables
