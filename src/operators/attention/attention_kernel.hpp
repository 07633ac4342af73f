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

#include <cstddef>

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

/// Adds the items to the sums (`fresh`: sets the sums to those of the items).
template <class T>
void stream_head(const HeadShape<T>& shape, const Home<T>& home, const Items<T>& items, bool fresh,
                 const RunningMix<T>& out);

/// k[x * row + index_y] = P(x, y).
template <class T>
void write_plan(const HeadShape<T>& shape, const Home<T>& home, const Items<T>& items, const T* offset,
                double* k, std::size_t row);

/// Tangent of a pass whose offsets are known:   u = d logit = scale (da_x . b_y + a_x . db_y) + dbeta_y
///   slope += sum_y D u       mix += sum_y D u v_y + P dv_y   (only if the items have values)
/// `items_dot` holds db, dv, dbeta; `home_dot` da. Linear: `slope` is left alone, no row is normalised.
template <class T>
void tangent_head(const HeadShape<T>& shape, const Home<T>& home, const T* home_dot, const Items<T>& items,
                  const Items<T>& items_dot, const T* offset, T* slope, T* mix);

/// Adjoint of the same pass:   s = D (mix_bar_x . v_y - centre_x)       (values absent: s = -P centre_x)
///   a_bar_x += scale sum_y s b_y    b_bar_y += scale sum_x s a_x    v_bar_y += sum_x P mix_bar_x
///   beta_bar_y += sum_x s, if not null
template <class T>
struct ItemBars {
  T* b;
  T* v;
  T* beta;
};
/// Adds to all sums; `centre_x` is what the normalisation subtracts from the gradient of a row (linear: 0).
template <class T>
void adjoint_head(const HeadShape<T>& shape, const Home<T>& home, const T* mix_bar, const Items<T>& items,
                  const T* offset, const T* centre, T* a_bar, const ItemBars<T>& bars);

/// What home tokens bring to the tangent of an adjoint: a', mix_bar and mix_bar' by channel, and a number per
/// token of the rest. `slope` = sum_y P u is what the normalisation subtracts from the logits' variation u. Of
/// linear attention, which does not normalise, slope, centre and centre_dot are 0.
template <class T>
struct HomeSweep {
  const T *a_dot, *mix_bar, *mix_bar_dot;
  const T *offset, *slope, *centre, *centre_dot;
};
/// Tangent of adjoint_head along da, db, dv, dmix_bar (items with values; beta does not vary):
///   u = scale (da_x . b_y + a_x . db_y)                  P' = D (u - slope_x)
///   s' = D' (mix_bar_x . v_y - centre_x) + D (mix_bar'_x . v_y + mix_bar_x . v'_y - centre'_x)
///   a_bar' += scale sum_y s' b + s b'              b_bar' += scale sum_x s' a + s a'
///   v_bar' += sum_x P' mix_bar + P mix_bar'
template <class T>
void adjoint_tangent_head(const HeadShape<T>& shape, const Home<T>& home, const HomeSweep<T>& sweep,
                          const Items<T>& items, const Items<T>& items_dot, T* a_bar_dot,
                          const ItemBars<T>& bars_dot);

}  // namespace fluxformer
