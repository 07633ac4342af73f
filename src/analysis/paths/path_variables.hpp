#pragma once

// What the theory of attention paths stores: /analysis/paths/theory/... over seeds.

#include "io/axes.hpp"

namespace fluxformer::paths::variables {

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

/// By temperature and width.
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

}  // namespace fluxformer::paths::variables
