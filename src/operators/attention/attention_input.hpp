#pragma once

// From the state to queries, keys and values, for the current chunk of an attention. Internal to the operator.
//
//   x = N(u)                         where the layer has a norm, else u
//   q = R N_q(W_Q x + b_Q)           of each head; N_q with qk_norm, else the identity; R: rotary positions
//   k = R N_k(W_K x + b_K)           of each group
//   v = W_V x + b_V                  of each group; biases may be absent
//
// N_q and N_k are RMSNorms over the channels of a head, with gains [c] that all heads of a layer share.
//
// A ' is a variation along a direction of the weights, of u and of w; a _bar is an adjoint.
//
//   tangent               q' = R (N_q(y))',   y' = W_Q x' + W_Q' x + b_Q'
//   adjoint               y_bar = N_q^T R^T q_bar,   x_bar = W_Q^T y_bar + ...,   W_Q_bar = sum y_bar x^T,
//                         b_Q_bar = sum y_bar
//   tangent of adjoint    y_bar' = (N_q^T R^T q_bar)'      x_bar' = W_Q^T y_bar' + W_Q'^T y_bar + ...
//                         W_Q_bar' = sum y_bar' x^T + y_bar x'^T
//
// Keys and values likewise. Costs: 4 r d (H + 2 G) c flops for r rows of width d, for the value and for each
// product with one of these matrices.

#include <cstddef>
#include <vector>

#include "operators/attention/attention_chunk.hpp"
#include "operators/attention/rotary.hpp"
#include "operators/kernels/linear_map.hpp"
#include "operators/slab_term.hpp"

namespace fluxformer {

/// The map u -> (q, k, v) and its derivatives, of one chunk at a time.
template <class T>
class AttentionInput {
 public:
  /// The chunk is borrowed, and all calls are about the samples that it currently holds.
  AttentionInput(AttentionChunk<T>& chunk, Operands operands);

  /// Sets weights and angles, before the first chunk of a call.
  void set(const AttentionWeights<const T>& theta);
  /// Computes x, q and kv of the chunk.
  void apply(const AttentionWeights<const T>& theta, const double* u);
  /// Computes x', q' and kv'. Without theta_dot (null) the weights do not vary.
  void push(const AttentionWeights<const T>& theta, const AttentionWeights<const T>* theta_dot, Point at,
            AttentionTangent<T>& dot);
  /// From q_bar and kv_bar (then replaced by those of y) to u_bar; adds to the gradients, if not null.
  void pull(const AttentionWeights<const T>& theta, const double* u, AttentionAdjointWork<T>& bar, Sum u_bar,
            const AttentionWeights<double>* to);
  /// From q_bar' and kv_bar' (then replaced by those of y) to u_bar' and the tangents of the gradients; `dot`
  /// and `bar` as push and pull left them.
  void pull_along(const AttentionWeights<const T>& theta, const AttentionWeights<const T>& theta_dot,
                  Point at, const AttentionTangent<T>& dot, const AttentionAdjoint<T>& bar,
                  AttentionAdjointWork<T>& bar_dot, Sum u_bar_dot, const AttentionWeights<double>& to);

  /// Memory held, in bytes.
  std::size_t bytes() const;

 private:
  /// True if the layer has the norm N.
  bool has_norm(const AttentionWeights<const T>& theta) const {
    return chunk_.settings.layer_norm && theta.gain != nullptr;
  }
  /// True if heads are normed or turned, and R and N are not both the identity.
  bool changes_heads() const { return chunk_.settings.qk_norm || !turn_.is_identity(); }

  /// f(rows, heads) for the queries in lanes, and for the keys of a block, as rows [row][head][channel] that f
  /// changes.
  template <class F>
  void on_queries(std::vector<T>& lanes, F&& f);
  template <class F>
  void on_keys(std::vector<T>& kv, F&& f);

  /// y := R N(y), where y are all heads of the queries or of the keys; keeps them in `raw` if they are normed.
  void apply_heads(const T* gain, Index heads, T* y, std::vector<T>& raw);
  /// y' := (R N(y))'; gain_dot may be null.
  void push_heads(const T* gain, const T* gain_dot, Index heads, const std::vector<T>& raw, T* y_dot,
                  std::vector<T>& raw_dot);
  /// y_bar := N^T R^T y_bar; keeps R^T y_bar in `normed` if heads are normed.
  void pull_heads(const T* gain, Index heads, const std::vector<T>& raw, T* y_bar, std::vector<T>& normed,
                  double* gain_bar);
  /// y_bar' := (N^T R^T y_bar)'
  void pull_heads_along(const T* gain, const T* gain_dot, Index heads, const std::vector<T>& raw,
                        const std::vector<T>& raw_dot, const std::vector<T>& normed_bar, T* y_bar_dot,
                        double* gain_bar_dot);
  /// b_Q_bar, b_K_bar and b_V_bar += sums over rows of lanes and block.
  void add_bias_gradients(const std::vector<T>& q_bar, const std::vector<T>& kv_bar, std::vector<T>& sums,
                          double* b_qkv_bar) const;

  AttentionChunk<T>& chunk_;
  LinearMap<T> w_q_, w_kv_;
  RotaryTurn<T> turn_;
  NormSettings head_norm_;
  std::vector<T> rows_;                    // heads, [row][head][channel]
  std::vector<double> x_, x_dot_, x_bar_;  // of the heads' norms, as these want them
};

extern template class AttentionInput<float>;
extern template class AttentionInput<double>;

}  // namespace fluxformer
