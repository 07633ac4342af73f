#pragma once

// The work space of Attention. Derivatives allocate theirs on first use.

#include <utility>

#include "operators/attention/attention_chunk.hpp"

namespace fluxformer {

/// Variations: lanes q, k and mix; items; |k|^2/2 and the potentials of rows and columns; what travels.
template <class T>
struct AttentionTangentWork {
  std::vector<T> q, k, mix, kv, q_items, half_norm, f, g, slope, travelling;
};

/// Adjoints: lanes mix, q, k; items; the potentials of rows and columns; seeds and inputs [row][width]; a
/// gradient.
template <class T>
struct AttentionAdjointWork {
  std::vector<T> mix, q, k, kv, q_items, f, g, none, seed, x, product, sums;
};

/// The forward pass of every chunk. The chunk works in this memory instead of its own: nothing is copied.
template <class T>
struct AttentionActivations final : Activations {
  /// Room for as many chunks as a slab has.
  explicit AttentionActivations(const AttentionChunk<T>& chunk)
      : forwards(chunk.chunks(), chunk.make_forward()) {}
  std::size_t bytes() const override {
    std::size_t total = 0;
    for (const auto& one : forwards) total += one.bytes();
    return total;
  }
  /// Swaps the memory of the current chunk with the chunk's own.
  void swap(AttentionChunk<T>& chunk) {
    std::swap(static_cast<AttentionForward<T>&>(chunk), forwards[chunk.number()]);
  }

  std::vector<AttentionForward<T>> forwards;
};

/// The chunk, and buffers for tangent and adjoint.
template <class T>
struct Attention<T>::Work {
  Work(const SlabContext& context, const AttentionSettings& settings) : chunk(context, settings) {}

  AttentionChunk<T> chunk;
  AttentionTangentWork<T> dot;
  AttentionAdjointWork<T> bar;

  /// Of everything allocated so far.
  std::size_t bytes() const {
    return chunk.bytes() +
           bytes_of(dot.q, dot.k, dot.mix, dot.kv, dot.q_items, dot.half_norm, dot.f, dot.g, dot.slope,
                    dot.travelling) +
           bytes_of(bar.mix, bar.q, bar.k, bar.kv, bar.q_items, bar.f, bar.g, bar.none, bar.seed, bar.x,
                    bar.product, bar.sums);
  }
};

}  // namespace fluxformer
