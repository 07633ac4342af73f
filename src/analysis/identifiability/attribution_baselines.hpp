#pragma once

// What attention alone says about which input token matters to which output token: the methods that Hidden
// Token Attribution stands beside. Matrices are n x n with rows = output tokens (queries) and columns = input
// tokens (keys), as attention has them; A_l is the attention of layer l averaged over heads.
//
//   raw          A_l
//   rollout      R_0 = I,  R_l = (h_l A_l + I) / (1 + h_l) R_{l-1}
//   flow         largest flow from output token j to input token i through the layers, with the
//                capacities (h_l A_l + I) / (1 + h_l)
//   norm-based   |sum_h A^h_ji T^h_i|,  T^h = (E W_V + 1 b_V^T) H
//
// h_l is the depth step of a layer, 1 in a Transformer. Sources: Abnar and Zuidema, arXiv 2005.00928 (rollout,
// flow); Kobayashi, Kuribayashi, Yokoi, Inui, arXiv 2004.10102 (norm-based); docs/model.md, section 10.8. Not
// collective.

#include <span>
#include <vector>

#include "analysis/identifiability/sample_head.hpp"

namespace fluxformer::identifiability {

/// A of a layer, averaged over its heads. Throws BadInput without heads or for heads of different sizes.
Matrix raw_attention(const LayerHeads& heads);

/// (h A + I) / (1 + h): attention with the residual connection beside it. Rows sum to 1 as those of A do.
Matrix with_residual(const Matrix& attention, double step = 1);

/// [layer]: R_1, R_2, ... of the layers' averaged attention, first layer first. Cost: 2 n^3 flops per layer.
/// `steps` are h_1, h_2, ...; empty: 1.
std::vector<Matrix> rollout(const std::vector<Matrix>& attention, std::span<const double> steps = {});

/// |sum_h A^h_ji T^h_i| of one layer: the sum over heads is inside the norm. Cost: 2 n^2 d flops per head.
Matrix norm_based_attention(const LayerHeads& heads);

/// [input token]: the mean over the listed output tokens, those that the readout uses, of a method's matrix;
/// of a matrix with signs (effective attention) pass the absolute values. Throws BadInput for an empty list
/// or a token out of range.
std::vector<double> scores_of_inputs(const Matrix& method, std::span<const int> outputs);

/// Attention flow: the largest flow from an output token j above layer L to an input token i below layer 1,
/// through the graph whose nodes are the tokens between the layers and whose edges, from token q above layer
/// l to token k below it, have the capacities
///
///     C_l(q, k) = (h_l A_l(q, k) + delta_qk) / (1 + h_l).
///
/// Entry (o, i) of the result: flow from output token outputs[o] to input token i, not divided. One layer:
/// C_1(j, i) itself; two layers: sum_k min(C_2(j, k), C_1(k, i)). It is at most min(1, sum_k C_1(k, i)), and
/// at least the entry of rollout, which is a flow. Each pair has its own flow; they do not add up to 1 over
/// i.
///
/// `attention`: averaged over heads, of the layers 1 .. L, first layer first, n x n, L >= 1; `steps` as for
/// rollout. Entries that are 0 (causal) are no edges. Error: 1e-13. Throws BadInput without layers, for matrices of different shapes or
/// negative entries, or for a token out of range. Source: Abnar and Zuidema, section 3; Goldberg and Tarjan
/// 1988 (push-relabel).
///
/// Cost: O(n^2 L) per pair where a flow as large as the bound is found at once; else one run of push-relabel
/// on n (L - 1) nodes and n^2 (L - 2) edges, O(nodes^2 sqrt(edges)) at worst. Measured with 6 layers, per
/// pair: 0.05 ms at once and 1 to 4 ms by push-relabel for n = 49, 0.4 and 10 ms for n = 128; all pairs of a
/// sample are n^2. Of random attention from 4 layers on nearly all flows are as large as the bound unless its
/// rows are very sharp. The bound knows layer 1 only: a flow says little about deep models.
Matrix attention_flow(const std::vector<Matrix>& attention, std::span<const int> outputs,
                      std::span<const double> steps = {});

/// Every row divided by its sum.
Matrix flow_shares(const Matrix& flow);

}  // namespace fluxformer::identifiability
