#include "model/model_terms.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace fluxformer {

LayerTerm::LayerTerm(DepthModel& model, DepthCells depth, double speed)
    : model_(model), depth_(depth), speed_(speed) {
  if (!(speed > 0)) throw BadInput("equation.c must be > 0 for depth.scheme = shift");
}

void LayerTerm::add_rhs(const Column<const double>& u, CellRange cells, const Column<double>& out) {
  const double h = depth_.spacing(), rate = speed_ / h;
  for (int i = cells.begin; i < cells.end; ++i)
    model_.add_map(point(i), h / speed_, rate, u.at(i - 1), u.at(i), out.at(i));
}

void LayerTerm::add_tangent(const Column<const double>& u, const Column<const double>& v, CellRange cells,
                            const Column<double>& out) {
  const double h = depth_.spacing(), rate = speed_ / h;
  work_.resize(u.slab);
  for (int i = cells.begin; i < cells.end; ++i) {
    const double *const below = v.at(i - 1), *const here = v.at(i);
    model_.increment_tangent(point(i), h / speed_, u.at(i - 1), below, work_.data());
    double* const to = out.at(i);
    for (Index j = 0; j < u.slab; ++j) to[j] += rate * (work_[j] + below[j] - here[j]);
  }
}

void LayerTerm::add_adjoint(const Column<const double>& u, const Column<const double>& w, CellRange cells,
                            const Column<double>& u_bar, std::span<double> parameters) {
  const double h = depth_.spacing(), rate = speed_ / h;
  work_.resize(u.slab);
  for (int i = cells.begin; i < cells.end; ++i) {
    const double* const from = w.at(i);
    double *const below = u_bar.at(i - 1), *const here = u_bar.at(i);
    for (Index j = 0; j < u.slab; ++j) {
      work_[j] = rate * from[j];
      below[j] += work_[j];
      here[j] -= work_[j];
    }
    model_.increment_adjoint(point(i), h / speed_, u.at(i - 1), work_.data(), below, parameters);
  }
}

std::optional<StepLimit> LayerTerm::step_limit() const {
  return StepLimit{StepLimit::Kind::transport, speed_ / depth_.spacing(), "c dt/h"};
}

void FieldTerm::add_rhs(const Column<const double>& u, CellRange cells, const Column<double>& out) {
  for (int i = cells.begin; i < cells.end; ++i) model_.add_field(part_, point(i), 1.0, u.at(i), out.at(i));
}

void FieldTerm::add_tangent(const Column<const double>& u, const Column<const double>& v, CellRange cells,
                            const Column<double>& out) {
  for (int i = cells.begin; i < cells.end; ++i)
    model_.add_field_tangent(part_, point(i), 1.0, u.at(i), v.at(i), out.at(i));
}

void FieldTerm::add_adjoint(const Column<const double>& u, const Column<const double>& w, CellRange cells,
                            const Column<double>& u_bar, std::span<double> parameters) {
  for (int i = cells.begin; i < cells.end; ++i)
    model_.add_field_adjoint(part_, point(i), 1.0, u.at(i), w.at(i), u_bar.at(i), parameters);
}

int token_axes(const TokenLine& line) {
  return std::max(1, (line.tokens_x() > 1 ? 1 : 0) + (line.tokens_y() > 1 ? 1 : 0));
}

std::optional<StepLimit> TokenDiffusionTerm::step_limit() const {
  const double kappa = model_.largest_kappa();
  if (kappa == 0) return std::nullopt;
  const int axes = token_axes(*model_.context().line);
  return StepLimit{StepLimit::Kind::diffusion, 2 * kappa * axes, "2 kappa dt * " + std::to_string(axes)};
}

void TokenDiffusionTerm::add_diagonal(CellRange cells, double scale, const Column<double>& diagonal) const {
  for (int i = cells.begin; i < cells.end; ++i)
    model_.add_diffusion_diagonal(point(i), scale, diagonal.at(i));
}

}  // namespace fluxformer
