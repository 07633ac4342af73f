#pragma once

// Attention for a few samples at a time. Internal to the operator.
//
// The layout of attention's buffers.
//
// Rows of a chunk are [sample][token]. Two layouts: "lanes" [channel][row] (or [head][row], one number per
// head) with row stride `ld`, which leaves room for a vector load past the last row; and "items", which
// travel around the ring: a matrix [row][columns] followed by beta [head][row].

#include <algorithm>
#include <cstddef>
#include <vector>

#include "base/index.hpp"
#include "operators/attention/attention.hpp"
#include "operators/attention/head_kernel.hpp"
#include "operators/attention/token_ring.hpp"
#include "operators/kernels/linear_map.hpp"
#include "operators/kernels/matrix_product.hpp"

namespace fluxformer {

/// y := a b_dot + a_dot b, the variation of a product.
template <class Y, class A, class B>
void set_product_rule(Y&& y, const A& a, const A& a_dot, const B& b, const B& b_dot) {
  set_product(y, a, b_dot);
  set_product(y, a_dot, b, InsertMode::add);
}

/// Summed in double.
template <class S, class T>
double inner_product(const S* x, const T* y, std::size_t count) {
  double total = 0;
  for (std::size_t i = 0; i < count; ++i) total += static_cast<double>(x[i]) * static_cast<double>(y[i]);
  return total;
}

/// The side that stays on its rank: queries (rows of the kernel; keys and values travel) or keys (columns;
/// queries travel).
enum class Side { rows, columns };

/// The position of one head of one sample: in lanes buffers, and in the travelling block.
struct Place {
  std::size_t sample, head;
  std::size_t lane, lane_number;  ///< of its first token in [channel][row] and [head][row]
  std::size_t item, item_beta;    ///< of its first item in the block
  std::size_t block;              ///< numbers in the block
  bool fresh;                     ///< the first block of a tour
};

/// numbers -> bytes of memory held
template <class... V>
std::size_t bytes_of(const V&... vectors) {
  return (std::size_t{0} + ... + (vectors.capacity() * sizeof(typename V::value_type)));
}

/// Results of the forward pass of a chunk that the adjoint needs.
template <class T>
struct AttentionForward {
  std::vector<T> x;                       ///< N(u), [row][width]
  std::vector<T> q, mix;                  ///< lanes: queries, sum_y k(x, y) v(y)
  std::vector<T> kv;                      ///< items: keys | values
  std::vector<T> k, q_items;              ///< sinkhorn: keys as lanes, queries as items
  std::vector<T> half_norm;               ///< l2: |k|^2 / 2, [head][row]
  std::vector<std::vector<T>> potential;  ///< after each half-step: f, g, f, ... [head][row]

  /// Memory held, potentials included.
  std::size_t bytes() const {
    std::size_t total = bytes_of(x, q, mix, kv, k, q_items, half_norm);
    for (const auto& one : potential) total += bytes_of(one);
    return total;
  }
};

/// What the right-hand side, its derivatives and the output of the kernel share. Chunks fit in the cache.
template <class T>
struct AttentionChunk : AttentionForward<T> {
  using Forward = AttentionForward<T>;  ///< what an adjoint needs
  using Forward::x, Forward::q, Forward::mix, Forward::kv, Forward::k, Forward::q_items, Forward::half_norm,
      Forward::potential;
  /// Throws as Attention; the context is borrowed.
  AttentionChunk(const SlabContext& borrowed, const AttentionSettings& attention_settings, Operands operands);

  const SlabContext& context;
  const AttentionSettings settings;
  int half_steps;  ///< of the normalisation: 1 for softmax
  HeadShape<T> shape;
  HeadKernel<T> kernel;
  std::size_t width, heads, tokens, ld;
  TokenRing<T> ring;

  LinearMap<T> w_q, w_kv, w_o;
  std::vector<T> projected;    ///< the output, or queries before they are turned, [row][width]
  std::vector<T> top, sum;     ///< running sums, [head][row]
  std::vector<T> weight_term;  ///< beta of this rank's tokens, without potentials: log w; linear: w

  Forward make_forward() const;  ///< room for the path of any chunk
  std::size_t chunks() const { return static_cast<std::size_t>((context.samples + most_ - 1) / most_); }

  /// Calls body() for each chunk in turn, the same on every rank; all members below refer to the current one.
  template <class Body>
  void for_chunks(Body&& body) {
    for (first_ = 0; first_ < context.samples; first_ += samples_) {
      samples_ = std::min(most_, context.samples - first_);
      body();
    }
  }
  /// The number of the chunk, 0 ..
  std::size_t number() const { return static_cast<std::size_t>(first_ / most_); }
  /// The sample of the slab that a place belongs to.
  std::size_t sample(const Place& at) const { return static_cast<std::size_t>(first_) + at.sample; }
  std::size_t rows() const { return static_cast<std::size_t>(samples_) * tokens; }
  std::size_t columns(Side side) const { return side == Side::rows ? 2 * width : width; }
  std::size_t per_token(Side side) const {
    return static_cast<std::size_t>(samples_) * (columns(side) + heads);
  }
  std::vector<T>& items(Side side) { return side == Side::rows ? kv : q_items; }
  const std::vector<T>& home(Side side) const { return side == Side::rows ? q : k; }

  /// f(first number in the slab, first number in the chunk) for every sample, whose tokens are row() and `width` apart.
  template <class F>
  void for_samples(F&& f) const {
    for (std::size_t s = 0; s < static_cast<std::size_t>(samples_); ++s)
      f((static_cast<std::size_t>(first_) + s) * width, s * tokens * width);
  }
  /// y := the chunk's rows of a slab, rounded to T; y := N(u).
  void gather(const double* slab, double scale, T* y) const;
  void normalise(const AttentionWeights<const T>& weights, const double* u, T* y) const;
  /// The chunk's rows of a slab: out = base + scale * (rows + bias), where bias [width] may be null and `base` may be `out`.
  void scatter(const T* rows, const T* bias, double scale, const double* base, double* out) const;
  /// Before the first chunk of a call; then queries, keys and values of each chunk.
  void set_maps(const AttentionWeights<const T>& weights);
  void project(const AttentionWeights<const T>& weights, const double* u);
  /// out[head][row] := factor * k_row . (that row of `other`, laid out as kv).
  void key_products(const std::vector<T>& other, T factor, std::vector<T>& out) const;
  /// Computes `mix` and, if `keep`, the potentials of all half-steps. Collective over the line.
  void solve(bool keep);
  /// out = base + scale * (W_O lanes + b_o), where b_o may be null and `base` may be `out`.
  void set_output(const T* b_o, const std::vector<T>& lanes, double scale, const double* base, double* out);
  /// Beta of the items := their weight_term, -|k|^2/2 of travelling keys, and the potential of the other side, if any.
  void set_beta(Side side, const std::vector<T>* other);
  /// What is added to the logits of half-step `step` to give log P: its potential, less the |k|^2/2 that
  /// column potentials include for l2.
  std::vector<T> plan_offset(int step) const;
  /// The half-step whose potential normalises the final rows.
  int final_row_step() const { return half_steps % 2 == 1 ? half_steps - 1 : half_steps - 2; }

  /// f(home, items, place) for every sample and head of one block.
  template <class F>
  void for_places(Side side, bool values, int rank, const T* block, F&& f) {
    const auto theirs = static_cast<std::size_t>(context.line->block(rank).count());
    const std::size_t stride = columns(side);
    const std::size_t their_rows = theirs * static_cast<std::size_t>(samples_);
    const auto dh = static_cast<std::size_t>(shape.channels);
    const std::vector<int>& index = indices_of(rank);
    for (std::size_t s = 0; s < static_cast<std::size_t>(samples_); ++s) {
      const int real = real_items(index, s);
      for (std::size_t h = 0; h < heads; ++h) {
        const Place at = {.sample = s,
                          .head = h,
                          .lane = h * dh * ld + s * tokens,
                          .lane_number = h * ld + s * tokens,
                          .item = s * theirs * stride + h * dh,
                          .item_beta = their_rows * stride + h * their_rows + s * theirs,
                          .block = their_rows * (stride + heads),
                          .fresh = rank == context.line->rank()};
        const T* const b = block + at.item;
        f(Home<T>{home(side).data() + at.lane, ld, static_cast<int>(tokens), my_index_.data()},
          Items<T>{b, values ? b + width : nullptr, stride, block + at.item_beta, real, index.data()}, at);
        ring.progress();
      }
    }
  }
  std::size_t bytes() const;  ///< of all work space

 private:
  const std::vector<int>& indices_of(int rank);
  int real_items(const std::vector<int>& index, std::size_t sample) const;

  int most_, first_ = 0, samples_ = 0;       // samples at a time; those of the current chunk
  std::vector<int> my_index_, their_index_;  // global indices
  int whose_index_ = -1;
};

extern template struct AttentionChunk<float>;
extern template struct AttentionChunk<double>;

}  // namespace fluxformer
