#pragma once

// A slab term through its seam SecondOrder, on all depth cells of a rank.

#include <algorithm>
#include <span>
#include <vector>

#include "operators/second_order.hpp"
#include "tests/support/cell_term.hpp"

namespace fluxformer::test {

/// Parameters of all cells, and state and vector of the adjoint in some cells; or a direction of them.
struct Point {
  std::vector<double> parameters, u, w;
};

/// Vector that a result is added to: zero, or the vector of its call, in place of the result or where it is.
enum class Base { zero, result, vector };

/// All results: of the evaluation, of a direction, and of the product with the Gauss-Newton matrix.
struct Products {
  std::vector<double> value, u_bar, gradient;
  std::vector<double> tangent, u_bar_dot, gradient_dot;
  std::vector<double> newton_bar, newton_gradient;
};

/// `scale` times the term at a point and along a direction, in the cells of u and w, each a slab. All cells
/// are evaluated before any is used; another direction comes first. Collective over the token line.
template <class T>
Products products(SecondOrder<T>& term, const CellWeights<T>& weights, const CellWeights<T>& weights_dot,
                  int first_cell, std::size_t slab, const Point& at, const Point& along, double scale,
                  Base base) {
  const std::size_t size = at.u.size(), cells = size / slab;
  const Point other{along.parameters, along.w, along.u};
  std::vector<Linearisation> kept;
  for (std::size_t k = 0; k < cells; ++k) kept.push_back(term.make_linearisation());
  /// Fills `out` from `vector`: body(cell, offset, base, out, gradient, kept).
  const auto in_all_cells = [&](const std::vector<double>& vector, std::vector<double>& out,
                                std::vector<double>* gradient, auto&& body) {
    out.assign(size, base == Base::zero ? 0.0 : 7.0);
    if (base == Base::result) out = vector;
    if (gradient != nullptr) gradient->assign(at.parameters.size(), 0.0);
    for (std::size_t k = 0; k < cells; ++k) {
      const int cell = first_cell + static_cast<int>(k);
      const auto bar = gradient != nullptr ? weights.gradient(cell, *gradient) : LayerWeights<double>{};
      const std::size_t begin = k * slab;
      body(cell, begin, (base == Base::vector ? vector.data() : out.data()) + begin, out.data() + begin, bar,
           kept[k]);
    }
  };
  Products all;
  in_all_cells(at.u, all.value, nullptr, [&](int cell, auto i, auto* from, auto* out, auto&, auto& keep) {
    term.set_rhs_linearised(weights.of(cell), &at.u[i], scale, from, out, keep);
  });
  in_all_cells(at.w, all.u_bar, &all.gradient,
               [&](int cell, auto i, auto* from, auto* out, const auto& bar, auto& keep) {
                 term.set_adjoint_linearised(weights.of(cell), &at.u[i], &at.w[i], scale, from, out, &bar,
                                             keep);
               });
  for (const Point* v : {&other, &along}) {
    in_all_cells(v->u, all.tangent, nullptr, [&](int cell, auto i, auto* from, auto* out, auto&, auto& keep) {
      term.set_tangent(weights.of(cell), weights_dot.of(cell), &at.u[i], &v->u[i], scale, from, out, keep);
    });
    in_all_cells(v->w, all.u_bar_dot, &all.gradient_dot,
                 [&](int cell, auto i, auto* from, auto* out, const auto& bar, auto& keep) {
                   term.set_adjoint_tangent(weights.of(cell), weights_dot.of(cell), &at.u[i], &v->u[i],
                                            &at.w[i], &v->w[i], scale, from, out, bar, keep);
                 });
  }
  in_all_cells(along.w, all.newton_bar, &all.newton_gradient,
               [&](int cell, auto i, auto* from, auto* out, const auto& bar, auto& keep) {
                 term.set_gauss_newton(weights.of(cell), &at.u[i], &along.w[i], scale, from, out, bar, keep);
               });
  return all;
}

}  // namespace fluxformer::test
