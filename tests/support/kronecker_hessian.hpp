#pragma once

// The Hessian of an attention layer under c |F - Y|^2 assembled from Kronecker products and commutation
// matrices, as arXiv 2410.10986 writes it: the second reference, for tiny sizes (Z2 has L d^5 entries). It
// shares with the closed form neither moments nor index gymnastics: everything follows from the derivatives
// of soft-max.

#include "analysis/decoder/attention_layer.hpp"

namespace fluxformer::test {

/// A (x) B
decoder::Matrix kronecker(const decoder::Matrix& a, const decoder::Matrix& b);

/// K (dk x dk) with K vec(W) = vec(W^T) for W (d x k), vec by rows.
decoder::Matrix commutation(Eigen::Index d, Eigen::Index k);

/// H_o or H_f of one sequence.
decoder::Matrix kronecker_hessian(const decoder::Matrix& x, const decoder::Matrix& y,
                                  const decoder::DecoderAttentionWeights& weights,
                                  const decoder::AttentionForm& form, double c, decoder::HessianTerm part);

}  // namespace fluxformer::test
