#pragma once

// One attention layer as a map of its weights, with its first two derivatives. They need the cumulants of the
// tokens under the attention of each row. With T_ij = u_i . x_j and the keys j that row i sees,
//
//   softmax   m_i = sum_j A_ij x_j                                             first moment
//             C_i = sum_j A_ij (x_j - m_i)(x_j - m_i)^T                        second central moment
//             S_i(h) = sum_j A_ij [(x_j - m_i) . h] (x_j - m_i)(x_j - m_i)^T   third central moment times h
//   linear    m_i = C_i u_i,  C_i = sum_j x_j x_j^T,  S_i(h) = 0
//
// They are derivatives of one another: dm_i = C_i du_i,  d2m_i = S_i(du_i) du_i + C_i d2u_i.
// Source: Ormaniec, Dangel, Singh, arXiv 2410.10986, in the notation of cumulants.

#include <Eigen/Core>

#include "base/index.hpp"

namespace fluxformer::decoder {

/// Dense matrix stored by rows.
using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
/// Column vector.
using Vector = Eigen::VectorXd;

/// Attention weights A: soft-max of the rows of the scores T, or T itself.
enum class Scores { softmax, linear };
/// Keys that a row sees: all, or those up to the row itself; A_ij = 0 elsewhere.
enum class Mask { none, causal };

/// Soft-max of each row over the keys that it sees; zero elsewhere.
Matrix softmax_rows(const Matrix& scores, Mask mask);

/// Moments m, C and S of one sequence of L tokens of width d. Not collective.
class AttentionMoments {
 public:
  /// `x` and `u` are L x d, with rows x_j and u_i. O(L^2 d).
  AttentionMoments(const Matrix& x, const Matrix& u, Scores scores, Mask mask);

  /// Rows m_i, L x d.
  const Matrix& first() const { return first_; }
  /// Matrix C_i, d x d. O(L d^2).
  Matrix second(Index row) const;
  /// Matrix S_i(h), d x d. O(L d^2).
  Matrix third(Index row, const Vector& h) const;
  /// Rows C_i y_i for rows y_i (L x d). O(L^2 d), no d x d matrix.
  Matrix second_times(const Matrix& y) const;
  /// Rows S_i(h_i) y_i for rows h_i, y_i (L x d). O(L^2 d).
  Matrix third_times(const Matrix& h, const Matrix& y) const;

 private:
  Matrix deviations(Index row) const;
  Matrix projections(const Matrix& y) const;
  Matrix weighted_deviations(const Matrix& s) const;

  Scores scores_;
  Matrix x_;        // softmax: less the mean token, which changes no central moment but saves digits
  Matrix weights_;  // L x L: A, or the mask
  Matrix centre_;   // L x d: m_i (less the mean token), or 0
  Matrix first_;
};

// The map theta = [vec W_V; vec W_Q; vec W_K] -> F = A X W_V of one attention layer at one theta, one
// sequence:
//
//   P = tau W_Q W_K^T,  T = X P X^T,  A = softmax(T) or T,  F = A X W_V        (L x e)
//
// its Jacobian and its second derivative contracted with one vector for each row. Vectorisation is by rows.
// With the moments m, C, S and R_i = W_V^T C_i, q_i = W_Q^T x_i, h_i = W_V g_i, v_i = C_i h_i,
//
//   d f_i        J_V = m_i^T (x) I_e      J_Q = tau x_i^T (x) (R_i W_K)      J_K = tau R_i (x) q_i^T
//   g_i . d2 f_i
//     VV  0
//     VQ  [(a,b),(a',r)] = tau g_ib (C_i W_K)[a,r] x_ia'
//     VK  [(a,b),(c,r)] = tau g_ib C_i[a,c] q_ir
//     QQ  tau^2 (x_i x_i^T) (x) (W_K^T S_i(h_i) W_K)
//     QK  [(a,r),(c,s)] = tau^2 x_ia (W_K^T S_i(h_i))[r,c] q_is + tau x_ia v_ic delta_rs
//     KK  tau^2 S_i(h_i) (x) (q_i q_i^T)
//
// The layer with a single matrix W, T = tau X W X^T, is this one with W_Q = W and W_K = I, its parameters V
// and Q. Biases: a constant column of ones in X, their values as the last rows of the weights. Source: arXiv
// 2410.10986, in the notation of cumulants.

/// Weights W_V (d x e), W_Q and W_K (d x k), or a direction in their space.
struct DecoderAttentionWeights {
  Matrix value, query, key;

  Index size() const { return value.size() + query.size() + key.size(); }
};

/// Vector theta = [vec W_V; vec W_Q; vec W_K] of the weights, by rows.
Vector flattened(const DecoderAttentionWeights& weights);
/// Weights of the vector theta, with the shapes of `like`.
DecoderAttentionWeights unflattened(const Vector& theta, const DecoderAttentionWeights& like);

/// Weights in theta.
enum class Weight { value, query, key };

/// Form of the attention weights.
struct AttentionForm {
  Scores scores = Scores::softmax;
  Mask mask = Mask::none;
  double tau = 1;  ///< scale of the scores; 1/sqrt(k) in a Transformer
};

/// The map theta -> F for one sequence; the caller sums over sequences. Not collective.
class AttentionMap {
 public:
  /// `x` is L x d.
  AttentionMap(Matrix x, DecoderAttentionWeights weights, const AttentionForm& form);

  const Matrix& tokens() const { return x_; }
  const DecoderAttentionWeights& weights() const { return weights_; }
  const Matrix& queries() const { return q_; }  ///< rows q_i
  const AttentionMoments& moments() const { return moments_; }
  double tau() const { return tau_; }
  /// Number p = d e + 2 d k of parameters.
  Index size() const { return weights_.size(); }
  /// Position in theta at which a weight begins.
  Index begin(Weight part) const;
  /// Number of entries of a weight.
  Index size(Weight part) const;
  /// Values F, L x e.
  Matrix values() const { return moments_.first() * weights_.value; }

  /// Jacobian d f_i / d theta, e x p. O(e p).
  Matrix jacobian(Index row) const;
  /// Adds g . d2 f_i to the upper blocks of the diagonal block of `h` that begins at `offset`. O(p^2).
  void add_curvature(Index row, const Vector& g, Index offset, Matrix& h) const;

  /// Rows J_i theta_dot, L x e. O(L^2 d + L d (k + e)), no p x p or d x d matrix.
  Matrix tangent(const Vector& direction) const;
  /// Vector sum_i J_i^T b_i of length p for rows b_i (L x e), at the cost of `tangent`.
  Vector adjoint(const Matrix& b) const;
  /// Vector (sum_i g_i . d2 f_i) theta_dot of length p for rows g_i (L x e), at the cost of `tangent`.
  Vector curvature_times(const Matrix& g, const Vector& direction) const;

 private:
  Matrix key_tangent(const DecoderAttentionWeights& direction) const;

  Matrix x_;
  DecoderAttentionWeights weights_;
  double tau_;
  Matrix q_;
  AttentionMoments moments_;
};

}  // namespace fluxformer::decoder
