#pragma once

// Variables of the Hessian of a trained model in output files: of H, of its Gauss-Newton part H_o and of the
// rest, the functional part. Measures of the two parts have the same names with the part in front. Those of all
// studies of Hessians are in /analysis/hessian.

#include <string>
#include <vector>

#include "io/axes.hpp"

namespace fluxformer::hessian::variables {

inline constexpr const char* group = "hessian";  ///< in /analysis

inline const io::Variable eigenvalue = io::index("eigenvalue", "eigenvalue, counted from the end inwards"),
                          probe = io::index("probe", "random vector, counted from 1"),
                          lanczos_step = io::index("lanczos_step", "node of a quadrature, counted from 1"),
                          block = io::index("<model>_block", "block of parameters, in the order of `blocks`"),
                          other_block = io::index("<model>_other_block", "the same, of columns");
/// With fewer random vectors than this a standard error, which is their spread, is itself uncertain by more
/// than a quarter: its relative standard deviation is [2 (n - 1)]^-1/2 for n of them.
inline constexpr int few_probes = 8;
inline const io::Attribute rough_errors{"rough_errors",
                                        "keys with fewer than 8 random vectors: the standard errors, which "
                                        "are their spread, are rough; absent: none"};
inline const io::Attribute blocks{"blocks", "names of the blocks of parameters, a line each"};

inline const io::Variable loss{"loss", {}, "nat", "loss of the samples, without penalty"},
    gradient_norm{"gradient_norm", {}, "nat", "norm of the gradient of all that is minimised"},
    largest{"largest_eigenvalue", {"eigenvalue"}, "nat", "largest eigenvalues; NaN: not converged"},
    largest_residual{
        "largest_residual", {"eigenvalue"}, "", "|H x - lambda x| / ||H|| of the largest eigenvalues"},
    smallest{"smallest_eigenvalue",
             {"eigenvalue"},
             "nat",
             "smallest (most negative) eigenvalues; NaN: not converged"},
    smallest_residual{
        "smallest_residual", {"eigenvalue"}, "", "|H x - lambda x| / ||H|| of the smallest eigenvalues"},
    node{"density_node", {"probe", "lanczos_step"}, "nat", "nodes of the spectral density; NaN: fewer nodes"},
    weight{"density_weight", {"probe", "lanczos_step"}, "", "weights of the nodes; they sum to 1"},
    trace{"trace", {}, "nat", "trace (Hutch++)"},
    trace_error{"trace_error", {}, "nat", "standard error of trace"},
    frobenius{"frobenius_norm", {}, "nat", "Frobenius norm (Hutchinson)"},
    frobenius_error{"frobenius_error", {}, "nat", "standard error of frobenius_norm"},
    block_trace{"block_trace", {"<model>_block"}, "nat", "trace of the diagonal block"},
    block_trace_error{"block_trace_error", {"<model>_block"}, "nat", "standard error of block_trace"},
    block_norm{"block_norm",
               {"<model>_block", "<model>_other_block"},
               "nat",
               "Frobenius norm of the block of these rows and columns"},
    block_norm_error{
        "block_norm_error", {"<model>_block", "<model>_other_block"}, "nat", "standard error of block_norm"};

// Densities of diagonal blocks, eigenvalues in units of the block's root mean square eigenvalue.
inline const io::Variable
    block_probe = io::index("block_probe", "random vector of a block, counted from 1"),
    block_step = io::index("block_lanczos_step", "node of the quadrature of a block, counted from 1"),
    block_node{"block_node",
               {"<model>_block", "block_probe", "block_lanczos_step"},
               "nat",
               "nodes of the spectral density of the diagonal block; NaN: fewer nodes"},
    block_weight{"block_weight",
                 {"<model>_block", "block_probe", "block_lanczos_step"},
                 "",
                 "weights of the nodes; they sum to 1"},
    block_largest{"block_largest_eigenvalue",
                  {"<model>_block"},
                  "nat",
                  "eigenvalue of the diagonal block with the largest magnitude; NaN: not converged"},
    block_rms{"block_rms_eigenvalue",
              {"<model>_block"},
              "nat",
              "Frobenius norm of the diagonal block over the square root of its size, by its quadratures"},
    block_distance{"block_distance",
                   {"<model>_block", "<model>_other_block"},
                   "",
                   "Jensen-Shannon distance between the spectral densities of two diagonal blocks"},
    block_floor{"block_floor",
                {"<model>_block"},
                "",
                "the same between two halves of the probes of one block: the part of sampling"},
    heterogeneity{"heterogeneity",
                  {},
                  "",
                  "mean of block_distance over the pairs of blocks; 0 for those below twice block_floor"};

// Measures at copies of the weights, beside the largest eigenvalues.
inline const io::Variable rate{"learning_rate", {}, "", "learning rate of the next step"},
    preconditioned{"preconditioned_eigenvalue",
                   {},
                   "",
                   "largest eigenvalue of D^-1/2 H D^-1/2, D = sqrt(v_hat) + epsilon of adam or adamw; NaN "
                   "before the first step"};
inline const io::Attribute stability_threshold{
    "stability_threshold",
    "learning rate times eigenvalue at which full-batch training on a quadratic loss becomes unstable: 2 (1 "
    "+ momentum) for "
    "sgd, and for adam and adamw 2 (1 + beta1) / (1 - beta1) with the preconditioned eigenvalue"};

inline const io::Attribute lambda_0{"lambda_0",
                                    "densities of blocks are compared over asinh(eigenvalue / lambda_0)"},
    broadening{"broadening", "standard deviation of the broadening of these densities"};

/// Measures of each part.
inline const std::vector<io::Variable> of_a_part = {
    largest,     largest_residual, smallest,     smallest_residual, node,        weight,
    trace,       trace_error,      frobenius,    frobenius_error,   block_trace, block_trace_error,
    block_norm,  block_norm_error, block_node,   block_weight,      block_rms,   block_distance,
    block_floor, heterogeneity,    block_largest};

/// Measure of a part: hessian, gauss_newton or functional.
inline io::Variable of_part(const std::string& part, io::Variable of) {
  if (part == "hessian") return of;
  of.name = part + "_" + of.name;
  of.long_name += part == "gauss_newton" ? "; of the Gauss-Newton part" : "; of the functional part";
  return of;
}

// Exact spectrum of the Gauss-Newton part, with gauss_newton_ in front.

inline const io::Variable
    output = io::index("output", "eigenvalue, from the largest; as many as samples x classes"),
    exact_eigenvalue{
        "exact_eigenvalue", {"output"}, "nat", "all eigenvalues that are not 0, and some that are"},
    exact_trace{"exact_trace", {}, "nat", "trace"}, exact_norm{"exact_norm", {}, "nat", "Frobenius norm"},
    exact_block_trace{"exact_block_trace", {"<model>_block"}, "nat", "trace of the diagonal block"},
    exact_block_largest{"exact_block_largest_eigenvalue",
                        {"<model>_block"},
                        "nat",
                        "largest eigenvalue of the diagonal block"},
    exact_block_norm{"exact_block_norm",
                     {"<model>_block", "<model>_other_block"},
                     "nat",
                     "Frobenius norm of the block of these rows and columns"},
    exact_block_distance{"exact_block_distance",
                         {"<model>_block", "<model>_other_block"},
                         "",
                         "Jensen-Shannon distance between the spectral densities of two diagonal blocks"},
    exact_heterogeneity{"exact_heterogeneity",
                        {},
                        "",
                        "mean of exact_block_distance over the pairs of blocks that are not 0"};
/// Measures of the exact spectrum.
inline const std::vector<io::Variable> exact_measures = {
    exact_eigenvalue,    exact_trace,      exact_norm,           exact_block_trace,
    exact_block_largest, exact_block_norm, exact_block_distance, exact_heterogeneity};

}  // namespace fluxformer::hessian::variables
