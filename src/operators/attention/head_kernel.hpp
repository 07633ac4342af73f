#pragma once

// Attention of one head of one sample between the queries x of this rank and a block of keys and values y,
// perhaps from another rank.
//
//   logit(x, y) = scale * a_x . b_y + beta_y                      P(x, y) = exp(logit + offset_x)
//
// With a = q, b = k this is a row of attention: beta_y = log w_y (- |k_y|^2 / 2 for l2, + g_y for sinkhorn),
// offset_x = -log sum_y exp(logit). With q and k exchanged it is a column: the keys stay on their rank, and
// queries without values come by. Keys that a query may not see get the weight 0 exactly and do not change
// its result, not even by round-off. A query that sees no key at all has sums of 0.
//
// Linear attention has neither exponentials nor offsets, and beta_y = w_y:
//
//   P(x, y) = beta_y scale a_x . b_y             D(x, y) = beta_y is its derivative by the logit (else D = P)
//
// Tiles of queries meet runs of keys: their logits, and everything that follows from them, are small matrices
// [key][query] that stay in the cache, so that all work is products of matrices and passes over these. A
// vector register holds a key's numbers for neighbouring queries: maxima and sums over keys need no sums over
// lanes.

#include <algorithm>

#include "base/index.hpp"
#include "operators/attention/reach.hpp"
#include "operators/kernels/product.hpp"
#include "operators/kernels/scratch.hpp"
#include "operators/kernels/simd.hpp"

namespace fluxformer {

/// The properties that all heads of an attention have in common.
template <class T>
struct HeadShape {
  Index channels = 1;  ///< d_h
  T scale = 1;         ///< 1/sqrt(d_h) for dot, 1 for l2
  bool linear = false;
};

/// The queries of one head of one sample, channel by channel: channel c of token x is a[c * stride + x]. Such
/// arrays may be read (not written) up to one vector past their end.
template <class T>
struct QueryBlock {
  const T* a = nullptr;
  Index stride = 0;
  Index count = 0;
  const int* index = nullptr;  ///< global indices, increasing
  Reach reach = {};
};

/// Keys and values of one head of one sample, token by token: channel c of token y is b[y * stride + c], its
/// value is v[y * stride + c].
template <class T>
struct KeyValueBlock {
  const T* b = nullptr;
  const T* v = nullptr;  ///< null: no values, only logits
  Index stride = 0;
  const T* beta = nullptr;
  Index count = 0;             ///< real tokens; padding comes after them
  const int* index = nullptr;  ///< global indices, increasing
};

/// Running sums over the keys seen so far; `mix` is laid out as QueryBlock::a.
///   sum = sum_y exp(logit - top)       mix = sum_y exp(logit - top) v_y
/// Linear: mix = sum_y P v_y, as if with top = 0 and sum = 1.
template <class T>
struct RunningMix {
  T* top;
  T* sum;
  T* mix;
};

/// Adjoints of a KeyValueBlock, laid out like it; `beta` is null where it does not vary.
template <class T>
struct KeyValueAdjoint {
  T* b;
  T* v;
  T* beta;
};

/// The part of the queries in the tangent of an adjoint: a', mix_bar and mix_bar' by channel, and one number
/// per query for the rest. The normalisation subtracts `slope` = sum_y P u from the logits' variation u.
/// Linear attention does not normalise: its slope, centre and centre_dot are 0.
template <class T>
struct QueryTangent {
  const T *a_dot, *mix_bar, *mix_bar_dot;
  const T *offset, *slope, *centre, *centre_dot;
};

/// The passes over one head, with the memory that they share. Not thread-safe.
template <class T>
class HeadKernel {
 public:
  /// Allocates nothing yet.
  explicit HeadKernel(const HeadShape<T>& shape) : shape_(shape) {}

  /// Adds the keys to the sums (`fresh`: sets the sums to those of the keys).
  void stream(const QueryBlock<T>& queries, const KeyValueBlock<T>& keys, bool fresh,
              const RunningMix<T>& out);

  /// k[x * row + index_y] = P(x, y).
  void write_plan(const QueryBlock<T>& queries, const KeyValueBlock<T>& keys, const T* offset, double* k,
                  Index row);

  /// The tangent of a pass whose offsets are known:   u = d logit = scale (da_x . b_y + a_x . db_y) + dbeta_y
  ///   slope += sum_y D u       mixed += sum_y D u v_y + P dv_y   (only if the keys have values)
  /// `keys_dot` holds db, dv, dbeta; `a_dot` da. Linear: `slope` is left alone, as no row is normalised.
  void tangent(const QueryBlock<T>& queries, const T* a_dot, const KeyValueBlock<T>& keys,
               const KeyValueBlock<T>& keys_dot, const T* offset, T* slope, T* mixed);

  /// The adjoint of the same pass:   s = D (mix_bar_x . v_y - centre_x)     (values absent: s = -P centre_x)
  ///   a_bar_x += scale sum_y s b_y    b_bar_y += scale sum_x s a_x    v_bar_y += sum_x P mix_bar_x
  ///   beta_bar_y += sum_x s, if not null
  /// The normalisation subtracts `centre_x` from the gradient of a row (linear: 0).
  void adjoint(const QueryBlock<T>& queries, const T* mix_bar, const KeyValueBlock<T>& keys, const T* offset,
               const T* centre, T* a_bar, const KeyValueAdjoint<T>& keys_bar);

  /// The tangent of the adjoint along da, db, dv, dmix_bar (keys with values; beta does not vary):
  ///   u = scale (da_x . b_y + a_x . db_y)                  P' = D (u - slope_x)
  ///   s' = D' (mix_bar_x . v_y - centre_x) + D (mix_bar'_x . v_y + mix_bar_x . v'_y - centre'_x)
  ///   a_bar' += scale sum_y s' b + s b'              b_bar' += scale sum_x s' a + s a'
  ///   v_bar' += sum_x P' mix_bar + P mix_bar'
  void adjoint_tangent(const QueryBlock<T>& queries, const QueryTangent<T>& queries_dot,
                       const KeyValueBlock<T>& keys, const KeyValueBlock<T>& keys_dot, T* a_bar_dot,
                       const KeyValueAdjoint<T>& keys_bar_dot);

 private:
  /// Queries first .. first + tokens - 1, and keys begin .. end - 1. `lanes`: tokens, rounded up to whole
  /// registers: the stride of the small matrices.
  struct Block {
    Index first, tokens, lanes;
    Index begin, end;
    Index keys() const { return end - begin; }
  };
  static constexpr Index most_keys = 128, most_tokens = 128, most_windowed = 32;

  /// Makes room for `matrices` of most_keys x most_tokens, and `tiles` of most_tokens x channels.
  void reserve(Index matrices, Index tiles);
  T* take_matrix() { return scratch_.take(most_keys * most_tokens); }
  T* take_tile() { return scratch_.take(most_tokens * shape_.channels); }

  /// f(block) for every tile of queries and run of keys, from the first key that a query of the tile may see
  /// to the last one; before each tile start(block) with all these keys, of which there may be none.
  template <class Start, class F>
  void for_blocks(const QueryBlock<T>& queries, const KeyValueBlock<T>& keys, Start&& start, F&& f) const;
  /// The queries first .. first + tokens - 1, and the keys from the first to the last that one of them sees.
  static Block visible(const QueryBlock<T>& queries, const KeyValueBlock<T>& keys, Index first, Index tokens);
  /// f(lane, key) for the pairs of the block that are not visible, counted from its first ones.
  template <class F>
  static void for_hidden(const QueryBlock<T>& queries, const KeyValueBlock<T>& keys, const Block& at, F&& f);

  /// m[y][x] = (or +=) sum_c of_keys[y][c] of_queries[c][x].
  void dots(const Block& at, Index key_stride, const T* of_keys, Index query_stride, const T* of_queries,
            InsertMode into, T* m);
  /// to[c][x] = (or +=) sum_y of_keys[y][c] m[y][x].
  void mix(const Block& at, Index key_stride, const T* of_keys, const T* m, Index query_stride,
           InsertMode into, T* to);
  /// to[y][c] += sum_x m[y][x] tile[x][c].
  void spread(const Block& at, const T* m, const T* tile, Index key_stride, T* to);
  /// tile[x][c] = of_queries[c][first + x], if the block has keys.
  void transpose_tile(const T* of_queries, Index query_stride, const Block& at, T* tile) const;
  /// p := P, where hidden pairs are 0. Returns its derivative by the logit: p itself, or for linear attention
  /// `d`.
  const T* plan(const QueryBlock<T>& queries, const KeyValueBlock<T>& keys, const T* offset, const Block& at,
                T* p, T* d);
  void linear_plan(const QueryBlock<T>& queries, const KeyValueBlock<T>& keys, const Block& at, T* p, T* d);

  HeadShape<T> shape_;
  Scratch<T> scratch_;
  Product<T> dots_, mix_, spread_;
};

extern template class HeadKernel<float>;
extern template class HeadKernel<double>;

}  // namespace fluxformer
