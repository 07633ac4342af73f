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

}  // namespace fluxformer::decoder
