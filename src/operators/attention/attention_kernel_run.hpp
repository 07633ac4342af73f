#pragma once

// A run: at most run_length items against one tile, the scratch they share, and the masks.

#include <algorithm>
#include <cstddef>

#include "operators/attention/attention_kernel.hpp"
#include "operators/attention/attention_products.hpp"
#include "operators/attention/attention_tile.hpp"
#include "operators/kernels/vector_math.hpp"

namespace fluxformer::tile {

/// Items begin .. end-1 of a block; those before `open` are seen by every lane of the tile, the rest by some.
struct Run {
  int begin, open, end;
  int size() const { return end - begin; }
};

/// The items of [begin, begin + run_length) that are visible to some lane of the tile.
template <class T, int W>
inline Run visible(const HeadShape<T>& shape, const Home<T>& home, const Tile<T, W>& at,
                   const Items<T>& items, int begin) {
  const int end = std::min(begin + run_length, items.count);
  if (!shape.causal) return {begin, end, end};
  const int earliest = home.index[at.first];
  const int latest = home.index[at.first + static_cast<std::size_t>(at.valid) - 1];
  const int* const first = items.index + begin;
  const int* const last = items.index + end;
  return {begin, begin + static_cast<int>(std::upper_bound(first, last, earliest) - first),
          begin + static_cast<int>(std::upper_bound(first, last, latest) - first)};
}

/// f(tile, run) for every tile and run of items with a visible pair.
template <class T, class F>
void for_runs(const HeadShape<T>& shape, const Home<T>& home, const Items<T>& items, F&& f) {
  for (int begin = 0; begin < items.count; begin += run_length) {
    for_tiles<T>(home.count, [&](auto at) {
      const Run run = visible(shape, home, at, items, begin);
      if (run.size() > 0) f(at, run);
    });
  }
}

/// Calls f(lane, y) for the pairs of the run that are not visible.
template <class T, int W, class F>
inline void for_hidden(const Home<T>& home, const Tile<T, W>& at, const Items<T>& items, const Run& run,
                       F&& f) {
  for (int y = run.open; y < run.end; ++y)
    for (int lane = 0; lane < at.valid; ++lane)
      if (items.index[y] > home.index[at.first + static_cast<std::size_t>(lane)]) f(lane, y - run.begin);
}

/// p := the logits of the run, hidden pairs included.
template <class T, int W>
inline void logits(Pack<T, W>* p, const HeadShape<T>& shape, const Home<T>& home, const Tile<T, W>& at,
                   const Items<T>& items, const Run& run) {
  const T* const beta = items.beta + run.begin;
  for (int y = 0; y < run.size(); ++y) p[y] = Pack<T, W>{} + beta[y];
  add_head_dots(p, run.size(), shape.channels, shape.scale, at, home.a, home.stride,
                items.b + static_cast<std::size_t>(run.begin) * items.stride, items.stride);
}

/// p := exp(p - shift)
template <class T, int W>
inline void exponentials(const Tile<T, W>& /*at*/, Pack<T, W>* p, int items, const Pack<T, W>& shift) {
  for (int y = 0; y < items; ++y) p[y] -= shift;
  exp_shifted(reinterpret_cast<T*>(p), static_cast<std::size_t>(items) * W, T(0));
}

/// p := P(x, y) of linear attention, d := its derivative by the logit; hidden pairs are 0.
template <class T, int W>
inline void linear_plan(Pack<T, W>* p, Pack<T, W>* d, const HeadShape<T>& shape, const Home<T>& home,
                        const Tile<T, W>& at, const Items<T>& items, const Run& run) {
  std::fill_n(p, run.size(), Pack<T, W>{});
  add_head_dots(p, run.size(), shape.channels, shape.scale, at, home.a, home.stride,
                items.b + static_cast<std::size_t>(run.begin) * items.stride, items.stride);
  const T* const beta = items.beta + run.begin;
  for (int y = 0; y < run.size(); ++y) {
    p[y] *= beta[y];
    d[y] = Pack<T, W>{} + beta[y];
  }
  for_hidden(home, at, items, run, [&](int lane, int y) { p[y][lane] = d[y][lane] = T(0); });
}

/// P(x, y) of a run whose offsets are known; hidden pairs are 0.
template <class T, int W>
inline void plan(Pack<T, W>* p, const HeadShape<T>& shape, const Home<T>& home, const Tile<T, W>& at,
                 const Items<T>& items, const Run& run, const T* offset) {
  logits(p, shape, home, at, items, run);
  // P <= 1 for visible pairs; the limit keeps empty lanes and hidden pairs from overflowing.
  constexpr T limit = 80;
  const Pack<T, W> shift = at.lanes_of(offset);
  for (int y = 0; y < run.size(); ++y) {
    const Pack<T, W> x = p[y] + shift;
    p[y] = x > limit ? Pack<T, W>{} + limit : x;
  }
  exponentials(at, p, run.size(), Pack<T, W>{});
  for_hidden(home, at, items, run, [&](int lane, int y) { p[y][lane] = T(0); });
}

/// p := P(x, y); the result is its derivative by the logit, which is p itself, or in `d` for linear attention.
template <class T, int W>
inline const Pack<T, W>* plan_and_derivative(Pack<T, W>* p, Pack<T, W>* d, const HeadShape<T>& shape,
                                             const Home<T>& home, const Tile<T, W>& at, const Items<T>& items,
                                             const Run& run, const T* offset) {
  if (shape.linear) {
    linear_plan(p, d, shape, home, at, items, run);
    return d;
  }
  plan(p, shape, home, at, items, run, offset);
  return p;
}

}  // namespace fluxformer::tile
