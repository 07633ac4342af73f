#pragma once

// Non-local self-attention over the tokens of one depth cell.
//
//   A[u](x) = sum_i W_O,i sum_y k_i(x, y) v_g(y) + b_O       heads i = 0 .. H - 1, which read the groups of
//                                                            keys and values g = floor(i G / H)
//   q = R_x N_q(W_Q N(u) + b_Q)      of each head            c channels of a head, often d / H
//   k = R_y N_k(W_K N(u) + b_K)      of each group
//   v = W_V N(u) + b_V
//
//   dot (default)   logit(x, y) = q_x . k_y / sqrt(c)
//   l2              logit(x, y) = -|q_x - k_y|^2 / 2
//   softmax         k(x, y) = w_y exp(logit) / sum_y' w_y' exp(logit')    rows sum to 1
//   sinkhorn        alternating half-steps in the log domain: odd ones normalise rows, even ones columns;
//                   a single half-step is softmax
//   linear          k(x, y) = w_y logit    no soft-max: of any sign, rows do not sum to 1 (dot only)
//
// w_y: quadrature weight; 0 where y is padding or, with a causal mask, comes after x. A window W of the layer
// (AttentionWeights::window, 0: none) hides more, exactly: a causal x sees y <= x with x - y < W, itself
// included, another one |x - y| <= W, by global index. A row that then sees no token (padding far behind the
// last real one) is 0. N is LayerNorm or RMSNorm for norm = pre and the identity otherwise, or in a layer
// without its gain. N_q and N_k (qk_norm) are RMSNorms over the channels of a head, R_x are rotary positions
// (operators/attention/rotary.hpp); without them they are the identity. Biases may be absent. If the tokens
// are spread over ranks, blocks of 2 G c numbers a token travel around a ring; sums use a running maximum, and
// no n x n matrix is formed. Cost per slab and rank: 4 r d (H + G) c + 4 n r H c flops for r local rows of a
// line of n tokens, where n W - W (W - 1) / 2 pairs of a causal window and n (2 W + 1) - W (W + 1) of another
// one take the place of n^2; memory O(r d). Sources: Vaswani et al. 2017 (dot), docs/model.md source E (l2,
// sinkhorn), Milakov and Gimelshein 2018 (running maximum), Ainslie et al. 2023 (groups), Henry et al. 2020
// (qk_norm), Beltagy et al. 2020 (windows).

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "base/index.hpp"
#include "operators/attention/rotary.hpp"
#include "operators/kernels/linear_map.hpp"
#include "operators/slab_term.hpp"

namespace fluxformer {

/// The logit of a query and a key: q . k / sqrt(c), or -|q - k|^2 / 2.
enum class Kernel { dot, l2 };
/// The weights k(x, y) made from the logits.
enum class Normalisation { softmax, sinkhorn, linear };

/// The keys attention.*.
struct AttentionSettings {
  int heads = 1;         ///< H
  int groups = 0;        ///< G, groups of keys and values, divides H; 0: one for each head
  int head_width = 0;    ///< c, channels of a head; 0: width / H
  bool qk_norm = false;  ///< RMSNorm of each head's queries and keys
  Rotary rotary = {};
  Kernel kernel = Kernel::dot;
  Normalisation normalisation = Normalisation::softmax;
  int sinkhorn_iterations = 1;  ///< >= 1
  bool layer_norm = true;       ///< there is a norm N; false: the identity

  /// G
  int key_groups() const { return groups > 0 ? groups : heads; }
  /// c, in a model of this width.
  int channels(int width) const { return head_width > 0 ? head_width : width / heads; }
};

/// The slab term alpha A[u] in the arithmetic T. Collective over the token line.
template <class T>
class Attention final : public SlabTerm<T> {
 public:
  /// Throws BadInput if the heads do not divide the width (unless the width of heads is given) or the groups
  /// the heads, if rotary positions turn no even number of a head's channels, if sinkhorn is combined with a
  /// causal mask or linear with the kernel l2, if a sample has no real token, or if a weight is not positive.
  /// `context` is borrowed; the lengths of its mask are read at each call and may change between calls (new
  /// lengths are not checked again). `operands` are those of the linear maps.
  Attention(const SlabContext& context, const AttentionSettings& settings,
            Operands operands = Operands::exact);
  ~Attention() override;

  /// A tape of first order keeps N(u), queries, keys, values, sums over values and potentials: about
  /// d + 2 (H + G) c numbers of type T per row (sinkhorn and qk_norm: (H + G) c more each), nothing of size n.
  /// One of second order also keeps as many of the adjoint (and a matrix of the size of W_O) and of the
  /// tangent; throws BadInput but for kernel dot with softmax or linear.
  std::unique_ptr<TermTape> make_tape(Order upto) const override;
  void apply(const LayerWeights<const T>& theta, const double* u, Sum out, TermTape* tape) override;
  void push(const LayerWeights<const T>& theta, const LayerWeights<const T>* theta_dot, Point at, Sum out,
            TermTape* tape) override;
  void pull(const LayerWeights<const T>& theta, const double* u, const double* w, Sum u_bar,
            const LayerWeights<double>* gradient, TermTape* tape) override;
  void pull_along(const LayerWeights<const T>& theta, const LayerWeights<const T>& theta_dot, Point at,
                  Cotangent w, Sum u_bar_dot, const LayerWeights<double>& gradient_dot,
                  TermTape* tape) override;

  /// The kernel k itself, for output only: [sample][head][local query][global key], key by global index.
  /// Collective over the token line. The caller provides the memory, samples * heads * local tokens * n.
  void matrix(const LayerWeights<const T>& weights, const double* u, double* k);

  /// Queries, keys and values as they meet in the kernel (keys and queries normed and turned), for analyses:
  /// [sample][local token], then [head][channel] or for keys and values [group][channel].
  void projections(const LayerWeights<const T>& weights, const double* u, double* q, double* k, double* v);

  /// Work space on this rank, in bytes: O(local rows * width), independent of the length of the line. Asked
  /// for by tests.
  std::size_t work_bytes() const;

 private:
  struct Work;
  /// Counts flops, `passes` times those of the forward pass: four products with matrices and two with the
  /// kernel, 4 d (H + G) c per row and 4 H c per visible token (sinkhorn: 2 H c more for each further
  /// half-step).
  void count(int passes, const AttentionWeights<const T>& theta) const;
  /// body() for every chunk, whose forward pass is that of the tape, or (null) computed again.
  template <class Body>
  void over_known_chunks(const AttentionWeights<const T>& theta, const double* u, TermTape* tape,
                         Body&& body);
  const SlabContext& context_;
  AttentionSettings settings_;
  std::unique_ptr<Work> work_;
};

extern template class Attention<float>;
extern template class Attention<double>;

}  // namespace fluxformer
