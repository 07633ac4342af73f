#pragma once

// The work space of Attention, and what it keeps between calls. Derivatives allocate theirs on first use.

#include <utility>

#include "operators/attention/attention_chunk.hpp"

namespace fluxformer {

/// Variations: of N(u); lanes q, k and mix; items; |k|^2/2 and the potentials of rows and columns; what travels.
template <class T>
struct AttentionTangentWork {
  std::vector<T> x, q, k, mix, kv, q_items, half_norm, f, g, slope, travelling;
};

/// Results of the adjoint of a chunk that its tangent needs: lanes mix and q; items; mix_bar . mix, [head][row];
/// the adjoint of N(u), [row][width].
template <class T>
struct AttentionAdjoint {
  std::vector<T> mix, q, kv, f, x;

  std::size_t bytes() const { return bytes_of(mix, q, kv, f, x); }
};

/// Results of the tangent of a chunk: variations of N(u), q, kv and mix, and sum_y P u, [head][row].
template <class T>
struct AttentionTangent {
  std::vector<T> x, q, kv, mix, slope;

  std::size_t bytes() const { return bytes_of(x, q, kv, mix, slope); }
};

/// Adjoints: also lanes k; the other items; the potentials of columns; seeds [row][width]; a gradient.
template <class T>
struct AttentionAdjointWork : AttentionAdjoint<T> {
  std::vector<T> k, q_items, g, none, seed, product, sums;
};

/// The results of one kind of every chunk. A chunk works in this memory instead of its own: nothing is
/// copied.
template <class Part>
struct AttentionTape : TermTape {
  AttentionTape(std::size_t chunks, const Part& part) : parts(chunks, part) {}
  std::size_t bytes() const override {
    std::size_t total = 0;
    for (const auto& one : parts) total += one.bytes();
    return total;
  }

  std::vector<Part> parts;
};

/// The forward pass of every chunk.
template <class T>
using AttentionActivations = AttentionTape<AttentionForward<T>>;

/// The adjoint of every chunk; the sums over rows of seed mix^T, [width][width], and of the seed.
template <class T>
struct AttentionAdjointTape final : AttentionTape<AttentionAdjoint<T>> {
  /// Room for `chunks` copies of `part`, and sums of zero for states of `width` channels.
  AttentionAdjointTape(std::size_t chunks, const AttentionAdjoint<T>& part, std::size_t width)
      : AttentionTape<AttentionAdjoint<T>>(chunks, part), seed_product(width * width), seed_sums(width) {}
  std::size_t bytes() const override {
    return AttentionTape<AttentionAdjoint<T>>::bytes() + bytes_of(seed_product, seed_sums);
  }

  std::vector<double> seed_product, seed_sums;
};

/// The chunk, and buffers for tangent and adjoint.
template <class T>
struct Attention<T>::Work {
  /// Buffers as large as a chunk of `context` needs.
  Work(const SlabContext& context, const AttentionSettings& settings, Operands operands)
      : chunk(context, settings, operands) {}

  AttentionChunk<T> chunk;
  AttentionTangentWork<T> dot;
  AttentionAdjointWork<T> bar;
  std::vector<T> w_o, w_o_dot, b_o_dot;  ///< alpha W_O, its variation and that of alpha b_O
  std::vector<T> seed_dot;               ///< [row][width]

  /// f() for every chunk, in the memory of its forward pass.
  template <class F>
  void for_kept_chunks(TermTape& kept, F&& f) {
    auto& tape = dynamic_cast<AttentionActivations<T>&>(kept);
    chunk.for_chunks([&] {
      auto& part = tape.parts[chunk.number()];
      std::swap(static_cast<AttentionForward<T>&>(chunk), part);
      f();
      std::swap(static_cast<AttentionForward<T>&>(chunk), part);
    });
  }
  /// Of everything allocated so far.
  std::size_t bytes() const {
    return chunk.bytes() + bar.bytes() +
           bytes_of(dot.x, dot.q, dot.k, dot.mix, dot.kv, dot.q_items, dot.half_norm, dot.f, dot.g, dot.slope,
                    dot.travelling) +
           bytes_of(bar.k, bar.q_items, bar.g, bar.none, bar.seed, bar.product, bar.sums) +
           bytes_of(w_o, w_o_dot, b_o_dot, seed_dot);
  }
};

}  // namespace fluxformer
