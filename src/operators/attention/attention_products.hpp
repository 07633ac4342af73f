#pragma once

// The three small products of attention, for a tile of home tokens and a run of items. An item's numbers are
// broadcast from memory; channels are processed in blocks of 16, 8, 4, 2, 1 that stay in registers.
//
//   dots     p[y] += sum_c a_c b[y][c]                 p[y]: one pack (a number per lane)
//   mix      o_c  += sum_y p[y] v[y][c]
//   spread   b[y][c] += sum_lanes p[y] a_c             the transpose of both: lanes are summed

#include <algorithm>
#include <cstddef>
#include <type_traits>

#include "operators/attention/attention_tile.hpp"

namespace fluxformer::tile {

/// f(std::integral_constant<int, C>, first channel) over blocks of C channels.
template <class F>
inline void for_channel_blocks(int channels, F&& f) {
  int c = 0;
  for (; c + 16 <= channels; c += 16) f(std::integral_constant<int, 16>{}, static_cast<std::size_t>(c));
  const auto rest = [&](auto block) {
    if (c + block() <= channels) f(block, static_cast<std::size_t>(c)), c += block();
  };
  rest(std::integral_constant<int, 8>{});
  rest(std::integral_constant<int, 4>{});
  rest(std::integral_constant<int, 2>{});
  rest(std::integral_constant<int, 1>{});
}

/// p[y] += sum of C channels, with the tile in registers; rows of b are `stride` apart.
template <int C, class V, class T>
inline void add_dots(V* p, int items, const V (&a)[C], const T* b, std::size_t stride) {
  for (int y = 0; y < items; ++y, b += stride) {
    V sum = p[y];
#pragma GCC unroll 16
    for (int c = 0; c < C; ++c) sum += a[c] * b[c];
    p[y] = sum;
  }
}

/// o_c += sum over the items, for C channels that stay in registers.
template <int C, class V, class T>
inline void add_mix(V (&o)[C], const V* p, int items, const T* v, std::size_t stride) {
  for (int y = 0; y < items; ++y, v += stride) {
    const V weight = p[y];
#pragma GCC unroll 16
    for (int c = 0; c < C; ++c) o[c] += weight * v[c];
  }
}

/// a[lane][c]: the home tokens' numbers, channels side by side.
template <int C, int W, class T>
inline void add_spread(T* b, std::size_t stride, const Pack<T, W>* p, int items, const T (&a)[W][C]) {
  constexpr int width = std::min(C, full_width<T>);
  using U = Pack<T, width>;
  for (int y = 0; y < items; ++y, b += stride) {
#pragma GCC unroll 4
    for (int c = 0; c < C; c += width) {
      U sum = load<U>(b + c);
      const T* weight = reinterpret_cast<const T*>(p + y);
#pragma GCC unroll 16
      for (int lane = 0; lane < W; ++lane) sum += weight[lane] * load<U>(&a[lane][c]);
      store(b + c, sum);
    }
  }
}

/// p[y] += factor * sum_c a_c b[y][c] over all channels of a head.
template <class T, int W>
inline void add_head_dots(Pack<T, W>* p, int items, int channels, T factor, const Tile<T, W>& at, const T* a,
                          std::size_t a_stride, const T* b, std::size_t b_stride) {
  for_channel_blocks(channels, [&](auto block, std::size_t c0) {
    constexpr int C = decltype(block)::value;
    Pack<T, W> tile[C];
    for (int c = 0; c < C; ++c)
      tile[c] = at.lanes_of(a + (c0 + static_cast<std::size_t>(c)) * a_stride) * factor;
    add_dots<C>(p, items, tile, b + c0, b_stride);
  });
}

/// o_c := o_c * keep + factor * sum_y p[y] v[y][c] over all channels of a head.
template <class T, int W>
inline void add_head_mix(T* o, std::size_t o_stride, const Tile<T, W>& at, const Pack<T, W>& keep, T factor,
                         const Pack<T, W>* p, int items, int channels, const T* v, std::size_t v_stride) {
  for_channel_blocks(channels, [&](auto block, std::size_t c0) {
    constexpr int C = decltype(block)::value;
    Pack<T, W> sum[C] = {};
    add_mix<C>(sum, p, items, v + c0, v_stride);
    for (int c = 0; c < C; ++c) {
      T* const row = o + (c0 + static_cast<std::size_t>(c)) * o_stride;
      at.store_lanes(row, at.lanes_of(row) * keep + sum[c] * factor);
    }
  });
}

/// b[y][c] += factor * sum_x p[y](x) a_c(x) over all channels of a head.
template <class T, int W>
inline void add_head_spread(T* b, std::size_t b_stride, const Pack<T, W>* p, int items, int channels,
                            T factor, const Tile<T, W>& at, const T* a, std::size_t a_stride) {
  for_channel_blocks(channels, [&](auto block, std::size_t c0) {
    constexpr int C = decltype(block)::value;
    alignas(64) T turned[W][C];
    for (int c = 0; c < C; ++c) {
      const Pack<T, W> lanes = at.lanes_of(a + (c0 + static_cast<std::size_t>(c)) * a_stride) * factor;
      for (int lane = 0; lane < W; ++lane) turned[lane][c] = lanes[lane];
    }
    add_spread<C, W>(b + c0, b_stride, p, items, turned);
  });
}

}  // namespace fluxformer::tile
