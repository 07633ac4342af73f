#pragma once

// One head of one sample as HeadKernel sees it: home tokens, items, and what passes over them read and write.

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

}  // namespace fluxformer
