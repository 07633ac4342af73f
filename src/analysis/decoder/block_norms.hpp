#pragma once

// Frobenius norms of the blocks of a layer's Hessian, exactly and without forming them. A block is a sum over
// scored rows of Kronecker products, and || sum_i U_i (x) N_i ||^2 = sum_ij <U_i,U_j> <N_i,N_j>. With
// D_i = tau^2 (R_i^T B_i R_i + S_i), E = tau C (VK) or tau C W_K (VQ), v' = tau C h:
//
//   VV  U = m m^T, N = B        QQ  U = x x^T, N = W_K^T D W_K        KK  U = q q^T, N = D
//   VQ  o = x, N = tau B R W_K, and VK  o = q, N = tau B R:
//       sum_ij (o_i.o_j) [(m_i.m_j) <N_i,N_j> + (g_i.g_j) <E_i,E_j> + c_ij + c_ji],  c_ij = (E_j^T m_i).(N_i^T g_j)
//   QK  o = x, N = W_K^T D:
//       sum_ij (x_i.x_j) [(q_i.q_j) <N_i,N_j> + k (v'_i.v'_j) + c_ij + c_ji],        c_ij = q_i^T N_i v'_j
//
// The outer part has B = B^o and neither S, E nor v'; the functional part has B = B^f; H has the sum of the two.
// The sum runs over pairs of rows of all sequences: ranks that share the sequences pass their factors around and
// add up inner products.

#include <vector>

#include "analysis/decoder/attention_layer.hpp"

namespace fluxformer::decoder {

/// What the norm of one block takes from each of n rows. Plain matrices, so that they can be sent.
struct BlockFactors {
  Weight rows = Weight::value, columns = Weight::value;
  Matrix common;     ///< o_i; of a diagonal block the vector in U_i
  Matrix left;       ///< m_i or q_i; of a diagonal block empty
  Matrix products;   ///< vec N_i
  Matrix gradients;  ///< g_i, or sqrt(k); empty where there is no second term
  Matrix moments;    ///< vec E_i, or v'_i; empty likewise
};

/// The factors of all scored rows of these sequences, one below the other. A block of the upper triangle:
/// rows <= columns. O(n d^2 (d + L)), memory of n matrices of size of a block of P.
BlockFactors block_factors(const std::vector<AttentionLayer>& sequences, Weight rows, Weight columns,
                           Part part);

/// The Frobenius inner product of the two blocks that belong to the factors (of one kind). O(n_a n_b d^2).
double inner_product(const BlockFactors& a, const BlockFactors& b);

/// The norm of a block summed over the sequences.
double block_norm(const std::vector<AttentionLayer>& sequences, Weight rows, Weight columns, Part part);

}  // namespace fluxformer::decoder
