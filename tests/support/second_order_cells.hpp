#pragma once

// A slab term with tapes of second order, on all depth cells of a rank.

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "operators/slab_term.hpp"
#include "tests/support/cell_term.hpp"

namespace fluxformer::test {

/// Parameters of all cells, and state and vector of the adjoint in some cells; or a direction of them.
struct Point {
  std::vector<double> parameters, u, w;
};

/// Vector that a result is added to: zero, or the vector of its call, in place of the result or where it is;
/// or other_base times that vector, in memory of its own.
enum class Base { zero, result, vector, other };
/// The factor of Base::other; products with it are exact.
inline constexpr double other_base = -0.5;

/// All results: of the evaluation, of a direction, and of the product with the Gauss-Newton matrix.
struct Products {
  std::vector<double> value, u_bar, gradient;
  std::vector<double> tangent, u_bar_dot, gradient_dot;
  std::vector<double> newton_bar, newton_gradient;
};

/// `scale` times a term with its derivatives, in the cells of a point's u and w, each a slab.
template <class T>
class ProductCalls {
 public:
  /// All are borrowed.
  ProductCalls(SlabTerm<T>& term, const CellWeights<T>& weights, int first_cell, std::size_t slab,
               const Point& at, double scale, Base base)
      : term_(term),
        weights_(weights),
        first_cell_(first_cell),
        slab_(slab),
        at_(at),
        scale_(scale),
        base_(base) {}

  /// The products along a direction, whose weights are weights_dot; without those of second order (zero) from
  /// tapes of first order. All cells are evaluated before any is used; another direction comes first, and
  /// products of both kinds take turns. Collective over the token line.
  Products along(const CellWeights<T>& weights_dot, const Point& along, Order upto) {
    std::vector<std::unique_ptr<TermTape>> tapes;
    for (std::size_t i = 0; i < at_.u.size(); i += slab_) tapes.push_back(term_.make_tape(upto));
    const Point other{along.parameters, along.w, along.u};
    Products all;
    in_all_cells(at_.u, all.value, nullptr, [&](const Cell& c) {
      term_.apply(weights_.of(c.number), &at_.u[c.begin], c.out, tapes[c.index].get());
    });
    in_all_cells(at_.w, all.u_bar, &all.gradient, [&](const Cell& c) {
      term_.pull(weights_.of(c.number), &at_.u[c.begin], &at_.w[c.begin], c.out, &c.gradient,
                 tapes[c.index].get());
    });
    for (const Point* v : {&other, &along}) {
      in_all_cells(v->u, all.tangent, nullptr, [&](const Cell& c) {
        const auto dot = weights_dot.of(c.number);
        term_.push(weights_.of(c.number), &dot, {&at_.u[c.begin], &v->u[c.begin]}, c.out,
                   tapes[c.index].get());
      });
      in_all_cells(v->w, all.newton_bar, &all.newton_gradient, [&](const Cell& c) {
        auto* const tape = tapes[c.index].get();
        term_.pull(weights_.of(c.number), &at_.u[c.begin], &v->w[c.begin], c.out, &c.gradient,
                   tape != nullptr ? &tape->value() : nullptr);
      });
      in_all_cells(v->w, all.u_bar_dot, &all.gradient_dot, [&](const Cell& c) {
        if (upto == Order::first) return;
        term_.pull_along(weights_.of(c.number), weights_dot.of(c.number), {&at_.u[c.begin], &v->u[c.begin]},
                         {&at_.w[c.begin], &v->w[c.begin]}, c.out, c.gradient, tapes[c.index].get());
      });
    }
    return all;
  }
  /// The tangent along weights and state, with nothing kept or from tapes of this order.
  std::vector<double> tangent(const CellWeights<T>& weights_dot, const Point& along,
                              std::optional<Order> order) {
    std::vector<double> result, value(slab_);
    in_all_cells(along.u, result, nullptr, [&](const Cell& c) {
      const auto dot = weights_dot.of(c.number);
      const double* const u = &at_.u[c.begin];
      const auto tape = order ? term_.make_tape(*order) : nullptr;
      if (tape != nullptr) term_.apply(weights_.of(c.number), u, {1, u, value.data()}, tape.get());
      term_.push(weights_.of(c.number), &dot, {u, &along.u[c.begin]}, c.out, tape.get());
    });
    return result;
  }

 private:
  /// A cell that is being computed: its number, its place, and where its results go.
  struct Cell {
    int number;
    std::size_t index, begin;
    Sum out;
    LayerWeights<double> gradient;
  };
  /// Fills `out` from `vector`, which the base may be, cell by cell.
  template <class Body>
  void in_all_cells(const std::vector<double>& vector, std::vector<double>& out,
                    std::vector<double>* gradient, Body&& body) {
    out.assign(vector.size(), base_ == Base::zero ? 0.0 : 7.0);
    if (base_ == Base::result) out = vector;
    std::vector<double> others;
    if (base_ == Base::other)
      for (const double number : vector) others.push_back(other_base * number);
    if (gradient != nullptr) gradient->assign(at_.parameters.size(), 0.0);
    for (std::size_t begin = 0; begin < vector.size(); begin += slab_) {
      const std::size_t index = begin / slab_;
      const int number = first_cell_ + static_cast<int>(index);
      const auto& base = base_ == Base::vector ? vector : base_ == Base::other ? others : out;
      body({number,
            index,
            begin,
            {scale_, base.data() + begin, out.data() + begin},
            gradient != nullptr ? weights_.gradient(number, *gradient) : LayerWeights<double>{}});
    }
  }

  SlabTerm<T>& term_;
  const CellWeights<T>& weights_;
  int first_cell_;
  std::size_t slab_;
  const Point& at_;
  double scale_;
  Base base_;
};

}  // namespace fluxformer::test
