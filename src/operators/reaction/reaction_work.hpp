#pragma once

// Helpers shared by the network and its adjoint, and its activations. Internal to the operator.

#include <algorithm>
#include <cstddef>
#include <type_traits>

#include "operators/kernels/matrix_product.hpp"
#include "operators/kernels/row_major.hpp"
#include "operators/reaction/reaction.hpp"

namespace fluxformer {

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

/// y := factor * x
template <class T>
void scaled(double factor, const T* __restrict x, std::size_t count, T* __restrict y) {
  for (std::size_t i = 0; i < count; ++i) y[i] = static_cast<T>(factor) * x[i];
}

/// Summed in double.
template <class T>
double inner_product(const T* x, const T* y, std::size_t count) {
  double total = 0;
  for (std::size_t i = 0; i < count; ++i) total += static_cast<double>(x[i]) * static_cast<double>(y[i]);
  return total;
}

/// Whether activations hold g''(z), too.
enum class Curvatures { none, kept };

/// TermTape of all rows of the slab.
template <class T>
class ReactionActivations final : public TermTape {
 public:
  /// rows * (width + 2 or 3 hidden) numbers.
  ReactionActivations(std::size_t rows, std::size_t width, std::size_t hidden, Curvatures curvatures)
      : numbers_(rows * (width + (curvatures == Curvatures::kept ? 3 : 2) * hidden)),
        width_(width),
        hidden_(hidden) {
    memory_.reset(numbers_, 4);
    all_.normal = memory_.take(rows * width);
    all_.value = memory_.take(rows * hidden);
    all_.slope = memory_.take(rows * hidden);
    if (curvatures == Curvatures::kept) all_.curvature = memory_.take(rows * hidden);
  }
  std::size_t bytes() const override { return numbers_ * sizeof(T); }
  /// Those from this row on.
  typename Reaction<T>::Hidden at(std::size_t row) const {
    return {all_.normal + row * width_, all_.value + row * hidden_, all_.slope + row * hidden_,
            all_.curvature != nullptr ? all_.curvature + row * hidden_ : nullptr};
  }

 private:
  std::size_t numbers_, width_, hidden_;
  Scratch<T> memory_;
  typename Reaction<T>::Hidden all_;
};

/// What the adjoint's tangent needs of the adjoint at w (names as in reaction_adjoint.cpp).
template <class T>
class ReactionAdjoint final : public TermTape {
 public:
  /// Room for `rows` tokens; the members below hold no values yet.
  ReactionAdjoint(std::size_t rows, std::size_t width, std::size_t hidden)
      : numbers_(rows * (width + hidden) + width * (hidden + 1)) {
    memory_.reset(numbers_, 4);
    pulled = memory_.take(rows * hidden);
    normal_bar = memory_.take(rows * width);
    w_2 = memory_.take(width * hidden);
    b_2 = memory_.take(width);
  }
  std::size_t bytes() const override { return numbers_ * sizeof(T); }

  T* pulled;      ///< rho W_2^T w [row][hidden]
  T* normal_bar;  ///< rho W_1^T p [row][width]
  T* w_2;         ///< sum_rows w g(z)^T [width][hidden]
  T* b_2;         ///< sum_rows w [width]

 private:
  std::size_t numbers_;
  Scratch<T> memory_;
};

/// What the adjoint's tangent needs of the tangent.
template <class T>
class ReactionTangent final : public TermTape {
 public:
  /// Room for `rows` tokens; the members below hold no values yet.
  ReactionTangent(std::size_t rows, std::size_t width, std::size_t hidden)
      : numbers_(rows * (width + hidden)) {
    memory_.reset(numbers_, 2);
    normal = memory_.take(rows * width);
    inner = memory_.take(rows * hidden);
  }
  std::size_t bytes() const override { return numbers_ * sizeof(T); }

  T* normal;  ///< N_dot [row][width]
  T* inner;   ///< z_dot [row][hidden]

 private:
  std::size_t numbers_;
  Scratch<T> memory_;
};

}  // namespace fluxformer
