#pragma once

// What the studies of one attention layer store: /analysis/hessian/KIND/... for each kind of layer, over seeds, of H and,
// with gauss_newton_ or functional_ in front, of its parts.

#include "io/axes.hpp"

namespace fluxformer::hessian::variables {

inline const io::Variable
    weight_matrix = io::index("weight", "weight matrix: 1 value, 2 query, 3 key"),
    sigma = io::coordinate("sigma", "", "standard deviation of the embeddings"),
    entry_size = io::coordinate("entry_size", "", "log10 of the size of an entry: lower end of a bin"),
    entry_share{"entry_share",
                {"weight", "entry_size"},
                "",
                "share of the entries of the diagonal block whose absolute value lies in the bin"},
    median_entry{"median_entry", {"weight"}, "", "log10 of the median absolute value of its entries"},
    largest_entries{
        "percentile_99_entry", {"weight"}, "", "log10 of the 99th percentile of the absolute values"},
    layer_norm{"block_norm_by_sigma",
               {"layer", "weight", "sigma"},
               "nat",
               "Frobenius norm of the diagonal block, by size of the embeddings; not finite: overflow"},
    matrix_norm{
        "matrix_norm_by_sigma",
        {"layer", "sigma"},
        "",
        "linear_mlp: Frobenius norm of the diagonal block of each layer's matrix, by size of the embeddings; "
        "not finite: overflow"};

}  // namespace fluxformer::hessian::variables
