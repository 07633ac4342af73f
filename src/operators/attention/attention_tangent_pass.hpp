#pragma once

// One tour of the ring with items and their variations. Internal to the operator.

#include <algorithm>
#include <vector>

#include "operators/attention/attention_chunk.hpp"

namespace fluxformer {

/// `travelling` := the chunk's items, followed by their variation.
template <class T>
void set_travelling(AttentionChunk<T>& chunk, Side side, const std::vector<T>& items_dot,
                    std::vector<T>& travelling) {
  const std::size_t size = chunk.rows() * (chunk.columns(side) + chunk.heads);
  travelling.resize(2 * size);
  std::copy_n(chunk.items(side).begin(), size, travelling.begin());
  std::copy_n(items_dot.begin(), size, travelling.begin() + size);
}

/// The variation that follows the items of a place in `travelling`.
template <class T>
Items<T> variation_of(const Items<T>& items, const Place& at) {
  Items<T> dot = items;
  dot.b += at.block;
  dot.beta += at.block;
  if (dot.v != nullptr) dot.v += at.block;
  return dot;
}

/// The variation of a half-step.
template <class T>
struct TangentPass {
  AttentionChunk<T>& chunk;
  std::vector<T>& slope;

  /// One tour: `slope` := sum P u and, with `mix`, mix := sum P (u v + v').
  void run(Side side, int step, const std::vector<T>& home_dot, const std::vector<T>& items_dot,
           std::vector<T>& travelling, std::vector<T>* mix) const {
    set_travelling(chunk, side, items_dot, travelling);
    slope.assign(chunk.heads * chunk.ld, T(0));
    if (mix != nullptr) mix->assign(chunk.width * chunk.ld, T(0));
    const std::vector<T> offset = chunk.plan_offset(step);
    chunk.ring.visit(travelling.data(), 2 * chunk.per_token(side), [&](int rank, const T* block) {
      chunk.for_places(side, mix != nullptr, rank, block,
                       [&](const Home<T>& home, const Items<T>& items, const Place& at) {
                         chunk.kernel.tangent(home, home_dot.data() + at.lane, items, variation_of(items, at),
                                              offset.data() + at.lane_number, slope.data() + at.lane_number,
                                              mix != nullptr ? mix->data() + at.lane : nullptr);
                       });
    });
  }
};

}  // namespace fluxformer
