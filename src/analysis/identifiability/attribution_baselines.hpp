#pragma once

// What attention alone says about which input token matters to which output token: the methods that Hidden Token
// Attribution stands beside. Matrices are n x n with rows = output tokens (queries) and columns = input tokens (keys), as
// attention has them; A_l is the attention of layer l averaged over heads.
//
//   raw          A_l
//   rollout      R_0 = I,  R_l = (h A_l + I) / (1 + h) R_{l-1}
//   flow         largest flow from output token j to input token i through the layers, capacities (h A_l + I) / (1 + h)
//   norm-based   |sum_h A^h_ji T^h_i|,  T^h = (E W_V + 1 b_V^T) H
//
// h is the depth step of a layer, 1 in a Transformer. Sources: Abnar and Zuidema, arXiv 2005.00928 (rollout, flow);
// Kobayashi, Kuribayashi, Yokoi, Inui, arXiv 2004.10102 (norm-based). Not collective.

#include <span>
#include <vector>

#include "analysis/identifiability/attention_head.hpp"

namespace fluxformer::identifiability {

/// A of a layer, averaged over its heads. Throws BadInput without heads or for heads of different sizes.
Matrix raw_attention(const LayerHeads& heads);

/// (h A + I) / (1 + h): attention with the residual connection beside it. Rows sum to 1 as those of A do.
Matrix with_residual(const Matrix& attention, double step = 1);

/// [layer]: R_1, R_2, ... of the layers' averaged attention, first layer first. Cost: 2 n^3 flops per layer.
std::vector<Matrix> rollout(const std::vector<Matrix>& attention, double step = 1);

/// |sum_h A^h_ji T^h_i| of one layer: the sum over heads is inside the norm. Cost: 2 n^2 d flops per head.
Matrix norm_based_attention(const LayerHeads& heads);

/// [input token]: the mean over the listed output tokens, those that the readout uses, of a method's matrix; of a matrix
/// with signs (effective attention) pass the absolute values. Throws BadInput for an empty list or a token out of range.
std::vector<double> scores_of_inputs(const Matrix& method, std::span<const int> outputs);

}  // namespace fluxformer::identifiability
