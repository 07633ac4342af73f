#pragma once

// The cumulants of the tokens under the attention of one row: all that the Hessian of an attention layer takes
// from attention. With T_ij = u_i . x_j and the keys j that row i sees,
//
//   softmax   m_i = sum_j A_ij x_j                                                 first moment
//             C_i = sum_j A_ij (x_j - m_i)(x_j - m_i)^T                            second central moment
//             S_i(h) = sum_j A_ij [(x_j - m_i) . h] (x_j - m_i)(x_j - m_i)^T       third one, contracted
//   linear    m_i = C_i u_i,  C_i = sum_j x_j x_j^T,  S_i(h) = 0
//
// They are derivatives of one another: dm_i = C_i du_i,  d2m_i = S_i(du_i) du_i + C_i d2u_i.
// Source: Ormaniec, Dangel, Singh, arXiv 2410.10986, in the notation of cumulants.

#include <Eigen/Core>

namespace fluxformer::decoder {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;  ///< by rows
using Vector = Eigen::VectorXd;                                                         ///< a column
using Eigen::Index;

enum class Scores { softmax, linear };  ///< A = softmax of the rows of T, or A = T
enum class Mask { none, causal };       ///< a row sees all keys, or those up to itself; A_ij = 0 elsewhere

/// Soft-max of each row over the keys that it sees; zero elsewhere.
Matrix softmax_rows(const Matrix& scores, Mask mask);

/// Of one sequence: L tokens of width d. Not collective.
class AttentionMoments {
 public:
  /// `x`, `u`: L x d, rows x_j and u_i. O(L^2 d).
  AttentionMoments(const Matrix& x, const Matrix& u, Scores scores, Mask mask);

  /// Rows m_i, L x d.
  const Matrix& first() const { return first_; }
  /// C_i, d x d. O(L d^2).
  Matrix second(Index row) const;
  /// S_i(h), d x d. O(L d^2).
  Matrix third(Index row, const Vector& h) const;
  /// Rows C_i y_i, for rows y_i (L x d). O(L^2 d), no d x d matrix.
  Matrix second_times(const Matrix& y) const;
  /// Rows S_i(h_i) y_i, for rows h_i, y_i (L x d). O(L^2 d).
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

// The map theta = [vec W_V; vec W_Q; vec W_K] -> F = A X W_V of one attention layer at one theta, one sequence:
//
//   P = tau W_Q W_K^T,  T = X P X^T,  A = softmax(T) or T,  F = A X W_V        (L x e)
//
// its Jacobian and its second derivative contracted with a vector per row. Vectorisation is by rows. With the
// moments m, C, S of attention_moments.hpp and R_i = W_V^T C_i, q_i = W_Q^T x_i, h_i = W_V g_i, v_i = C_i h_i,
//
//   d f_i        J_V = m_i^T (x) I_e      J_Q = tau x_i^T (x) (R_i W_K)      J_K = tau R_i (x) q_i^T
//   g_i . d2 f_i
//     VV 0       VQ  [(a,b),(a',r)] = tau g_ib (C_i W_K)[a,r] x_ia'       VK  [(a,b),(c,r)] = tau g_ib C_i[a,c] q_ir
//                QQ  tau^2 (x_i x_i^T) (x) (W_K^T S_i(h_i) W_K)           KK  tau^2 S_i(h_i) (x) (q_i q_i^T)
//                QK  [(a,r),(c,s)] = tau^2 x_ia (W_K^T S_i(h_i))[r,c] q_is + tau x_ia v_ic delta_rs
//
// The layer with a single matrix W, T = tau X W X^T, is this one with W_Q = W and W_K = I, its parameters V and Q.
// Biases: a constant column of ones in X, their values as the last rows of the weights.
// Source: arXiv 2410.10986, in the notation of cumulants.

/// W_V (d x e), W_Q and W_K (d x k); also a direction in their space.
struct DecoderAttentionWeights {
  Matrix value, query, key;

  Index size() const { return value.size() + query.size() + key.size(); }
};

/// [vec value; vec query; vec key], by rows, and back to matrices of the shapes of `like`.
Vector flattened(const DecoderAttentionWeights& weights);
DecoderAttentionWeights unflattened(const Vector& theta, const DecoderAttentionWeights& like);

/// The parts of theta.
enum class Weight { value, query, key };

/// What the layer does with its scores. `tau`: 1/sqrt(k) in a Transformer.
struct AttentionForm {
  Scores scores = Scores::softmax;
  Mask mask = Mask::none;
  double tau = 1;
};

/// Of one sequence; sums over sequences are the caller's. Not collective.
class AttentionMap {
 public:
  /// `x`: L x d.
  AttentionMap(Matrix x, DecoderAttentionWeights weights, const AttentionForm& form);

  const Matrix& tokens() const { return x_; }
  const DecoderAttentionWeights& weights() const { return weights_; }
  const Matrix& queries() const { return q_; }  ///< rows q_i
  const AttentionMoments& moments() const { return moments_; }
  double tau() const { return tau_; }
  /// p = d e + 2 d k, and where a part begins in theta and how many numbers it has.
  Index size() const { return weights_.size(); }
  Index begin(Weight part) const;
  Index size(Weight part) const;
  /// F, L x e.
  Matrix values() const { return moments_.first() * weights_.value; }

  /// d f_i / d theta, e x p. O(e p).
  Matrix jacobian(Index row) const;
  /// Adds g . d2 f_i to the upper blocks of the diagonal block of `h` that begins at `offset`. O(p^2).
  void add_curvature(Index row, const Vector& g, Index offset, Matrix& h) const;

  /// Rows J_i theta_dot, L x e. Here and below O(L^2 d + L d (k + e)), no p x p or d x d matrix.
  Matrix tangent(const Vector& direction) const;
  /// sum_i J_i^T b_i for rows b_i (L x e), of length p.
  Vector adjoint(const Matrix& b) const;
  /// (sum_i g_i . d2 f_i) theta_dot for rows g_i (L x e), of length p.
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
