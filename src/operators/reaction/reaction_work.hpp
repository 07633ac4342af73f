#pragma once

// Helpers shared by the network and its adjoint, and its activations. Internal to the operator.

#include <Eigen/Core>
#include <algorithm>
#include <cstddef>
#include <type_traits>

#include "operators/reaction/reaction.hpp"

namespace fluxformer {

/// Row-major, as the weights are stored.
template <class T>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// A matrix over existing memory.
template <class T>
auto matrix(T* data, std::size_t rows, std::size_t columns) {
  using Plain = Matrix<std::remove_const_t<T>>;
  return Eigen::Map<std::conditional_t<std::is_const_v<T>, const Plain, Plain>>(
      data, static_cast<Eigen::Index>(rows), static_cast<Eigen::Index>(columns));
}

/// out[r] := row, for every row r.
template <class T>
void repeat_row(const T* row, std::size_t rows, std::size_t width, T* out) {
  for (std::size_t r = 0; r < rows; ++r) std::copy_n(row, width, out + r * width);
}

/// y := x in the arithmetic T.
template <class T>
void round_to(const double* x, std::size_t count, T* y) {
  for (std::size_t i = 0; i < count; ++i) y[i] = static_cast<T>(x[i]);
}

/// Activations of all rows of the slab.
template <class T>
class ReactionActivations final : public Activations {
 public:
  /// rows * (width + 2 hidden) numbers.
  ReactionActivations(std::size_t rows, std::size_t width, std::size_t hidden)
      : numbers_(rows * (width + 2 * hidden)), width_(width), hidden_(hidden) {
    memory_.reset(numbers_, 3);
    all_.normal = memory_.take(rows * width);
    all_.value = memory_.take(rows * hidden);
    all_.slope = memory_.take(rows * hidden);
  }
  std::size_t bytes() const override { return numbers_ * sizeof(T); }
  /// Those from this row on.
  typename Reaction<T>::Hidden at(std::size_t row) const {
    return {all_.normal + row * width_, all_.value + row * hidden_, all_.slope + row * hidden_};
  }

 private:
  std::size_t numbers_, width_, hidden_;
  Scratch<T> memory_;
  typename Reaction<T>::Hidden all_;
};

}  // namespace fluxformer
