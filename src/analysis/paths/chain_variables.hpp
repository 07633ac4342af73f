#pragma once

// What samplers of the posterior store: /analysis/paths/<sampler>/... over seeds, on the axes of the theory (path_variables.hpp). NaN for
// widths that were not sampled, the infinite one among them.

#include "analysis/paths/path_variables.hpp"

namespace fluxformer::paths::variables {

inline const io::Variable chain = io::index("chain", "Markov chain"),
                          draw = io::index("draw", "draw after the warm-up"),
                          quantity =
                              io::index("quantity", "quantity of a draw, by the order of `quantities`"),
                          block = io::index(
                              "block",
                              "weights: 0 V_0, 1 .. L V_l of layer l with all its heads, L + 1 read-out");

inline const io::Variable
    trace = at_width("trace", "quantities along the chains", {"chain", "quantity", "draw"}),
    r_hat = at_width("r_hat", "split R-hat of all chains", {"quantity"}),
    effective_draws = at_width("effective_draws", "effective number of draws of all chains", {"quantity"}),
    acceptance = at_width("acceptance", "share of proposals that are accepted", {"chain"}),
    step_size = at_width("step_size", "step of the leapfrog; NaN for a random walk", {"chain"}),
    divergent = at_width("divergent", "trajectories that diverge; NaN for a random walk", {"chain"}),
    block_virial = at_width("block_virial",
                            "mean of |V|^2/s^2 less the number of weights, equal to the data's virial in the "
                            "mean; NaN for a random walk",
                            {"block"}),
    order_error =
        at_width("order_error",
                 "Monte-Carlo error of U_1 by the spread of the chains, Frobenius norm over that of "
                 "U_1; NaN for one chain"),
    mean_error = at_width("mean_error",
                          "Monte-Carlo error of the predictor, mean over test examples; NaN for one chain"),
    order_difference = at_width("order_difference",
                                "U_1 less that of the theory, Frobenius norm over that of the draws' U_1"),
    order_excess = at_width("order_excess",
                            "order_difference less its bound, half the paths over the width and four "
                            "Monte-Carlo errors; NaN where there are more paths than units"),
    mean_difference = at_width("mean_difference", "mean |predictor - the theory's| over the test examples"),
    mean_correlation =
        at_width("mean_correlation", "correlation of the predictor with the theory's over the test examples"),
    limit_difference =
        at_width("limit_difference", "mean |predictor - the Gaussian process's| over the test examples"),
    accuracy_gain = at_width("accuracy_gain", "accuracy less that of the theory");

inline const io::Attribute quantities{"quantities", "names of the quantities of a draw, a line each"};

}  // namespace fluxformer::paths::variables
