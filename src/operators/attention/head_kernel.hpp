#pragma once

// Attention of one head of one sample between home tokens (this rank's) and a block of items (perhaps from
// another rank).
//
//   logit(x, y) = scale * a_x . b_y + beta_y                      P(x, y) = exp(logit + offset_x)
//
// With a = q, b = k this is a row of attention: beta_y = log w_y (- |k_y|^2 / 2 for l2, + g_y for sinkhorn),
// offset_x = -log sum_y exp(logit). With q and k exchanged it is a column. Items that a token may not see get
// the weight 0 exactly and do not change its result, not even by round-off.
//
// Linear attention has neither exponentials nor offsets, and beta_y = w_y:
//
//   P(x, y) = beta_y scale a_x . b_y             D(x, y) = beta_y is its derivative by the logit (else D = P)
//
// Tiles of home tokens meet runs of items: their logits, and everything that follows from them, are small matrices [item][token]
// that stay in the cache, so that all work is products of matrices and passes over these. A vector register holds an item's numbers for
// neighbouring tokens: maxima and sums over items need no sums over lanes.

#include <algorithm>
#include <cstddef>

#include "operators/kernels/product.hpp"
#include "operators/kernels/scratch.hpp"
#include "operators/kernels/simd.hpp"

namespace fluxformer {

/// What all heads of an attention have in common.
template <class T>
struct HeadShape {
  int channels = 1;  ///< d_h
  T scale = 1;       ///< 1/sqrt(d_h) for dot, 1 for l2
  bool causal = false;
  bool linear = false;
};

/// Home tokens, channel by channel: channel c of token t is a[c * stride + t]. Their arrays may be read (not
/// written) up to one vector past their end.
template <class T>
struct Home {
  const T* a = nullptr;
  std::size_t stride = 0;
  int count = 0;
  const int* index = nullptr;  ///< global indices, increasing
};

/// Items, token by token: channel c of item y is b[y * stride + c], its value v[y * stride + c].
template <class T>
struct Items {
  const T* b = nullptr;
  const T* v = nullptr;  ///< null: no values, only logits
  std::size_t stride = 0;
  const T* beta = nullptr;
  int count = 0;  ///< real items; padding comes after them
  const int* index = nullptr;
};

/// Running sums over the items seen so far; `mix` is laid out as Home::a.
///   sum = sum_y exp(logit - top)       mix = sum_y exp(logit - top) v_y
/// Linear: mix = sum_y P v_y, as if with top = 0 and sum = 1.
template <class T>
struct RunningMix {
  T* top;
  T* sum;
  T* mix;
};

/// Adjoints of items, laid out as they are; `beta` is null where it does not vary.
template <class T>
struct ItemBars {
  T* b;
  T* v;
  T* beta;
};

/// What home tokens bring to the tangent of an adjoint: a', mix_bar and mix_bar' by channel, and a number per
/// token of the rest. `slope` = sum_y P u is what the normalisation subtracts from the logits' variation u. Of
/// linear attention, which does not normalise, slope, centre and centre_dot are 0.
template <class T>
struct HomeSweep {
  const T *a_dot, *mix_bar, *mix_bar_dot;
  const T *offset, *slope, *centre, *centre_dot;
};

/// The passes over one head, with the memory that they share. Not thread-safe.
template <class T>
class HeadKernel {
 public:
  /// Allocates nothing yet.
  explicit HeadKernel(const HeadShape<T>& shape) : shape_(shape) {}

  /// Adds the items to the sums (`fresh`: sets the sums to those of the items).
  void stream(const Home<T>& home, const Items<T>& items, bool fresh, const RunningMix<T>& out);

  /// k[x * row + index_y] = P(x, y).
  void write_plan(const Home<T>& home, const Items<T>& items, const T* offset, double* k, std::size_t row);

  /// Tangent of a pass whose offsets are known:   u = d logit = scale (da_x . b_y + a_x . db_y) + dbeta_y
  ///   slope += sum_y D u       mixed += sum_y D u v_y + P dv_y   (only if the items have values)
  /// `items_dot` holds db, dv, dbeta; `home_dot` da. Linear: `slope` is left alone, no row is normalised.
  void tangent(const Home<T>& home, const T* home_dot, const Items<T>& items, const Items<T>& items_dot,
               const T* offset, T* slope, T* mixed);

  /// Adjoint of the same pass:   s = D (mix_bar_x . v_y - centre_x)       (values absent: s = -P centre_x)
  ///   a_bar_x += scale sum_y s b_y    b_bar_y += scale sum_x s a_x    v_bar_y += sum_x P mix_bar_x
  ///   beta_bar_y += sum_x s, if not null
  /// `centre_x` is what the normalisation subtracts from the gradient of a row (linear: 0).
  void adjoint(const Home<T>& home, const T* mix_bar, const Items<T>& items, const T* offset, const T* centre,
               T* a_bar, const ItemBars<T>& bars);

  /// Tangent of the adjoint along da, db, dv, dmix_bar (items with values; beta does not vary):
  ///   u = scale (da_x . b_y + a_x . db_y)                  P' = D (u - slope_x)
  ///   s' = D' (mix_bar_x . v_y - centre_x) + D (mix_bar'_x . v_y + mix_bar_x . v'_y - centre'_x)
  ///   a_bar' += scale sum_y s' b + s b'              b_bar' += scale sum_x s' a + s a'
  ///   v_bar' += sum_x P' mix_bar + P mix_bar'
  void adjoint_tangent(const Home<T>& home, const HomeSweep<T>& sweep, const Items<T>& items,
                       const Items<T>& items_dot, T* a_bar_dot, const ItemBars<T>& bars_dot);

 private:
  /// Home tokens first .. first + tokens - 1, and items begin .. end - 1, of which those before `open` are seen by all of
  /// the tokens. `lanes`: tokens, rounded up to whole registers: the stride of the small matrices.
  struct Block {
    std::size_t first;
    int tokens, lanes;
    int begin, open, end;
    int items() const { return end - begin; }
  };
  static constexpr int most_items = 128, most_tokens = 128;

  /// Room for `matrices` of most_items x most_tokens, and `tiles` of most_tokens x channels.
  void reserve(std::size_t matrices, std::size_t tiles);
  T* take_matrix() { return scratch_.take(std::size_t{most_items} * most_tokens); }
  T* take_tile() { return scratch_.take(most_tokens * static_cast<std::size_t>(shape_.channels)); }

  /// f(block) for every tile of tokens and run of items with a visible pair; start(first, tokens) before each tile.
  template <class Start, class F>
  void for_blocks(const Home<T>& home, const Items<T>& items, Start&& start, F&& f) const;
  Block visible(const Home<T>& home, const Items<T>& items, std::size_t first, int tokens, int begin) const;
  /// Calls f(lane, item) for the pairs of the block that are not visible, counted from its first ones.
  template <class F>
  void for_hidden(const Home<T>& home, const Items<T>& items, const Block& at, F&& f) const;

  /// m = (or +=) the dots of items' channels and home channels: m[y][x] = sum_c of_items[y][c] of_home[c][x].
  void dots(const Block& at, std::size_t item_stride, const T* of_items, std::size_t home_stride,
            const T* of_home, InsertMode into, T* m);
  /// to[c][x] = (or +=) sum_y of_items[y][c] m[y][x].
  void mix(const Block& at, std::size_t item_stride, const T* of_items, const T* m, std::size_t home_stride,
           InsertMode into, T* to);
  /// to[y][c] += sum_x m[y][x] tile[x][c].
  void spread(const Block& at, const T* m, const T* tile, std::size_t item_stride, T* to);
  /// The home channels of a tile side by side: tile[x][c].
  void turn_tile(const T* of_home, std::size_t home_stride, std::size_t first, int tokens, T* tile) const;
  /// p := P, where hidden pairs are 0; the result is its derivative by the logit: p itself, or for linear attention `d`.
  const T* plan(const Home<T>& home, const Items<T>& items, const T* offset, const Block& at, T* p, T* d);
  void linear_plan(const Home<T>& home, const Items<T>& items, const Block& at, T* p, T* d);

  HeadShape<T> shape_;
  Scratch<T> scratch_;
  Product<T> dots_, mix_, spread_;
};

extern template class HeadKernel<float>;
extern template class HeadKernel<double>;

}  // namespace fluxformer
