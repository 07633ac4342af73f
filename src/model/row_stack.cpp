#include "model/row_stack.hpp"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "base/index.hpp"
#include "operators/kernels/simd.hpp"
#include "operators/kernels/vector_math.hpp"
#include "operators/layer_norm.hpp"

namespace fluxformer {
namespace {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Rows = Eigen::Map<Matrix>;
using ConstRows = Eigen::Map<const Matrix>;
using Row = Eigen::Map<const Eigen::RowVectorXd>;

// y = gain (x - mean(x)) / sigma + bias, row by row; the derivatives are in operators/layer_norm.hpp.
class NormStage final : public RowStage {
 public:
  NormStage(const ModelSpec& spec, const std::string& prefix)
      : width_(spec.width),
        norm_(spec.norm_settings()),
        gain_(prefix + "gain"),
        bias_(spec.norms_have_biases() ? prefix + "bias" : "") {}
  int in() const override { return width_; }
  int out() const override { return width_; }

  void forward(const Parameters& p, int rows, const double* x, double* y) const override {
    layer_norm<double>(x, stride(), rows, width_, norm_, p.view(gain_).data(), bias_in(p), y, stride());
  }
  void adjoint(const Parameters& p, int rows, const double* x, const double* y_bar, double* x_bar,
               std::span<double> gradient) const override {
    // layer_norm_adjoint adds to x_bar.
    std::fill_n(x_bar, Index{rows} * stride(), 0.0);
    layer_norm_adjoint<double>(x, stride(), y_bar, stride(), rows, width_, norm_, p.view(gain_).data(), 1.0,
                               x_bar, entries_of(p, gain_, gradient), entries_of(p, bias_, gradient));
  }
  void tangent(const Parameters& p, const ParameterVector& direction, int rows, RowPoint at,
               double* y_dot) const override {
    layer_norm_full_tangent<double>(at.x, at.x_dot, stride(), rows, width_, norm_, p.view(gain_).data(),
                                    direction.view(gain_).data(), bias_in(direction), y_dot, stride());
  }
  void adjoint_tangent(const Parameters& p, const ParameterVector& direction, int rows, RowPoint at,
                       const double* y_bar, const double* y_bar_dot, double* x_bar_dot,
                       std::span<double> gradient_dot) const override {
    std::fill_n(x_bar_dot, Index{rows} * stride(), 0.0);
    layer_norm_adjoint_tangent<double>(at.x, at.x_dot, stride(), y_bar, y_bar_dot, stride(), rows, width_,
                                       norm_, p.view(gain_).data(), direction.view(gain_).data(), 1.0,
                                       x_bar_dot, x_bar_dot, entries_of(p, gain_, gradient_dot),
                                       entries_of(p, bias_, gradient_dot));
  }

 private:
  std::size_t stride() const { return width_; }
  static double* entries_of(const Parameters& p, const std::string& path, std::span<double> gradient) {
    return gradient.empty() || path.empty() ? nullptr : gradient.data() + p.layout.at(path).offset;
  }
  const double* bias_in(const ParameterVector& p) const {
    return bias_.empty() ? nullptr : p.view(bias_).data();
  }
  int width_;
  NormSettings norm_;
  std::string gain_, bias_;  ///< paths; an empty one: no bias
};

class DenseStage final : public RowStage {
 public:
  /// Without a bias (null): y = W x.
  DenseStage(const ParameterView& matrix, const ParameterView* bias)
      : out_(matrix.shape[0]),
        in_(matrix.shape[1]),
        matrix_(matrix.offset),
        bias_(bias != nullptr ? bias->offset : none) {}
  int in() const override { return in_; }
  int out() const override { return out_; }

  void forward(const Parameters& p, int rows, const double* x, double* y) const override {
    // y = x W^T + b
    Rows to(y, rows, out_);
    to.noalias() = ConstRows(x, rows, in_) * weights(p).transpose();
    if (bias_ != none) to.rowwise() += Row(p.values.data() + bias_, out_);
  }
  void adjoint(const Parameters& p, int rows, const double* x, const double* y_bar, double* x_bar,
               std::span<double> gradient) const override {
    // x_bar = y_bar W,  b_bar += sum of the rows of y_bar,  W_bar += y_bar^T x
    Rows(x_bar, rows, in_).noalias() = ConstRows(y_bar, rows, out_) * weights(p);
    add_bias(rows, y_bar, gradient);
    add_matrix(rows, y_bar, x, gradient);
  }
  void tangent(const Parameters& p, const ParameterVector& direction, int rows, RowPoint at,
               double* y_dot) const override {
    Rows to(y_dot, rows, out_);
    // y_dot = x_dot W^T + x W_dot^T + b_dot
    to.noalias() = ConstRows(at.x_dot, rows, in_) * weights(p).transpose();
    to.noalias() += ConstRows(at.x, rows, in_) * weights(direction).transpose();
    if (bias_ != none) to.rowwise() += Row(direction.values.data() + bias_, out_);
  }
  void adjoint_tangent(const Parameters& p, const ParameterVector& direction, int rows, RowPoint at,
                       const double* y_bar, const double* y_bar_dot, double* x_bar_dot,
                       std::span<double> gradient_dot) const override {
    Rows to(x_bar_dot, rows, in_);
    // x_bar_dot = y_bar_dot W + y_bar W_dot,  W_bar_dot += y_bar_dot^T x + y_bar^T x_dot
    to.noalias() = ConstRows(y_bar_dot, rows, out_) * weights(p);
    to.noalias() += ConstRows(y_bar, rows, out_) * weights(direction);
    add_bias(rows, y_bar_dot, gradient_dot);  // b_bar is linear in y_bar
    add_matrix(rows, y_bar_dot, at.x, gradient_dot);
    add_matrix(rows, y_bar, at.x_dot, gradient_dot);
  }

 private:
  ConstRows weights(const ParameterVector& p) const { return {p.values.data() + matrix_, out_, in_}; }
  /// gradient of W += y_bar^T x
  void add_matrix(int rows, const double* y_bar, const double* x, std::span<double> gradient) const {
    if (gradient.empty()) return;
    Rows(gradient.data() + matrix_, out_, in_).noalias() +=
        ConstRows(y_bar, rows, out_).transpose() * ConstRows(x, rows, in_);
  }
  void add_bias(int rows, const double* y_bar, std::span<double> gradient) const {
    if (gradient.empty() || bias_ == none) return;
    // (Eigen's colwise().sum() adds in an order that depends on where the sums lie in memory.)
    simd::add_rows(y_bar, rows, out_, gradient.data() + bias_);
  }
  int out_, in_;
  static constexpr Index none = -1;
  Index matrix_, bias_;
};

/// x := g(x), with g' and g'' where they are not null (g'' only with g').
void apply(HeadActivation activation, Index count, double* x, double* slope, double* curvature) {
  std::vector<double> unwanted;
  if (slope == nullptr) {
    unwanted.resize(count);
    slope = unwanted.data();
  }
  switch (activation) {
    case HeadActivation::none:
      std::fill_n(slope, count, 1.0);
      if (curvature != nullptr) std::fill_n(curvature, count, 0.0);
      return;
    // GELU, x Phi(x) with the normal distribution Phi, or its approximation by tanh
    case HeadActivation::gelu_erf:
      return curvature != nullptr ? gelu_erf_curvature(x, slope, curvature, count)
                                  : gelu_erf(x, slope, count);
    case HeadActivation::gelu_tanh:
      return curvature != nullptr ? gelu_tanh_curvature(x, slope, curvature, count)
                                  : gelu_tanh(x, slope, count);
    case HeadActivation::relu:
      // g(x) = max(x, 0), g' = 1 or 0
      for (Index j = 0; j < count; ++j) {
        slope[j] = x[j] > 0 ? 1.0 : 0.0;
        x[j] *= slope[j];
        if (curvature != nullptr) curvature[j] = 0;
      }
      return;
    case HeadActivation::tanh:
      // g' = 1 - g^2, g'' = -2 g g'
      for (Index j = 0; j < count; ++j) {
        x[j] = std::tanh(x[j]);
        slope[j] = 1 - x[j] * x[j];
        if (curvature != nullptr) curvature[j] = -2 * x[j] * slope[j];
      }
      return;
  }
}

class ActivationStage final : public RowStage {
 public:
  ActivationStage(HeadActivation activation, int width) : activation_(activation), width_(width) {}
  int in() const override { return width_; }
  int out() const override { return width_; }

  void forward(const Parameters&, int rows, const double* x, double* y) const override {
    std::copy_n(x, count(rows), y);
    apply(activation_, count(rows), y, nullptr, nullptr);
  }
  void adjoint(const Parameters&, int rows, const double* x, const double* y_bar, double* x_bar,
               std::span<double>) const override {
    scale_by_slope(rows, x, y_bar, x_bar);  // x_bar = g'(x) y_bar
  }
  void tangent(const Parameters&, const ParameterVector&, int rows, RowPoint at,
               double* y_dot) const override {
    scale_by_slope(rows, at.x, at.x_dot, y_dot);  // y_dot = g'(x) x_dot
  }
  void adjoint_tangent(const Parameters&, const ParameterVector&, int rows, RowPoint at, const double* y_bar,
                       const double* y_bar_dot, double* x_bar_dot, std::span<double>) const override {
    const Index size = count(rows);
    std::vector<double> value(at.x, at.x + size), slope(size), curvature(size);
    apply(activation_, size, value.data(), slope.data(), curvature.data());
    // d/de (g'(x) y_bar) = g'(x) y_bar_dot + g''(x) x_dot y_bar
    for (Index j = 0; j < size; ++j)
      x_bar_dot[j] = slope[j] * y_bar_dot[j] + curvature[j] * at.x_dot[j] * y_bar[j];
  }

 private:
  std::size_t count(int rows) const { return Index{rows} * width_; }
  /// to := g'(x) . from: the tangent, and its own transpose.
  void scale_by_slope(int rows, const double* x, const double* from, double* to) const {
    const Index size = count(rows);
    std::vector<double> value(x, x + size), slope(size);
    apply(activation_, size, value.data(), slope.data(), nullptr);
    for (Index j = 0; j < size; ++j) to[j] = slope[j] * from[j];
  }
  HeadActivation activation_;
  int width_;
};

std::size_t size_of(int rows, int width) {
  return Index{rows} * width;
}

}  // namespace

std::unique_ptr<RowStage> norm_stage(const ModelSpec& spec, const std::string& prefix) {
  return std::make_unique<NormStage>(spec, prefix);
}

std::unique_ptr<RowStage> dense_stage(const ParameterLayout& layout, const std::string& matrix,
                                      const std::string& bias) {
  return std::make_unique<DenseStage>(layout.at(matrix), layout.has(bias) ? &layout.at(bias) : nullptr);
}

void RowStack::add(std::unique_ptr<RowStage> stage) {
  out_ = stage->out();
  stages_.push_back(std::move(stage));
}

void RowStack::add(const HeadTransform& transform, const std::string& group) {
  if (!transform.present) return;
  // g = N(act(T p + t)), of which act and N may be missing (docs/model.md, section 7)
  add(dense_stage(parameters_.layout, group + "/transform_W", group + "/transform_b"));
  if (transform.activation != HeadActivation::none)
    add(std::make_unique<ActivationStage>(transform.activation, out_));
  if (transform.norm) add(norm_stage(parameters_.spec, group + "/norm_"));
}

void RowStack::forward(int rows, const double* x, double* y, RowTape& tape) const {
  tape.rows = rows;
  tape.stages.resize(stages_.size());
  if (empty()) {
    std::copy_n(x, size_of(rows, in_), y);
    return;
  }
  // x_{k+1} = S_k(x_k): each stage writes its result to where the tape keeps the input of the next one.
  tape.stages[0].x.assign(x, x + size_of(rows, in_));
  for (Index k = 0; k < std::ssize(stages_); ++k) {
    double* to = y;
    if (k + 1 < std::ssize(stages_)) {
      tape.stages[k + 1].x.resize(size_of(rows, stages_[k]->out()));
      to = tape.stages[k + 1].x.data();
    }
    stages_[k]->forward(parameters_, rows, tape.stages[k].x.data(), to);
  }
}

template <class Visit>
void RowStack::backward(int rows, const double* y_bar, double* x_bar, Visit&& visit) const {
  if (empty()) {
    std::copy_n(y_bar, size_of(rows, in_), x_bar);
    return;
  }
  // x_bar_k = (dS_k/dx)^T x_bar_{k+1}: two vectors take turns between y_bar and x_bar.
  std::vector<double> from, to;
  for (Index k = std::ssize(stages_); k-- > 0;) {
    if (k > 0) to.resize(size_of(rows, stages_[k]->in()));
    visit(k, from.empty() ? y_bar : from.data(), k > 0 ? to.data() : x_bar);
    from.swap(to);
  }
}

void RowStack::adjoint(const double* y_bar, double* x_bar, std::span<double> gradient, RowTape& tape) const {
  backward(tape.rows, y_bar, x_bar, [&](Index k, const double* from, double* to) {
    auto& kept = tape.stages[k];
    // The adjoint of every stage is kept: adjoint_tangent differentiates its pullback at this y_bar.
    kept.y_bar.assign(from, from + size_of(tape.rows, stages_[k]->out()));
    stages_[k]->adjoint(parameters_, tape.rows, kept.x.data(), from, to, gradient);
  });
}

void RowStack::pull(const double* y_bar, double* x_bar, std::span<double> gradient,
                    const RowTape& tape) const {
  backward(tape.rows, y_bar, x_bar, [&](Index k, const double* from, double* to) {
    stages_[k]->adjoint(parameters_, tape.rows, tape.stages[k].x.data(), from, to, gradient);
  });
}

void RowStack::tangent(const ParameterVector& direction, const double* x_dot, double* y_dot,
                       RowTape& tape) const {
  const int rows = tape.rows;
  if (empty()) {
    std::copy_n(x_dot, size_of(rows, in_), y_dot);
    return;
  }
  // x_dot_{k+1} = (dS_k/dx) x_dot_k + (dS_k/dtheta) theta_dot; each x_dot_k is kept beside x_k.
  tape.stages[0].x_dot.assign(x_dot, x_dot + size_of(rows, in_));
  for (Index k = 0; k < std::ssize(stages_); ++k) {
    double* to = y_dot;
    if (k + 1 < std::ssize(stages_)) {
      tape.stages[k + 1].x_dot.resize(size_of(rows, stages_[k]->out()));
      to = tape.stages[k + 1].x_dot.data();
    }
    const auto& kept = tape.stages[k];
    stages_[k]->tangent(parameters_, direction, rows, {kept.x.data(), kept.x_dot.data()}, to);
  }
}

void RowStack::adjoint_tangent(const ParameterVector& direction, const double* y_bar_dot, double* x_bar_dot,
                               std::span<double> gradient_dot, const RowTape& tape) const {
  // x_bar_dot_k = d/de (dS_k/dx)^T y_bar_k along (x_dot_k, theta_dot, y_bar_dot_k), from the last stage on
  backward(tape.rows, y_bar_dot, x_bar_dot, [&](Index k, const double* from, double* to) {
    const auto& kept = tape.stages[k];
    stages_[k]->adjoint_tangent(parameters_, direction, tape.rows, {kept.x.data(), kept.x_dot.data()},
                                kept.y_bar.data(), from, to, gradient_dot);
  });
}

}  // namespace fluxformer
