#pragma once

// The layout of attention's buffers.
//
// Rows of a chunk are [sample][token]. Two layouts: "lanes" [channel][row] (or [head][row], one number per
// head) with row stride `ld`, which leaves room for a vector load past the last row; and "items", which
// travel around the ring: a matrix [row][columns] followed by beta [head][row].

#include <cstddef>
#include <vector>

#include "operators/kernels/matrix_product.hpp"
#include "operators/kernels/row_major.hpp"

namespace fluxformer {

/// y := a b_dot + a_dot b, the variation of a product.
template <class Y, class A, class B>
void set_product_rule(Y&& y, const A& a, const A& a_dot, const B& b, const B& b_dot) {
  set_product(y, a, b_dot);
  set_product(y, a_dot, b, InsertMode::add);
}

/// Summed in double.
template <class S, class T>
double inner_product(const S* x, const T* y, std::size_t count) {
  double total = 0;
  for (std::size_t i = 0; i < count; ++i) total += static_cast<double>(x[i]) * static_cast<double>(y[i]);
  return total;
}

/// The side that stays on its rank: queries (rows of the kernel; keys and values travel) or keys (columns;
/// queries travel).
enum class Side { rows, columns };

/// The position of one head of one sample: in lanes buffers, and in the travelling block.
struct Place {
  std::size_t sample, head;
  std::size_t lane, lane_number;  ///< of its first token in [channel][row] and [head][row]
  std::size_t item, item_beta;    ///< of its first item in the block
  std::size_t block;              ///< numbers in the block
  bool fresh;                     ///< the first block of a tour
};

/// numbers -> bytes of memory held
template <class... V>
std::size_t bytes_of(const V&... vectors) {
  return (std::size_t{0} + ... + (vectors.capacity() * sizeof(typename V::value_type)));
}

/// Results of the forward pass of a chunk that the adjoint needs.
template <class T>
struct AttentionForward {
  std::vector<T> x;                       ///< N(u), [row][width]
  std::vector<T> q, mix;                  ///< lanes: queries, sum_y k(x, y) v(y)
  std::vector<T> kv;                      ///< items: keys | values
  std::vector<T> k, q_items;              ///< sinkhorn: keys as lanes, queries as items
  std::vector<T> half_norm;               ///< l2: |k|^2 / 2, [head][row]
  std::vector<std::vector<T>> potential;  ///< after each half-step: f, g, f, ... [head][row]

  /// Memory held, potentials included.
  std::size_t bytes() const {
    std::size_t total = bytes_of(x, q, mix, kv, k, q_items, half_norm);
    for (const auto& one : potential) total += bytes_of(one);
    return total;
  }
};

}  // namespace fluxformer
