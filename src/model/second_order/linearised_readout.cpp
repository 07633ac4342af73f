#include "model/second_order/linearised_readout.hpp"

#include <Eigen/Core>
#include <algorithm>

#include "model/pooling.hpp"
#include "operators/kernels/simd.hpp"
#include "operators/layer_norm.hpp"
#include "operators/layer_norm_second_order.hpp"

namespace fluxformer {
namespace {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Rows = Eigen::Map<Matrix>;
using ConstRows = Eigen::Map<const Matrix>;
using Row = Eigen::Map<const Eigen::RowVectorXd>;

}  // namespace

LinearisedReadout::LinearisedReadout(const Parameters& parameters, const Parameters& direction,
                                     const SlabContext& context)
    : parameters_(parameters),
      direction_(direction),
      context_(context),
      layer_norm_(parameters.layout.has("final_norm/gain")),
      rows_(context.size()),
      rows_dot_(context.size()) {}

// z = W pooled + b, pooled = mean over tokens of N_f(u)
void LinearisedReadout::logits(const double* u, double* logits, ReadoutTape& tape) {
  const int d = context_.width, samples = context_.samples, classes = parameters_.spec.classes;
  const auto width = static_cast<std::size_t>(d);
  const double* from = u;
  if (layer_norm_) {
    tape.state.assign(u, u + context_.size());
    layer_norm<double>(u, width, context_.rows(), d, parameters_.view("final_norm/gain").data(),
                       parameters_.view("final_norm/bias").data(), rows_.data(), width);
    from = rows_.data();
  }
  mean_over_tokens(context_, from, tape.pooled);
  Rows z(logits, samples, classes);
  z.noalias() = ConstRows(tape.pooled.data(), samples, d) *
                ConstRows(parameters_.view("head/W").data(), classes, d).transpose();
  z.rowwise() += Row(parameters_.view("head/b").data(), classes);
}

void LinearisedReadout::add_head(const std::vector<double>& z_bar, const std::vector<double>& pooled,
                                 std::span<double> gradient) const {
  if (context_.line->rank() != 0) return;  // the pooled state is the same on all ranks of the line
  const int d = context_.width, samples = context_.samples, classes = parameters_.spec.classes;
  Rows(at("head/W", gradient), classes, d).noalias() +=
      ConstRows(z_bar.data(), samples, classes).transpose() * ConstRows(pooled.data(), samples, d);
}

void LinearisedReadout::add_bias(const std::vector<double>& z_bar, std::span<double> gradient) const {
  if (context_.line->rank() != 0) return;
  simd::add_rows(z_bar.data(), static_cast<std::size_t>(context_.samples),
                 static_cast<std::size_t>(parameters_.spec.classes), at("head/b", gradient));
}

void LinearisedReadout::pull_head(const Parameters& from, const std::vector<double>& z_bar,
                                  std::vector<double>& pooled_bar) const {
  const int d = context_.width, samples = context_.samples, classes = parameters_.spec.classes;
  pooled_bar.resize(context_.row(), 0.0);
  Rows(pooled_bar.data(), samples, d).noalias() +=
      ConstRows(z_bar.data(), samples, classes) * ConstRows(from.view("head/W").data(), classes, d);
}

void LinearisedReadout::gauss_newton(const std::vector<double>& logits_bar_dot, double* u_bar_dot,
                                     std::span<double> gradient_dot, const ReadoutTape& tape) {
  add_head(logits_bar_dot, tape.pooled, gradient_dot);
  add_bias(logits_bar_dot, gradient_dot);
  pooled_bar_.clear();
  pull_head(parameters_, logits_bar_dot, pooled_bar_);
  if (!layer_norm_) return spread_mean(context_, pooled_bar_, u_bar_dot);
  const auto width = static_cast<std::size_t>(context_.width);
  spread_mean(context_, pooled_bar_, rows_.data());
  std::fill_n(u_bar_dot, context_.size(), 0.0);
  layer_norm_adjoint<double>(tape.state.data(), width, rows_.data(), width, context_.rows(), context_.width,
                             parameters_.view("final_norm/gain").data(), 1.0, u_bar_dot,
                             at("final_norm/gain", gradient_dot), at("final_norm/bias", gradient_dot));
}

void LinearisedReadout::adjoint(const std::vector<double>& logits_bar, double* u_bar,
                                std::span<double> gradient, ReadoutTape& tape) {
  tape.logits_bar = logits_bar;
  gauss_newton(logits_bar, u_bar, gradient, tape);
}

// z_dot = W pooled_dot + W_dot pooled + b_dot
void LinearisedReadout::tangent(const double* u_dot, double* logits_dot, ReadoutTape& tape) {
  const int d = context_.width, samples = context_.samples, classes = parameters_.spec.classes;
  const auto width = static_cast<std::size_t>(d);
  const double* from = u_dot;
  if (layer_norm_) {
    tape.state_dot.assign(u_dot, u_dot + context_.size());
    layer_norm_full_tangent<double>(tape.state.data(), u_dot, width, context_.rows(), d,
                                    parameters_.view("final_norm/gain").data(),
                                    direction_.view("final_norm/gain").data(),
                                    direction_.view("final_norm/bias").data(), rows_.data(), width);
    from = rows_.data();
  }
  mean_over_tokens(context_, from, tape.pooled_dot);
  Rows z_dot(logits_dot, samples, classes);
  z_dot.noalias() = ConstRows(tape.pooled_dot.data(), samples, d) *
                    ConstRows(parameters_.view("head/W").data(), classes, d).transpose();
  z_dot.noalias() += ConstRows(tape.pooled.data(), samples, d) *
                     ConstRows(direction_.view("head/W").data(), classes, d).transpose();
  z_dot.rowwise() += Row(direction_.view("head/b").data(), classes);
}

void LinearisedReadout::adjoint_tangent(const std::vector<double>& logits_bar_dot, double* u_bar_dot,
                                        std::span<double> gradient_dot, ReadoutTape& tape) {
  add_head(logits_bar_dot, tape.pooled, gradient_dot);
  add_head(tape.logits_bar, tape.pooled_dot, gradient_dot);
  add_bias(logits_bar_dot, gradient_dot);
  pooled_bar_.clear();
  pull_head(parameters_, logits_bar_dot, pooled_bar_);
  pull_head(direction_, tape.logits_bar, pooled_bar_);
  if (!layer_norm_) return spread_mean(context_, pooled_bar_, u_bar_dot);
  spread_mean(context_, pooled_bar_, rows_dot_.data());
  pooled_bar_.clear();
  pull_head(parameters_, tape.logits_bar, pooled_bar_);
  spread_mean(context_, pooled_bar_, rows_.data());
  const auto width = static_cast<std::size_t>(context_.width);
  std::fill_n(u_bar_dot, context_.size(), 0.0);
  layer_norm_adjoint_tangent<double>(
      tape.state.data(), tape.state_dot.data(), width, rows_.data(), rows_dot_.data(), width, context_.rows(),
      context_.width, parameters_.view("final_norm/gain").data(), direction_.view("final_norm/gain").data(),
      1.0, u_bar_dot, u_bar_dot, at("final_norm/gain", gradient_dot), at("final_norm/bias", gradient_dot));
}

}  // namespace fluxformer
