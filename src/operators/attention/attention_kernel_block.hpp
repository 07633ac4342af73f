#pragma once

// What the passes of HeadKernel share: the loop over blocks, and their small products. Internal to the operator.

#include <algorithm>
#include <cstddef>

#include "base/index.hpp"
#include "operators/attention/attention_kernel.hpp"
#include "operators/kernels/exponential.hpp"

namespace fluxformer {

template <class T>
template <class Start, class F>
void HeadKernel<T>::for_blocks(const Home<T>& home, const Items<T>& items, Start&& start, F&& f) const {
  // Tiles of equal size, in whole registers.
  constexpr int width = static_cast<int>(simd::lanes<T>);
  const int tiles = (home.count + most_tokens - 1) / most_tokens;
  const int even = (home.count + tiles - 1) / std::max(tiles, 1);
  const int size = (even + width - 1) / width * width;
  for (int first = 0; first < home.count; first += size) {
    const int tokens = std::min(size, home.count - first);
    start(static_cast<std::size_t>(first), tokens);
    for (int begin = 0; begin < items.count; begin += most_items) {
      const Block at = visible(home, items, static_cast<std::size_t>(first), tokens, begin);
      if (at.items() > 0) f(at);
    }
  }
}

template <class T>
template <class F>
void HeadKernel<T>::for_hidden(const Home<T>& home, const Items<T>& items, const Block& at, F&& f) const {
  for (int y = at.open; y < at.end; ++y)
    for (int lane = 0; lane < at.tokens; ++lane)
      if (items.index[y] > home.index[at.first + static_cast<std::size_t>(lane)])
        f(static_cast<std::size_t>(lane), static_cast<std::size_t>(y - at.begin));
}

/// f(first lane of a register) for all registers of `lanes` lanes.
template <class T, class F>
inline void for_registers(int lanes, F&& f) {
  for (Index x = 0; x < lanes; x += simd::lanes<T>) f(x);
}

/// Writes the lanes of a register that are below `tokens`.
template <class T>
inline void store_tokens(T* to, std::size_t x, int tokens, const simd::Vector<T>& v) {
  const auto left = static_cast<std::size_t>(tokens) - x;
  if (left >= simd::lanes<T>)
    simd::store(to + x, v);
  else
    simd::store_part<T>(to + x, v, left);
}

}  // namespace fluxformer
