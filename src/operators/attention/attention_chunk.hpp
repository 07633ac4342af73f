#pragma once

// Attention for a few samples at a time, and the normalisation of its kernel. Internal to the operator.
//
// Rows of a chunk are [sample][token]. Buffers have two layouts. "Lanes" are [channel][row] (or [head][row],
// one number per head) with stride `ld`, which leaves room for a vector load past the last row. "Blocks"
// travel around the ring: a matrix [row][columns] followed by beta [head][row].
//
// Soft-max, or alternating half-steps in the log domain (Sinkhorn):
//
//   P(x, y) = exp(logit(x, y) + log w_y + g_y + f_x)
//   odd half-steps    f_x = -log sum_y w_y exp(logit + g_y)     rows of P sum to 1
//   even half-steps   g_y = -log sum_x w_x exp(logit + f_x)     columns sum to 1 with weights w_x
//
// x and y run over real tokens; f is computed for padded rows too, but they enter no column. Soft-max is the
// first half-step with values. Linear attention has one half-step with f = 0. Sources: Sander et al., arXiv
// 2110.11773, section 3.1; log domain as in Peyre and Cuturi, Computational Optimal Transport, section 4.4.

#include <algorithm>
#include <cstddef>
#include <vector>

#include "base/index.hpp"
#include "operators/attention/attention.hpp"
#include "operators/attention/head_kernel.hpp"
#include "operators/attention/token_ring.hpp"
#include "operators/kept_tokens.hpp"
#include "operators/kernels/linear_map.hpp"

namespace fluxformer {

/// The side that stays on its rank: queries (rows of the kernel; keys and values travel) or keys (columns;
/// queries travel).
enum class Side { rows, columns };

/// The position of one head of one sample: in lanes buffers, and in the travelling block. Where several heads
/// read one group of keys, their positions in a buffer of keys are equal.
struct HeadPosition {
  Index sample, head;
  Index lane, lane_number;  ///< first token in [channel][row] of what stays, and in [head][row]
  Index key, beta;          ///< first key that travels (or query), and first beta, in the block
  Index block;              ///< numbers in the block
  bool fresh;               ///< the first block of a tour
};

/// Memory held by vectors, in bytes.
template <class... V>
std::size_t bytes_of(const V&... vectors) {
  return (std::size_t{0} + ... + (vectors.capacity() * sizeof(typename V::value_type)));
}

/// Results of the forward pass of a chunk that the adjoint needs.
template <class T>
struct AttentionForward {
  std::vector<T> x;                       ///< N(u), [row][width]
  std::vector<T> raw_q, raw_k;            ///< qk_norm: what the heads' norms see, [row][head][channel]
  std::vector<T> q, mix;                  ///< lanes: queries, sum_y k(x, y) v(y)
  std::vector<T> kv;                      ///< block: keys | values of all groups
  std::vector<T> k, q_block;              ///< sinkhorn: keys as lanes, queries as a block
  std::vector<T> half_norm;               ///< l2: |k|^2 / 2, [head][row]
  std::vector<std::vector<T>> potential;  ///< after each half-step: f, g, f, ... [head][row]

  /// Memory held, potentials included, in bytes.
  std::size_t bytes() const {
    std::size_t total = bytes_of(x, raw_q, raw_k, q, mix, kv, k, q_block, half_norm);
    for (const auto& one : potential) total += bytes_of(one);
    return total;
  }
};

/// Results of the adjoint of a chunk that its tangent needs: the adjoints of lanes mix, of W_Q x + b_Q (lanes)
/// and of W_{K,V} x + b_{K,V} (block); mix_bar . mix, [head][row]; the adjoint of N(u), [row][width]; qk_norm:
/// those of the normed queries and keys, [row][head][channel].
template <class T>
struct AttentionAdjoint {
  std::vector<T> mix, q, kv, f, x, normed_q, normed_k;

  std::size_t bytes() const { return bytes_of(mix, q, kv, f, x, normed_q, normed_k); }
};

/// All adjoints of a chunk: also of lanes k, of q_block and of the potentials of columns; seeds
/// [row][width]; gradients of matrices and of vectors.
template <class T>
struct AttentionAdjointWork : AttentionAdjoint<T> {
  std::vector<T> k, q_block, g, none, seed, product, sums;

  /// Memory held, in bytes.
  std::size_t bytes() const {
    return AttentionAdjoint<T>::bytes() + bytes_of(k, q_block, g, none, seed, product, sums);
  }
};

/// Results of the tangent of a chunk that the tangent of the adjoint needs: variations of N(u), of raw_q and
/// raw_k, of lanes q and mix, and of kv; sum_y P u of the last half-step of rows, [head][row].
template <class T>
struct AttentionTangent {
  std::vector<T> x, raw_q, raw_k, q, kv, mix, slope;

  std::size_t bytes() const { return bytes_of(x, raw_q, raw_k, q, kv, mix, slope); }
};

/// All variations of a chunk: also of lanes k, of q_block, of |k|^2/2 and of the potentials of rows and
/// columns; and the travelling blocks with their variations.
template <class T>
struct AttentionTangentWork : AttentionTangent<T> {
  std::vector<T> k, q_block, half_norm, f, g, travelling;

  /// Memory held, in bytes.
  std::size_t bytes() const {
    return AttentionTangent<T>::bytes() + bytes_of(k, q_block, half_norm, f, g, travelling);
  }
};

/// A few samples that fit in the cache, with what the right-hand side, its derivatives and the output of the
/// kernel share.
template <class T>
struct AttentionChunk : AttentionForward<T> {
  using Forward = AttentionForward<T>;  ///< results that an adjoint needs
  using Forward::x, Forward::raw_q, Forward::raw_k, Forward::q, Forward::mix, Forward::kv, Forward::k,
      Forward::q_block, Forward::half_norm, Forward::potential;
  /// Throws as Attention; the context is borrowed.
  AttentionChunk(const SlabContext& borrowed, const AttentionSettings& attention_settings, Operands operands);

  const SlabContext& context;
  const AttentionSettings settings;
  int half_steps;  ///< half-steps of the normalisation: 1 for softmax
  HeadShape<T> shape;
  HeadKernel<T> kernel;
  Index width, heads, groups, tokens, ld;
  Index query_width, key_width;  ///< channels of all heads, and of all groups
  TokenRing<T> ring;
  Reach reach;                   ///< that of the current call
  KeptLayer<T>* kept = nullptr;  ///< keys of the tokens in front of the slab; null: none

  LinearMap<T> w_o;
  std::vector<T> projected;    ///< rows of the output, or of queries or mix that become lanes
  std::vector<T> top, sum;     ///< running sums, [head][row]
  std::vector<T> weight_term;  ///< beta of this rank's tokens, without potentials: log w; linear: w

  Forward make_forward() const;  ///< room for the results of any chunk
  Index chunks() const { return (context.samples + most_ - 1) / most_; }

  /// Calls body() for each chunk in turn, the same on every rank; all members below refer to the current one.
  template <class Body>
  void for_chunks(Body&& body) {
    for (first_ = 0; first_ < context.samples; first_ += samples_) {
      samples_ = std::min(most_, context.samples - first_);
      body();
    }
  }
  /// The number of the current chunk, 0 ..
  Index number() const { return first_ / most_; }
  /// The sample of the slab that a position belongs to.
  Index sample(const HeadPosition& at) const { return first_ + at.sample; }
  Index rows() const { return samples_ * tokens; }
  /// The group of keys and values that a head reads: floor(h G / H).
  Index group_of(Index head) const { return head * groups / heads; }
  /// Channels that travel for a side with each token: those of its keys and values, or of its queries.
  Index columns(Side side) const { return side == Side::rows ? 2 * key_width : query_width; }
  /// Numbers that travel for each token: these channels and beta, of all samples of the chunk.
  Index per_token(Side side) const { return samples_ * (columns(side) + heads); }
  std::vector<T>& travelling(Side side) { return side == Side::rows ? kv : q_block; }
  const std::vector<T>& stationary(Side side) const { return side == Side::rows ? q : k; }

  /// f(first number in the slab, first number in the chunk) for every sample, whose tokens are context.row()
  /// and `width` apart.
  template <class F>
  void for_samples(F&& f) const {
    for (Index s = 0; s < samples_; ++s) f((first_ + s) * width, s * tokens * width);
  }
  /// y := scale * the chunk's rows of a slab, rounded to T.
  void gather(const double* slab, double scale, T* y) const;
  /// out = base + scale * (rows + bias) for the chunk's rows of a slab, where bias [width] may be null and
  /// `base` may be `out`.
  void scatter(const T* rows, const T* bias, double scale, const double* base, double* out) const;
  /// Sets what a token sees, before the first chunk of a call. Throws BadInput for a window with sinkhorn.
  void set_window(int window);
  /// out[head][row] := factor * k_row . other_row, where `other` is laid out as kv.
  void key_products(const std::vector<T>& other, T factor, std::vector<T>& out) const;
  /// Computes `mix` from queries, keys and values and, if `keep`, the potentials of all half-steps. Collective
  /// over the line.
  void solve(bool keep);
  /// out = base + scale * (W_O lanes + b_o), where b_o may be null and `base` may be `out`.
  void set_output(const T* b_o, const std::vector<T>& lanes, double scale, const double* base, double* out);
  /// Beta of the block := the sum of its weight_term, of -|k|^2/2 (l2, if keys travel) and of the potential
  /// of the other side, if any.
  void set_beta(Side side, const std::vector<T>* other);
  /// The number of each row that is added to the logits of half-step `step` to give log P: its potential,
  /// less the |k|^2/2 that column potentials include for l2.
  std::vector<T> plan_offset(int step) const;
  /// The half-step whose potential normalises the final rows.
  int final_row_step() const { return half_steps % 2 == 1 ? half_steps - 1 : half_steps - 2; }

  /// f(queries, keys, position) for every sample and head of the block of a rank. If columns stay
  /// (Side::columns), keys take the place of queries and queries that of keys.
  template <class F>
  void for_heads(Side side, bool values, int rank, const T* block, F&& f) {
    const Index theirs = context.line->block(rank).count();
    const Index stride = columns(side), their_rows = theirs * samples_;
    const Index dh = shape.channels;
    const std::vector<int>& index = indices_of(rank);
    for (Index s = 0; s < samples_; ++s) {
      const Index real = real_tokens(index, s);
      for (Index h = 0; h < heads; ++h) {
        const Index stays = side == Side::rows ? h : group_of(h),
                    comes = side == Side::rows ? group_of(h) : h;
        const HeadPosition at = {.sample = s,
                                 .head = h,
                                 .lane = stays * dh * ld + s * tokens,
                                 .lane_number = h * ld + s * tokens,
                                 .key = s * theirs * stride + comes * dh,
                                 .beta = their_rows * stride + h * their_rows + s * theirs,
                                 .block = their_rows * (stride + heads),
                                 .fresh = rank == context.line->rank()};
        const T* const b = block + at.key;
        f(QueryBlock<T>{stationary(side).data() + at.lane, ld, tokens, my_index_.data(), reach},
          KeyValueBlock<T>{b, values ? b + key_width : nullptr, stride, block + at.beta, real, index.data()},
          at);
        ring.progress();
      }
    }
  }
  /// f(queries, keys, position) for every sample and head and the keys that are kept, none of which is fresh.
  template <class F>
  void for_kept_heads(F&& f) {
    const Index dh = shape.channels;
    for (Index s = 0; s < samples_; ++s)
      for (Index h = 0; h < heads; ++h) {
        const HeadPosition at = {.sample = s,
                                 .head = h,
                                 .lane = h * dh * ld + s * tokens,
                                 .lane_number = h * ld + s * tokens,
                                 .key = 0,
                                 .beta = 0,
                                 .block = 0,
                                 .fresh = false};
        const T* const b = kept->keys(first_ + s) + group_of(h) * dh;
        const T* const beta = settings.kernel == Kernel::l2 ? kept->beta(first_ + s, h) : kept_beta_.data();
        f(QueryBlock<T>{q.data() + at.lane, ld, tokens, my_index_.data(), reach},
          KeyValueBlock<T>{b, b + key_width, kept->per_token(), beta, std::ssize(kept->index()),
                           kept->index().data()},
          at);
      }
  }
  /// Takes over the indices of the tokens where the line is a stretch that moves, and the keys in front of them,
  /// before the first chunk of a call.
  void begin_stretch(int window);
  /// Adds the keys of the current chunk to those that are kept; end_stretch follows the last chunk.
  void keep_keys();
  void end_stretch() { kept->add_index(my_index_); }
  /// The global indices of a rank's tokens, increasing; valid until the next call for another rank.
  const std::vector<int>& indices_of(int rank);
  /// All work space, in bytes.
  std::size_t bytes() const;

 private:
  /// The number of tokens among `index` that are not padding.
  Index real_tokens(const std::vector<int>& index, Index sample) const;

  Index most_, first_ = 0, samples_ = 0;  // samples at a time; first sample and samples of the current chunk
  std::vector<int> my_index_,
      their_index_;  // global indices of this rank's tokens, and of those of whose_index_
  int whose_index_ = -1;
  std::vector<T> kept_beta_;  // log w, or w for linear attention, of the tokens that are kept
};

extern template struct AttentionChunk<float>;
extern template struct AttentionChunk<double>;

}  // namespace fluxformer
