#include "model/slab/slab_model.hpp"

#include <algorithm>
#include <cmath>

#include "base/mpi.hpp"
#include "operators/layer_norm.hpp"

namespace fluxformer {
namespace {

/// For each row calls visit(y . f, y . w, |u|, first index), y = u / |u|.
template <class Visit>
void for_each_direction(const double* u, const double* f, const double* w, int rows, int width,
                        Visit&& visit) {
  for (int r = 0; r < rows; ++r) {
    const std::size_t first = static_cast<std::size_t>(r) * static_cast<std::size_t>(width);
    double uu = 0, uf = 0, uw = 0;
    for (std::size_t j = first; j < first + static_cast<std::size_t>(width); ++j)
      uu += u[j] * u[j], uf += u[j] * f[j], uw += u[j] * w[j];
    const double norm = std::sqrt(uu);
    visit(uf / norm, uw / norm, norm, first);
  }
}

/// The derivative of P(u) f, P = I - y y^T, y = u / |u|, along dy with f fixed:
/// out -= dy (y . f) + y (dy . f).
void add_projection_tangent(const double* u, const double* f, const double* dy, int rows, int width,
                            double* out) {
  const auto d = static_cast<std::size_t>(width);
  for_each_direction(u, f, dy, rows, width, [&](double yf, double, double norm, std::size_t first) {
    double dyf = 0;
    for (std::size_t j = first; j < first + d; ++j) dyf += dy[j] * f[j];
    for (std::size_t j = first; j < first + d; ++j) out[j] -= dy[j] * yf + u[j] / norm * dyf;
  });
}

/// Its transpose: out = (dy/du)^T (-(y . f) w - (y . w) f).
void projection_adjoint(const double* u, const double* f, const double* w, int rows, int width, double* out) {
  const auto d = static_cast<std::size_t>(width);
  for_each_direction(u, f, w, rows, width, [&](double yf, double yw, double, std::size_t first) {
    for (std::size_t j = first; j < first + d; ++j) out[j] = -yf * w[j] - yw * f[j];
  });
  sphere_tangent(u, out, rows, width);
}

}  // namespace

template <class T>
SlabModel<T>::SlabModel(const Parameters& parameters, const SlabContext& context, Operands operands)
    : parameters_((parameters.spec.validate(), parameters)),
      context_(context),
      weights_(parameters),
      terms_(parameters.spec, context, layer_, operands),
      norm_(context),
      kappa_(parameters),
      sub_layers_(terms_.compose(kappa_.largest)) {}

template <class T>
void SlabModel<T>::refresh() {
  weights_.refresh();
  kappa_ = KappaRange(parameters_);
  sub_layers_ = terms_.compose(kappa_.largest);
}

template <class T>
void SlabModel<T>::agree_on_coefficients(MPI_Comm comm) {
  double extremes[] = {-kappa_.least, kappa_.largest};
  largest_over_ranks(extremes, comm);
  kappa_.least = -extremes[0];
  kappa_.largest = extremes[1];
}

template <class T>
EquationCoefficients SlabModel<T>::coefficients() const {
  const auto& layout = parameters_.layout;
  return {kappa_.least, kappa_.largest, parameters_.values[layout.alpha()], parameters_.values[layout.rho()]};
}

template <class T>
double* SlabModel<T>::buffer(std::size_t index) {
  while (buffers_.size() <= index) buffers_.emplace_back(context_.size());
  return buffers_[index].data();
}

template <class T>
SlabTerm<T>* SlabModel<T>::term(FieldTermKind part) {
  return part == FieldTermKind::diffusion && kappa_.largest == 0 ? nullptr : terms_.term(part);
}

template <class T>
void SlabModel<T>::add_field(FieldTermKind part, const DepthPoint& at, double scale, const double* u,
                             double* out) {
  auto* const t = term(part);
  if (t == nullptr) return;
  if (!projected(part)) return t->add_rhs(weights_at(at), u, scale, out);
  double* const f = buffer(0);
  std::fill_n(f, context_.size(), 0.0);
  t->add_rhs(weights_at(at), u, scale, f);
  project_to_tangent(u, f, context_.rows(), context_.width);
  for (std::size_t j = 0; j < context_.size(); ++j) out[j] += f[j];
}

template <class T>
void SlabModel<T>::add_field_tangent(FieldTermKind part, const DepthPoint& at, double scale, const double* u,
                                     const double* v, double* out) {
  auto* const t = term(part);
  if (t == nullptr) return;
  if (!projected(part)) return t->add_tangent(weights_at(at), u, v, scale, out);
  // P f, P = I - y y^T, y = u/|u|: P f' - (y' y^T + y y'^T) f with y' = P v / |u|.
  const auto w = weights_at(at);
  double* const f = buffer(0);
  double* const df = buffer(1);
  double* const dy = buffer(2);
  std::fill_n(f, context_.size(), 0.0);
  std::fill_n(df, context_.size(), 0.0);
  std::copy_n(v, context_.size(), dy);
  t->add_rhs(w, u, scale, f);
  t->add_tangent(w, u, v, scale, df);
  project_to_tangent(u, df, context_.rows(), context_.width);
  sphere_tangent(u, dy, context_.rows(), context_.width);
  add_projection_tangent(u, f, dy, context_.rows(), context_.width, df);
  for (std::size_t j = 0; j < context_.size(); ++j) out[j] += df[j];
}

template <class T>
void SlabModel<T>::add_field_adjoint(FieldTermKind part, const DepthPoint& at, double scale, const double* u,
                                     const double* w, double* u_bar, std::span<double> parameters) {
  auto* const t = term(part);
  if (t == nullptr) return;
  const auto weights = weights_at(at);
  LayerWeights<double> gradient;
  const bool wanted = !parameters.empty();
  if (wanted) gradient = weights_.begin_gradient(at, parameters);
  const double* outer = w;
  if (projected(part)) {
    double* const f = buffer(0);
    double* const pw = buffer(1);
    double* const dw = buffer(2);
    std::fill_n(f, context_.size(), 0.0);
    t->add_rhs(weights, u, scale, f);
    std::copy_n(w, context_.size(), pw);
    project_to_tangent(u, pw, context_.rows(), context_.width);
    projection_adjoint(u, f, w, context_.rows(), context_.width, dw);
    for (std::size_t j = 0; j < context_.size(); ++j) u_bar[j] += dw[j];
    outer = pw;
  }
  t->add_adjoint(weights, u, outer, scale, u_bar, wanted ? &gradient : nullptr);
  if (wanted) weights_.finish_gradient(at, parameters);
}

template <class T>
void SlabModel<T>::add_diffusion_diagonal(const DepthPoint& at, double scale, double* diagonal) {
  if (kappa_.largest > 0) terms_.diffusion()->add_diagonal(weights_at(at), scale, diagonal);
}

template <class T>
void SlabModel<T>::attention_state(const DepthPoint& at, double h, const double* u, double* v) {
  if (spec().order != SubLayerOrder::macaron) {
    std::copy_n(u, context_.size(), v);
    return;
  }
  advance(sub_layers_.front(), weights_at(at), h, u, buffer(0), v);
}

template <class T>
void SlabModel<T>::attention_matrix(const DepthPoint& at, double h, const double* u, double* k) {
  attention_state(at, h, u, buffer(1));
  terms_.attention().matrix(weights_at(at), buffer(1), k);
}

template class SlabModel<float>;
template class SlabModel<double>;

}  // namespace fluxformer
