#pragma once

// Variables of the studies of one attention layer in output files: /analysis/hessian/KIND/... for each kind
// of layer, over seeds, for H and, with gauss_newton_ or functional_ in front, for its parts.

#include "io/axes.hpp"

namespace fluxformer::decoder::variables {

inline const io::Variable
    weight_matrix = io::index("weight", "weight matrix: 1 value, 2 query, 3 key"),
    sigma = io::coordinate("sigma", "", "standard deviation of the embeddings"),
    entry_size = io::coordinate("entry_size", "", "log10 of the size of an entry: lower end of a bin"),
    entry_share{"entry_share",
                {"weight", "entry_size"},
                "",
                "share of the entries of the diagonal block whose absolute value lies in the bin"},
    parameter = io::index("parameter", "weight of the decoder in the order of `blocks`, counted from 1"),
    other_parameter = io::index("other_parameter", "the same, of columns"),
    heat_map{"heat_map",
             {"parameter", "other_parameter"},
             "",
             "log10(|H| + 1e-6) over all weights of the decoder; of the first seed"},
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

inline const io::Attribute block_sizes{"block_sizes", "how many weights each of `blocks` has, a line each"};

}  // namespace fluxformer::decoder::variables
