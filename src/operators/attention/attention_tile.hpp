#pragma once

// A tile of home tokens, one per vector lane: running maximum and sums over items need no reduction across
// lanes.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "operators/kernels/simd.hpp"

namespace fluxformer::tile {

template <class T>
inline constexpr int full_width = static_cast<int>(simd::lanes<T>);

/// W numbers of type T in one vector register.
template <class T, int W>
struct PackType {
  /// By the compiler's vector extension.
  using type [[gnu::vector_size(W * sizeof(T))]] = T;
};
/// A pack of W lanes; arithmetic on it is elementwise.
template <class T, int W>
using Pack = typename PackType<T, W>::type;

/// Items processed at a time: two scratch runs of packs fit in the first-level cache.
inline constexpr int run_length = 128;

/// W numbers from memory of any alignment.
template <class V, class T>
inline V load(const T* from) {
  V v;
  std::memcpy(&v, from, sizeof v);
  return v;
}
/// The inverse of `load`.
template <class V, class T>
inline void store(T* to, const V& v) {
  std::memcpy(to, &v, sizeof v);
}

/// A tile: tokens first .. first + valid - 1 in the lanes of a pack; lanes from `valid` on hold zero. Arrays
/// over home tokens are padded by a full pack, so that loads never leave them.
template <class T, int W>
struct Tile {
  /// A pack as wide as the tile.
  using V = Pack<T, W>;
  std::size_t first;
  int valid;

  /// The numbers of its tokens, 0 in the lanes without a token.
  V lanes_of(const T* tokens) const {
    const V v = load<V>(tokens + first);
    if (valid == W) return v;
    using Index = std::conditional_t<sizeof(T) == 8, std::int64_t, std::int32_t>;
    Pack<Index, W> lane;
    for (int i = 0; i < W; ++i) lane[i] = i;
    return lane < static_cast<Index>(valid) ? v : V{};
  }
  /// Writes the lanes that have a token.
  void store_lanes(T* tokens, const V& v) const {
    if (valid == W) {
      store(tokens + first, v);
    } else {
      for (int lane = 0; lane < W; ++lane)
        if (lane < valid) tokens[first + static_cast<std::size_t>(lane)] = v[lane];
    }
  }
};

/// f(Tile<T, W>) for tiles that cover `count` tokens; the last one is as narrow as its tokens allow.
template <class T, class F>
inline void for_tiles(int count, F&& f) {
  constexpr int full = full_width<T>;
  int first = 0;
  for (; first + full <= count; first += full) f(Tile<T, full>{static_cast<std::size_t>(first), full});
  const int rest = count - first;
  if (rest == 0) return;
  const auto at = static_cast<std::size_t>(first);
  if constexpr (simd::bytes >= 64) {
    if (rest <= full / 4) return f(Tile<T, full / 4>{at, rest});
  }
  if constexpr (simd::bytes >= 32) {
    if (rest <= full / 2) return f(Tile<T, full / 2>{at, rest});
  }
  f(Tile<T, full>{at, rest});
}

}  // namespace fluxformer::tile
