#include "operators/attention/attention_match.hpp"

#include <Eigen/Core>
#include <cmath>

#include "base/error.hpp"
#include "operators/kernels/simd.hpp"
#include "operators/layer_norm.hpp"

namespace fluxformer {
namespace {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Rows = Eigen::Map<const Matrix>;
using Row = Eigen::Map<const Eigen::RowVectorXd>;

/// Rows := logarithm of the soft-max of the rows.
void log_soft_max(Matrix& logits) {
  logits.colwise() -= logits.rowwise().maxCoeff().eval();
  const Matrix powers = logits.array().exp();
  for (Eigen::Index r = 0; r < logits.rows(); ++r) logits.row(r).array() -= std::log(powers.row(r).sum());
}

/// sum p (log p - log_q), with 0 log 0 = 0; finite also where q is too small for a double.
double divergence(const Matrix& p, const Matrix& log_q) {
  return (p.array() > 0).select(p.array() * (p.array().log() - log_q.array()), 0.0).sum();
}

}  // namespace

AttentionMatch::AttentionMatch(const SlabContext& context, const AttentionSettings& settings)
    : context_(context), settings_(settings) {
  if (settings.kernel != Kernel::dot || settings.normalisation != Normalisation::softmax ||
      context.mask.causal)
    throw BadInput(
        "distill.attention: is defined for attention.kernel = dot, attention.normalisation = softmax and "
        "attention.causal = false");
  if (context.line->size() > 1) throw BadInput("distill.attention: needs mesh.ranks_token = 1");
}

double AttentionMatch::add(const LayerWeights<const double>& weights, const double* target,
                           const std::vector<double>& weight, const double* u, double* u_bar,
                           const LayerWeights<double>* gradient) {
  const auto& w = weights.attention;
  const int d = context_.width, heads = settings_.heads, channels = d / heads, n = context_.line->tokens();
  const double scale = 1 / std::sqrt(static_cast<double>(channels));
  const Rows w_qk(w.w_qkv, 2 * d, d);
  const Row b_qk(w.b_qkv, 2 * d);
  double value = 0;
  for (int sample = 0; sample < context_.samples; ++sample) {
    const auto b = static_cast<std::size_t>(sample);
    if (weight[b] == 0) continue;
    const int real = context_.mask.length.empty() ? n : context_.mask.length[b];
    const double share = weight[b] / (heads * real);
    const std::size_t first = b * static_cast<std::size_t>(d);
    Matrix x(real, d);
    if (settings_.layer_norm)
      layer_norm<double>(u + first, context_.row(), real, d, w.eps, w.gain, w.bias, x.data(),
                         static_cast<std::size_t>(d));
    else
      x = Eigen::Map<const Matrix, 0, Eigen::OuterStride<>>(
          u + first, real, d, Eigen::OuterStride<>(static_cast<long>(context_.row())));
    Matrix qk = x * w_qk.transpose();
    qk.rowwise() += b_qk;
    Matrix qk_bar(real, 2 * d);
    for (int head = 0; head < heads; ++head) {
      const auto q = qk.middleCols(head * channels, channels);
      const auto k = qk.middleCols(d + head * channels, channels);
      Matrix log_plan = scale * q * k.transpose();
      log_soft_max(log_plan);
      const std::size_t at = (b * static_cast<std::size_t>(heads) + static_cast<std::size_t>(head)) *
                             static_cast<std::size_t>(n) * static_cast<std::size_t>(n);
      const Matrix wanted = Rows(target + at, n, n).topLeftCorner(real, real);
      value += share * divergence(wanted, log_plan);
      if (u_bar == nullptr) continue;
      const Matrix plan = log_plan.array().exp();
      const Matrix logits_bar = share * scale * (plan - wanted);
      qk_bar.middleCols(head * channels, channels).noalias() = logits_bar * k;
      qk_bar.middleCols(d + head * channels, channels).noalias() = logits_bar.transpose() * q;
    }
    if (u_bar == nullptr) continue;
    const auto& to = gradient->attention;
    Eigen::Map<Matrix>(to.w_qkv, 2 * d, d).noalias() += qk_bar.transpose() * x;
    // (Eigen's colwise().sum() adds in an order that depends on where the sums lie in memory.)
    simd::add_rows(qk_bar.data(), static_cast<std::size_t>(real), 2 * static_cast<std::size_t>(d), to.b_qkv);
    const Matrix x_bar = qk_bar * w_qk;
    if (settings_.layer_norm)
      layer_norm_adjoint<double>(u + first, context_.row(), x_bar.data(), static_cast<std::size_t>(d), real,
                                 d, w.eps, w.gain, 1.0, u_bar + first, to.gain, to.bias);
    else
      Eigen::Map<Matrix, 0, Eigen::OuterStride<>>(
          u_bar + first, real, d, Eigen::OuterStride<>(static_cast<long>(context_.row()))) += x_bar;
  }
  return value;
}

}  // namespace fluxformer
