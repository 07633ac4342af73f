#pragma once

// The variables of attention paths, those of all studies in /analysis/paths. The theory:
// /analysis/paths/theory/... over seeds.

#include "io/axes.hpp"

namespace fluxformer::paths::variables {

inline constexpr const char* group = "paths";  ///< in /analysis

inline const io::Variable
    temperature = io::coordinate("temperature", "", "noise variance T of the likelihood"),
    width = io::coordinate("width", "", "width N of all layers; inf: the Gaussian process"),
    path = io::index("path", "path, by the index of its heads, that of layer 1 slowest"),
    other_path = io::index("other_path", "the same, of columns"),
    component = io::index("component", "principal component of the kernel, the largest first"),
    removed = io::index("removed", "heads that are silenced"), example = io::index("example", "test example"),
    further_set =
        io::index("further_set", "other examples than those of the test, by the order of `further_sets`"),
    part = io::index("part", "part of the network, by the order of `parts`"),
    identity = io::index("identity", "side of the virial identities: 0 read-out, 1 .. L layers, L + 1 data");

/// A number by temperature and width.
inline io::Variable at_width(const std::string& name, const std::string& what,
                             std::vector<std::string> further = {}) {
  further.insert(further.begin(), {"temperature", "width"});
  return {name, std::move(further), "", what};
}

inline const io::Variable
    accuracy = at_width("accuracy", "share of test examples whose predicted mean has the right sign"),
    draw_accuracy = at_width("draw_accuracy", "expected accuracy of one draw of the posterior"),
    bias_error = at_width("bias_error", "mean of (mean - y)^2 over the test examples"),
    variance_error = at_width("variance_error", "mean variance of the predictor over the test examples"),
    action = at_width("action", "S = E + Lambda at its minimum"),
    energy = at_width("energy", "E = ln det(K + T I) + y^T (K + T I)^-1 y"),
    readout = at_width("readout", "order parameter u_a of the read-out weights"),
    gradient = at_width("gradient", "largest derivative of S at the minimum found, over N"),
    iterations = at_width("iterations", "quasi-Newton iterations"),
    largest_overlap =
        at_width("largest_overlap", "largest overlap of the labels with a component of the kernel"),
    pruning_loss =
        at_width("pruning_loss", "loss of accuracy by silencing the head of the least score in U_1"),
    good_weight =
        at_width("good_weight",
                 "order parameter of the good path with itself, over the mean of all paths; NaN: no path is "
                 "made for the task"),
    good_denoising =
        at_width("good_denoising",
                 "order parameter between the good and the denoising path, over the root of the product "
                 "of their own; NaN: there is no such path"),
    virial = at_width("virial", "sides of the virial identities, equal at the minimum", {"identity"}),
    order = at_width("order",
                     "order parameters U_l of each layer, n_l x n_l; NaN beyond (n_1 is the number of paths)",
                     {"layer", "path", "other_path"}),
    head_score = at_width("head_score", "score of each head by U_1, over the largest", {"layer", "head"}),
    ablated_accuracy = at_width(
        "ablated_accuracy",
        "accuracy after silencing heads in U_1 in rising order of their scores; NaN: no head left in a layer",
        {"removed"}),
    overlap = at_width("overlap", "|v . y| / sqrt(P) of the labels with the components of the kernel",
                       {"component"}),
    mean = at_width("mean", "mean of the predictor", {"example"}),
    variance = at_width("variance", "variance of the predictor, without the noise", {"example"}),
    further_accuracy = at_width("further_accuracy", "accuracy on other examples", {"further_set"}),
    chosen_accuracy{
        "chosen_accuracy",
        {"width"},
        "",
        "accuracy at the temperature that is best for the first of the further sets, validation examples"},
    part_accuracy{
        "part_accuracy",
        {"temperature", "part"},
        "",
        "accuracy of the Gaussian process of a part of the network, normalised by its own number of paths"};

inline const io::Attribute path_names{"path_names", "names of the paths, a line each"},
    parts{"parts", "names of the parts of the network, a line each"},
    further_sets{"further_sets", "names of the further examples, a line each"},
    heads{"heads", "heads of each layer"}, task{"task", "the task"},
    dimension{"dimension", "D, of an input token"}, train_examples{"train_examples", "P, of the posterior"};

// Samplers of the posterior: /analysis/paths/<sampler>/... over seeds, on the axes of the theory. NaN for
// widths that were not sampled, the infinite one among them.

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

// The training of a network of attention paths: /analysis/paths/network/... over seeds.

inline constexpr const char *network_group = "network", *network_path = "/analysis/paths/network/";

inline const io::Variable judged_step =
                              io::index("judged_step", "steps of the training after which it was judged"),
                          projection = io::index("projection", "0 queries, 1 keys"),
                          query_unit = io::index("query_unit", "component of queries and keys"),
                          input_unit = io::index("input", "component of an input token"),
                          unit = io::index("unit", "unit of a layer"),
                          other_unit = io::index("other_unit", "the same, of outputs"),
                          judged_set = io::index("judged_set", "examples, by the order of `judged_sets`");

inline const io::Variable learned_loss{
    "loss", {"judged_step"}, "", "mean of (f - y)^2 over the batches since the row before"},
    validation_loss{"validation_loss", {"judged_step"}, "", "mean of (f - y)^2 over validation examples"},
    validation_accuracy{
        "validation_accuracy", {"judged_step"}, "", "share of validation examples whose sign is right"},
    judged_accuracy{
        "judged_accuracy", {"judged_set"}, "", "share of right signs by the weights that are stored"},
    best_step{"best_step", {}, "", "steps after which validation loss was least: those of the weights"},
    input_weights{"input_weights", {"unit", "input"}, "", "V_0 / sqrt(D)"},
    projections{"projections",
                {"layer", "projection", "head", "query_unit", "input"},
                "",
                "queries Q and keys K of each head"},
    values{"values", {"layer", "head", "unit", "other_unit"}, "", "V_{l,h} / sqrt(N), transposed"},
    readout_weights{"readout_weights", {"unit"}, "", "a / sqrt(N)"};

inline const io::Attribute images{"images", "images that the network was trained on: paths.images"},
    judged_sets{"judged_sets", "names of the sets of examples, a line each"};

// Pruning: /analysis/paths/network/... over seeds.

inline const io::Variable silenced = io::index("silenced", "heads that are silenced, without training again"),
                          pruning_order = io::index("pruning_order",
                                                    "order in which heads are silenced, by `pruning_orders`"),
                          pruning_rule = io::index(
                              "pruning_rule", "rule that tells what a head is worth, by `pruning_rules`");

inline const io::Variable pruned_accuracy{
    "pruned_accuracy",
    {"pruning_order", "silenced"},
    "",
    "share of test examples that are right; NaN: no head left in a layer"},
    rule_score{"rule_score",
               {"pruning_rule", "layer", "head"},
               "",
               "score of each head over the largest in absolute value; NaN beyond a layer's heads"};

/// Losses and gains are means over one, two, ... silenced heads, up to half of all, where neither order has
/// emptied a layer; NaN if there is no such number.
inline const io::Variable loss_by_theory{
    "loss_by_theory", {}, "", "accuracy lost by silencing heads in the rising order of the theory's scores"},
    gain_over_random{
        "gain_over_random", {}, "", "what random orders lose, in the mean, less what the theory's loses"},
    gain_over_falling{
        "gain_over_falling", {}, "", "what the falling order loses, less what the rising one loses"},
    gain_over_entropy{
        "gain_over_entropy", {}, "", "what the order by entropy loses, less what the theory's loses"},
    gain_over_first_order{"gain_over_first_order",
                          {},
                          "",
                          "what the order by first-order sensitivity loses, less what the theory's loses"};

inline const io::Attribute pruning_orders{"pruning_orders", "names of the orders, a line each"},
    pruning_rules{"pruning_rules", "names of the rules, a line each"},
    pruning_width{"pruning_width", "width N of the theory whose scores are used"},
    pruning_temperature{"pruning_temperature", "its temperature T"};

}  // namespace fluxformer::paths::variables
