#include "operators/depth_terms.hpp"

#include <span>

#include "base/error.hpp"

namespace fluxformer {
namespace {

/// The stencils are sums of differences, factor * (u_{i + shift} - u_i): a constant state gives exactly 0.
struct Difference {
  int shift;
  double factor;
};

struct Stencil {
  Difference terms[2];
  std::size_t count;
  std::span<const Difference> span() const { return {terms, count}; }
};

Stencil upwind(double rate, int order, int cell) {
  if (order == 1 || cell == 1) return {{{-1, rate}, {}}, 1};
  return {{{-1, 2 * rate}, {-2, -0.5 * rate}}, 2};
}

Stencil second_difference(double rate, int cell, int cells) {
  if (cell == cells) return {{{-1, 2 * rate}, {}}, 1};
  return {{{-1, rate}, {1, rate}}, 2};
}

/// out_i += stencil of cell i; a ghost that is missing counts as zero.
template <class StencilOf>
void apply(const Column<const double>& u, CellRange cells, const Column<double>& out,
           StencilOf&& stencil_of) {
  for (int i = cells.begin; i < cells.end; ++i) {
    const double* here = u.at(i);
    double* result = out.at(i);
    const Stencil stencil = stencil_of(i);
    for (const auto& [shift, factor] : stencil.span()) {
      const double f = factor;
      if (const double* there = u.at(i + shift))
        for (Index j = 0; j < u.slab; ++j) result[j] += f * (there[j] - here[j]);
      else
        for (Index j = 0; j < u.slab; ++j) result[j] -= f * here[j];
    }
  }
}

/// The transpose of apply; a ghost that is missing has no adjoint.
template <class StencilOf>
void apply_transposed(const Column<const double>& w, CellRange cells, const Column<double>& u_bar,
                      StencilOf&& stencil_of) {
  for (int i = cells.begin; i < cells.end; ++i) {
    const double* given = w.at(i);
    double* here = u_bar.at(i);
    const Stencil stencil = stencil_of(i);
    for (const auto& [shift, factor] : stencil.span()) {
      const double f = factor;
      for (Index j = 0; j < w.slab; ++j) here[j] -= f * given[j];
      if (double* there = u_bar.at(i + shift))
        for (Index j = 0; j < w.slab; ++j) there[j] += f * given[j];
    }
  }
}

double positive(double spacing) {
  if (!(spacing > 0))
    throw BadInput("the spacing of depth cells must be positive: check mesh.layers, mesh.cells");
  return spacing;
}

}  // namespace

DepthTransport::DepthTransport(double speed, double spacing, int order)
    : speed_(speed), spacing_(positive(spacing)), rate_(speed / spacing), order_(order) {
  if (!(speed >= 0)) throw BadInput("equation.c=" + std::to_string(speed) + ": must not be negative");
  if (order != 1 && order != 2)
    throw BadInput("depth transport has order 1 or 2, not " + std::to_string(order));
}

void DepthTransport::add_rhs(const Column<const double>& u, CellRange cells, const Column<double>& out) {
  apply(u, cells, out, [&](int i) { return upwind(rate_, order_, i); });
}

void DepthTransport::add_tangent(const Column<const double>&, const Column<const double>& v, CellRange cells,
                                 const Column<double>& out) {
  add_rhs(v, cells, out);  // linear
}

void DepthTransport::add_adjoint(const Column<const double>&, const Column<const double>& w, CellRange cells,
                                 const Column<double>& u_bar, std::span<double>) {
  apply_transposed(w, cells, u_bar, [&](int i) { return upwind(rate_, order_, i); });
}

std::optional<StepLimit> DepthTransport::step_limit() const {
  if (rate_ == 0) return std::nullopt;
  return StepLimit{StepLimit::Kind::transport, rate_, "c dt/h"};
}

TermText DepthTransport::text() const {
  const char* first = "(c/h)(u_{i-1} - u_i)";
  const char* second = "(c/2h)(4 u_{i-1} - 3 u_i - u_{i-2})";
  TermText text{order_ == 1 ? first : second, {value_text("c", speed_), value_text("h", spacing_)}};
  if (order_ == 2) text.definitions = {std::string("cell 1: ") + first};
  return text;
}

DepthDiffusion::DepthDiffusion(double epsilon, double spacing, int cells)
    : epsilon_(epsilon), spacing_(positive(spacing)), rate_(epsilon / (spacing * spacing)), cells_(cells) {
  if (!(epsilon >= 0))
    throw BadInput("equation.epsilon=" + std::to_string(epsilon) + ": must not be negative");
}

void DepthDiffusion::add_rhs(const Column<const double>& u, CellRange cells, const Column<double>& out) {
  apply(u, cells, out, [&](int i) { return second_difference(rate_, i, cells_); });
}

void DepthDiffusion::add_tangent(const Column<const double>&, const Column<const double>& v, CellRange cells,
                                 const Column<double>& out) {
  add_rhs(v, cells, out);  // linear
}

void DepthDiffusion::add_adjoint(const Column<const double>&, const Column<const double>& w, CellRange cells,
                                 const Column<double>& u_bar, std::span<double>) {
  apply_transposed(w, cells, u_bar, [&](int i) { return second_difference(rate_, i, cells_); });
}

std::optional<StepLimit> DepthDiffusion::step_limit() const {
  if (rate_ == 0) return std::nullopt;
  return StepLimit{StepLimit::Kind::diffusion, 2 * rate_, "2 epsilon dt/h^2"};
}

TermText DepthDiffusion::text() const {
  return {"epsilon (u_{i+1} - 2 u_i + u_{i-1})/h^2",
          {value_text("epsilon", epsilon_), value_text("h", spacing_)},
          {"outflow: u_{M+1} = u_{M-1}"}};
}

void DepthDiffusion::add_diagonal(CellRange cells, double scale, const Column<double>& diagonal) const {
  const double value = scale * -2 * rate_;
  for (int i = cells.begin; i < cells.end; ++i) {
    double* const here = diagonal.at(i);
    for (Index j = 0; j < diagonal.slab; ++j) here[j] += value;
  }
}

}  // namespace fluxformer
