#pragma once

// Variables of derivatives in output files: the gradient of the loss by depth and by group of parameters
// (loss_gradients.hpp), and the Jacobians of layers (layer_jacobians.hpp).

#include <string>

#include "io/axes.hpp"

namespace fluxformer::derivatives::variables {

inline const io::Variable knot = io::index("knot", "parameter set of a model, counted from 1"),
                          exponent =
                              io::index("exponent", "Lyapunov exponent, counted from 1, the largest first");
inline const io::Attribute jacobian_samples{"jacobian_samples",
                                            "samples at which the Jacobians of layers were computed"};

inline const io::Variable loss{
    "loss", {}, "nat", "mean cross entropy of the samples, or of the words to guess"},
    gradient_norm{"gradient_norm",
                  {"<model>_depth"},
                  "",
                  "norm of the gradient of a sample's cross entropy with respect to the state, root mean "
                  "square over samples"},
    gradient_norm_by_sample =
        io::by_sample(gradient_norm, {"layer_end"},
                      "norm of the gradient of that sample's cross entropy with respect to the state"),
    gradient_size{"gradient_size",
                  {"<model>_depth"},
                  "nat",
                  "norm of the state times that of the gradient with respect to it, root mean square over "
                  "samples: change of the cross entropy for a relative change of the state"},
    gradient_size_by_sample = io::by_sample(
        gradient_size, {"layer_end"},
        "norm of that sample's state times that of the gradient of its cross entropy with respect to it"),
    gradient_ratio{"gradient_ratio",
                   {"layer_end"},
                   "",
                   "gradient_norm there over that at the end of the next layer; 1 at the last"},
    disparity{"disparity", {}, "", "largest over smallest gradient_norm at the ends of layers"},
    embedding_gradient{
        "embedding_gradient",
        {},
        "",
        "norm of the gradient of the mean cross entropy with respect to the embedding, with the "
        "word table where a head guesses words by it"},
    knot_gradient{"knot_gradient",
                  {"knot"},
                  "",
                  "the same with respect to each parameter set; NaN beyond those of the model"},
    final_norm_gradient{"final_norm_gradient", {}, "", "the same with respect to the final norm"},
    head_gradient{"head_gradient",
                  {},
                  "",
                  "the same with respect to the classifier, or to what a head of words has of its own"},
    equation_gradient{"equation_gradient", {}, "", "the same with respect to alpha and rho"};

/// Variable for the gradient of a group of parameters as GroupNorm names it: embedding, final_norm, equation, or that
/// of the head of the model, head or word_head.
inline const io::Variable& of_group(const std::string& name) {
  return name == "embedding"    ? embedding_gradient
         : name == "final_norm" ? final_norm_gradient
         : name == "equation"   ? equation_gradient
                                : head_gradient;
}

inline const io::Variable largest_singular_value{
    "largest_singular_value",
    {"layer"},
    "",
    "largest singular value of the Jacobian of a layer, mean over samples; a lower bound"},
    largest_singular_error{
        "largest_singular_error", {"layer"}, "", "within it there is a singular value, in every sample"},
    smallest_singular_value{
        "smallest_singular_value",
        {"layer"},
        "",
        "smallest singular value of the Jacobian of a layer, mean over samples; an upper bound"},
    smallest_singular_error{
        "smallest_singular_error", {"layer"}, "", "within it there is a singular value, in every sample"},
    lyapunov{
        "lyapunov", {"exponent"}, "1/layer", "leading Lyapunov exponents over all layers, mean over samples"},
    lyapunov_error{"lyapunov_error",
                   {"exponent"},
                   "1/layer",
                   "largest change of a sample's exponent in the last sweep of its directions; NaN without "
                   "sweeps"},
    lyapunov_sweeps{"lyapunov_sweeps", {}, "", "largest number of sweeps made for a sample"},
    jacobian_seconds{"jacobian_seconds", {}, "s", "wall time spent on singular values and exponents"};

}  // namespace fluxformer::derivatives::variables
