#include "model/depth_model.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <optional>
#include <stdexcept>
#include <vector>

#include "base/error.hpp"
#include "base/index.hpp"
#include "base/mpi.hpp"
#include "model/layer_map.hpp"
#include "model/sub_layers.hpp"
#include "operators/layer_norm.hpp"

namespace fluxformer {
namespace {

/// The parameters, after their structure has been checked.
const Parameters& validated(const Parameters& parameters) {
  parameters.spec.validate();
  return parameters;
}

}  // namespace

DepthModel::DepthModel(const Parameters& parameters, const SlabContext& context)
    : parameters_(validated(parameters)), context_(context) {
  read_coefficients();
}

void DepthModel::read_coefficients() {
  const auto& layout = parameters_.layout;
  const auto range = [&](const std::string& name) {
    EquationCoefficients::Range found{.least = std::numeric_limits<double>::infinity(), .largest = 0};
    for (int knot = layout.first_knot(); knot <= layout.last_knot(); ++knot)
      for (const double value : parameters_.view("layers/" + std::to_string(knot + 1) + "/" + name)) {
        if (!(value >= 0))
          throw BadInput("equation." + name + " = " + std::to_string(value) + ": must be >= 0");
        found = {std::min(found.least, value), std::max(found.largest, value)};
      }
    return found;
  };
  coefficients_ = {.kappa = range("kappa"),
                   .nu = spec().transport ? range("nu") : EquationCoefficients::Range{},
                   .alpha = parameters_.values[layout.alpha()],
                   .rho = parameters_.values[layout.rho()]};
}

void DepthModel::agree_on_coefficients(MPI_Comm comm) {
  auto &kappa = coefficients_.kappa, &nu = coefficients_.nu;
  // The least is the largest of the negatives: one reduction.
  double extremes[] = {-kappa.least, kappa.largest, -nu.least, nu.largest};
  largest_over_ranks(extremes, comm);
  kappa = {-extremes[0], extremes[1]};
  nu = {-extremes[2], extremes[3]};
}

void DepthModel::increment(const DepthPoint& at, double h, const double* u, double* out) {
  map(at, h, u, out, nullptr);
  for (Index j = 0, size = context_.size(); j < size; ++j) out[j] -= u[j];
}

namespace {

/// For each row calls visit(y . f, y . w, |u|, first index), y = u / |u|.
template <class Visit>
void for_each_direction(const double* u, const double* f, const double* w, int rows, int width,
                        Visit&& visit) {
  for (int r = 0; r < rows; ++r) {
    const Index first = Index{r} * width;
    double uu = 0, uf = 0, uw = 0;
    for (Index j = first; j < first + width; ++j) {
      uu += u[j] * u[j];
      uf += u[j] * f[j];
      uw += u[j] * w[j];
    }
    const double norm = std::sqrt(uu);
    visit(uf / norm, uw / norm, norm, first);
  }
}

/// The derivative of P(u) f, P = I - y y^T, y = u / |u|, along dy with f fixed:
/// out -= dy (y . f) + y (dy . f).
void add_projection_tangent(const double* u, const double* f, const double* dy, int rows, int width,
                            double* out) {
  const Index d = width;
  for_each_direction(u, f, dy, rows, width, [&](double yf, double, double norm, Index first) {
    double dyf = 0;
    for (Index j = first; j < first + d; ++j) dyf += dy[j] * f[j];
    for (Index j = first; j < first + d; ++j) out[j] -= dy[j] * yf + u[j] / norm * dyf;
  });
}

/// The transpose of that derivative: out = (dy/du)^T (-(y . f) w - (y . w) f).
void projection_adjoint(const double* u, const double* f, const double* w, int rows, int width, double* out) {
  const Index d = width;
  for_each_direction(u, f, w, rows, width, [&](double yf, double yw, double, Index first) {
    for (Index j = first; j < first + d; ++j) out[j] = -yf * w[j] - yw * f[j];
  });
  sphere_tangent(u, out, rows, width);
}

/// The operands of the linear maps of attention and reaction.
Operands operands_of(Precision precision) {
  switch (precision) {
    case Precision::mixed:
      return Operands::bfloat16;
    case Precision::mixed_emulated:
      return Operands::bfloat16_as_float;
    default:
      return Operands::exact;
  }
}

/// DepthModel in the arithmetic T of the kernels, float or double (run.precision); states are double. A layer
/// is composed of slab terms.
template <class T>
class SlabModel final : public DepthModel {
 public:
  /// Throws BadInput as the terms do.
  SlabModel(const Parameters& parameters, const SlabContext& context, Precision precision);

  Precision precision() const override { return precision_; }
  std::unique_ptr<Tape> make_tape(Order upto) const override;
  void map(const DepthPoint& at, double h, const double* u, double* v, Tape* tape) override;
  void push(const DepthPoint& at, double h, Point point, std::span<const double> direction, double* v_dot,
            Tape* tape) override;
  void pull(const DepthPoint& at, double h, const double* u, const double* w, double* u_bar,
            std::span<double> parameters, Tape* tape, Order keep) override;
  void pull_along(const DepthPoint& at, double h, Point point, const double* w_dot,
                  std::span<const double> direction, double* u_bar_dot, std::span<double> parameters_dot,
                  Tape& tape) override;
  void field(std::span<const FieldTermKind> parts, const DepthPoint& at, double scale, const double* u,
             double* out, Tape* tape) override;
  void push_field(std::span<const FieldTermKind> parts, const DepthPoint& at, double scale, Point point,
                  double* out) override;
  void pull_field(std::span<const FieldTermKind> parts, const DepthPoint& at, double scale, const double* u,
                  const double* w, double* u_bar, std::span<double> parameters, Tape* tape) override;
  void add_diffusion_diagonal(const DepthPoint& at, double scale, double* diagonal) override;
  void attention(const DepthPoint& at, double h, const double* u, double* v, double* k) override;
  void prepare(std::span<const DepthPoint> points) override { weights_.prepare(points); }
  void refresh() override;

 private:
  using Weights = LayerWeights<const T>;
  Weights weights_at(const DepthPoint& at) {
    layer_ = at.layer;
    return weights_.at(at);
  }
  /// body(where the gradient is added to, or null if `parameters` is empty).
  template <class Body>
  void with_gradient(const DepthPoint& at, std::span<double> parameters, Body&& body);
  /// The term of this part; null if the model has none.
  SlabTerm<T>* term_of(FieldTermKind part);
  /// call(term, its number, whether it is projected to the sphere) for each of these parts.
  template <class Call>
  void for_parts(std::span<const FieldTermKind> parts, Call&& call);
  /// out += scale * one part of the field on the sphere, projected to the tangent space at u, and its
  /// derivatives.
  void add_projected(SlabTerm<T>& term, const Weights& theta, double scale, const double* u, double* out);
  void add_projected_push(SlabTerm<T>& term, const Weights& theta, double scale, Point point, double* out);
  void add_projected_pull(SlabTerm<T>& term, const Weights& theta, double scale, const double* u,
                          const double* w, double* u_bar, const LayerWeights<double>* gradient);
  /// Scratch slab number `index`.
  double* buffer(Index index);

  Precision precision_;
  DepthWeights<T> weights_;
  int layer_ = 1;  // the layer that the terms work for (dropout)
  SlabTerms<T> terms_;
  LayerMap<T> map_;
  std::vector<std::vector<double>> buffers_;  // scratch slabs, allocated on first use
};

template <class T>
SlabModel<T>::SlabModel(const Parameters& parameters, const SlabContext& context, Precision precision)
    : DepthModel(parameters, context),
      precision_(precision),
      weights_(parameters),
      terms_(parameters.spec, context, layer_, operands_of(precision)),
      map_(parameters.spec, context) {
  map_.set(terms_.compose(coefficients()));
}

template <class T>
void SlabModel<T>::refresh() {
  weights_.refresh();
  // Token diffusion and transport take part only where kappa, nu > 0, and training may change that.
  read_coefficients();
  map_.set(terms_.compose(coefficients()));
}

template <class T>
double* SlabModel<T>::buffer(Index index) {
  while (std::ssize(buffers_) <= index) buffers_.emplace_back(context_.size());
  return buffers_[index].data();
}

template <class T>
template <class Body>
void SlabModel<T>::with_gradient(const DepthPoint& at, std::span<double> parameters, Body&& body) {
  if (parameters.empty()) return body(nullptr);
  const auto gradient = weights_.begin_gradient(at, parameters);
  body(&gradient);
  weights_.finish_gradient(at, parameters);
}

// The layer map.

template <class T>
LayerTape<T>* layer_tape(Tape* tape) {
  assert(tape == nullptr || dynamic_cast<LayerTape<T>*>(tape) != nullptr);
  return static_cast<LayerTape<T>*>(tape);
}

template <class T>
std::unique_ptr<Tape> SlabModel<T>::make_tape(Order upto) const {
  if (upto == Order::second) {
    // Products with a direction of the weights are not rounded: they would be derivatives of another map.
    if (is_mixed(precision_))
      throw BadInput(
          "run.precision = mixed: products with the Hessian need run.precision = double or single");
    map_.require(upto);
  }
  return std::make_unique<LayerTape<T>>(upto);
}

template <class T>
void SlabModel<T>::map(const DepthPoint& at, double h, const double* u, double* v, Tape* tape) {
  map_.apply(weights_at(at), h, u, v, layer_tape<T>(tape));
}

template <class T>
void SlabModel<T>::push(const DepthPoint& at, double h, Point point, std::span<const double> direction,
                        double* v_dot, Tape* tape) {
  const auto theta = weights_at(at);
  if (direction.empty()) return map_.push(theta, nullptr, h, point, v_dot, layer_tape<T>(tape));
  const auto theta_dot = weights_.direction_at(at, direction);
  map_.push(theta, &theta_dot, h, point, v_dot, layer_tape<T>(tape));
}

template <class T>
void SlabModel<T>::pull(const DepthPoint& at, double h, const double* u, const double* w, double* u_bar,
                        std::span<double> parameters, Tape* tape, Order keep) {
  const auto theta = weights_at(at);
  with_gradient(at, parameters, [&](const LayerWeights<double>* gradient) {
    map_.pull(theta, h, u, w, u_bar, gradient, layer_tape<T>(tape), keep);
  });
}

template <class T>
void SlabModel<T>::pull_along(const DepthPoint& at, double h, Point point, const double* w_dot,
                              std::span<const double> direction, double* u_bar_dot,
                              std::span<double> parameters_dot, Tape& tape) {
  const auto theta = weights_at(at), theta_dot = weights_.direction_at(at, direction);
  with_gradient(at, parameters_dot, [&](const LayerWeights<double>* gradient_dot) {
    map_.pull_along(theta, theta_dot, h, point, w_dot, u_bar_dot, *gradient_dot, *layer_tape<T>(&tape));
  });
}

// The field.

template <class T>
SlabTerm<T>* SlabModel<T>::term_of(FieldTermKind part) {
  const bool absent = (part == FieldTermKind::diffusion && largest_kappa() == 0) ||
                      (part == FieldTermKind::transport && largest_nu() == 0);
  return absent ? nullptr : terms_.term(part);
}

template <class T>
template <class Call>
void SlabModel<T>::for_parts(std::span<const FieldTermKind> parts, Call&& call) {
  Index number = 0;
  for (const auto part : parts)
    if (auto* const term = term_of(part); term != nullptr)
      call(*term, number++,
           spec().norm == Norm::sphere &&
               (part == FieldTermKind::attention || part == FieldTermKind::reaction));
}

template <class T>
void SlabModel<T>::field(std::span<const FieldTermKind> parts, const DepthPoint& at, double scale,
                         const double* u, double* out, Tape* tape) {
  const auto theta = weights_at(at);
  auto* const kept = layer_tape<T>(tape);
  if (kept != nullptr) {
    std::vector<SlabTerm<T>*> terms;
    for_parts(parts, [&](SlabTerm<T>& term, Index, bool) { terms.push_back(&term); });
    kept->terms.resize(1);
    // Projected parts are computed again.
    hold(terms, spec().norm == Norm::sphere ? std::nullopt : std::optional(kept->upto), kept->terms[0]);
  }
  for_parts(parts, [&](SlabTerm<T>& term, Index number, bool on_sphere) {
    if (on_sphere) return add_projected(term, theta, scale, u, out);
    term.apply(theta, u, add_to(out, scale), kept != nullptr ? kept->tape(0, number) : nullptr);
  });
}

template <class T>
void SlabModel<T>::push_field(std::span<const FieldTermKind> parts, const DepthPoint& at, double scale,
                              Point point, double* out) {
  const auto theta = weights_at(at);
  for_parts(parts, [&](SlabTerm<T>& term, Index, bool on_sphere) {
    if (on_sphere) return add_projected_push(term, theta, scale, point, out);
    term.push(theta, nullptr, point, add_to(out, scale), nullptr);
  });
}

template <class T>
void SlabModel<T>::pull_field(std::span<const FieldTermKind> parts, const DepthPoint& at, double scale,
                              const double* u, const double* w, double* u_bar, std::span<double> parameters,
                              Tape* tape) {
  const auto theta = weights_at(at);
  auto* const kept = layer_tape<T>(tape);
  with_gradient(at, parameters, [&](const LayerWeights<double>* gradient) {
    for_parts(parts, [&](SlabTerm<T>& term, Index number, bool on_sphere) {
      if (on_sphere) return add_projected_pull(term, theta, scale, u, w, u_bar, gradient);
      TermTape* const value = kept != nullptr ? value_part<TermTape>(kept->tape(0, number)) : nullptr;
      term.pull(theta, u, w, add_to(u_bar, scale), gradient, value);
    });
  });
}

// On the sphere a part is P f, f = scale part(u), P = I - y y^T, y = u / |u|.

template <class T>
void SlabModel<T>::add_projected(SlabTerm<T>& term, const Weights& theta, double scale, const double* u,
                                 double* out) {
  const Index size = context_.size();
  double* const f = buffer(0);
  std::fill_n(f, size, 0.0);
  term.apply(theta, u, add_to(f, scale), nullptr);
  project_to_tangent(u, f, context_.rows(), context_.width);
  for (Index j = 0; j < size; ++j) out[j] += f[j];
}

// Along v, with f' = scale part'(u) v and y' = P v / |u|:  P f' - (y' y^T + y y'^T) f
template <class T>
void SlabModel<T>::add_projected_push(SlabTerm<T>& term, const Weights& theta, double scale, Point point,
                                      double* out) {
  const Index size = context_.size();
  double *const f = buffer(0), *const df = buffer(1), *const dy = buffer(2);
  std::fill_n(f, size, 0.0);
  std::fill_n(df, size, 0.0);
  std::copy_n(point.u_dot, size, dy);
  term.apply(theta, point.u, add_to(f, scale), nullptr);
  term.push(theta, nullptr, point, add_to(df, scale), nullptr);
  project_to_tangent(point.u, df, context_.rows(), context_.width);
  sphere_tangent(point.u, dy, context_.rows(), context_.width);
  add_projection_tangent(point.u, f, dy, context_.rows(), context_.width, df);
  for (Index j = 0; j < size; ++j) out[j] += df[j];
}

// P is symmetric: u_bar += f'^T P w + (d(P f)/du at fixed f)^T w.
template <class T>
void SlabModel<T>::add_projected_pull(SlabTerm<T>& term, const Weights& theta, double scale, const double* u,
                                      const double* w, double* u_bar, const LayerWeights<double>* gradient) {
  const Index size = context_.size();
  double *const f = buffer(0), *const pw = buffer(1), *const dw = buffer(2);
  std::fill_n(f, size, 0.0);
  term.apply(theta, u, add_to(f, scale), nullptr);
  std::copy_n(w, size, pw);
  project_to_tangent(u, pw, context_.rows(), context_.width);
  projection_adjoint(u, f, w, context_.rows(), context_.width, dw);
  for (Index j = 0; j < size; ++j) u_bar[j] += dw[j];
  term.pull(theta, u, pw, add_to(u_bar, scale), gradient, nullptr);
}

template <class T>
void SlabModel<T>::add_diffusion_diagonal(const DepthPoint& at, double scale, double* diagonal) {
  if (largest_kappa() > 0) terms_.diffusion()->add_diagonal(weights_at(at), scale, diagonal);
}

template <class T>
void SlabModel<T>::attention(const DepthPoint& at, double h, const double* u, double* v, double* k) {
  const auto theta = weights_at(at);
  // Attention is in the first sub-layer, or follows v = N((residual) u + h/2 rho R(u)) in macaron.
  const double* state = u;
  if (spec().order == SubLayerOrder::macaron) {
    map_.apply_first(theta, h, u, buffer(0));
    state = buffer(0);
  }
  if (v != nullptr) std::copy_n(state, context_.size(), v);
  if (k != nullptr) terms_.attention().matrix(theta, state, k);
}

}  // namespace

std::unique_ptr<DepthModel> make_depth_model(const Parameters& parameters, const SlabContext& context,
                                             Precision precision) {
  if (precision == Precision::float64)
    return std::make_unique<SlabModel<double>>(parameters, context, precision);
  return std::make_unique<SlabModel<float>>(parameters, context, precision);
}

}  // namespace fluxformer
