#pragma once

// What is stored of the exact spectrum of the Gauss-Newton part, with gauss_newton_ in front.

#include <vector>

#include "io/axes.hpp"

namespace fluxformer::hessian::variables {

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
/// All of these.
inline const std::vector<io::Variable> exact_measures = {
    exact_eigenvalue,    exact_trace,      exact_norm,           exact_block_trace,
    exact_block_largest, exact_block_norm, exact_block_distance, exact_heterogeneity};

}  // namespace fluxformer::hessian::variables
