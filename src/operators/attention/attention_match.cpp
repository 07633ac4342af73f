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

/// Rows := logarithm of the soft-max of the rows, log p = logit - log sum exp(logit), from logits less their
/// maximum.
void log_soft_max(Matrix& logits) {
  logits.colwise() -= logits.rowwise().maxCoeff().eval();
  const Matrix powers = logits.array().exp();
  for (Index r = 0; r < logits.rows(); ++r) logits.row(r).array() -= std::log(powers.row(r).sum());
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
  const auto& theta = weights.attention;
  const Index d = context_.width, heads = settings_.heads, channels = d / heads, n = context_.line->tokens();
  const double scale = 1 / std::sqrt(static_cast<double>(channels));
  const Rows w_qk(theta.w_qkv, 2 * d, d);
  const Row b_qk(theta.b_qkv, 2 * d);
  const Eigen::OuterStride<> token(context_.row());
  double value = 0;
  for (Index b = 0; b < context_.samples; ++b) {
    if (weight[b] == 0) continue;
    const Index real = context_.mask.length.empty() ? n : context_.mask.length[b];
    const double share = weight[b] / (heads * real);
    Matrix x(real, d);  // N(u)
    if (settings_.layer_norm)
      layer_norm<double>(u + b * d, context_.row(), real, d, theta.eps, theta.gain, theta.bias, x.data(), d);
    else
      x = Eigen::Map<const Matrix, 0, Eigen::OuterStride<>>(u + b * d, real, d, token);
    Matrix qk = x * w_qk.transpose();
    qk.rowwise() += b_qk;
    Matrix qk_bar(real, 2 * d);
    for (Index head = 0; head < heads; ++head) {
      const auto q = qk.middleCols(head * channels, channels);
      const auto k = qk.middleCols(d + head * channels, channels);
      Matrix log_p = scale * q * k.transpose();
      log_soft_max(log_p);
      const Matrix wanted = Rows(target + (b * heads + head) * n * n, n, n).topLeftCorner(real, real);
      value += share * divergence(wanted, log_p);
      if (u_bar == nullptr) continue;
      // The derivative of KL(target || p) in the logits of a row is p - target.
      const Matrix p = log_p.array().exp();
      const Matrix logits_bar = share * scale * (p - wanted);
      qk_bar.middleCols(head * channels, channels).noalias() = logits_bar * k;
      qk_bar.middleCols(d + head * channels, channels).noalias() = logits_bar.transpose() * q;
    }
    if (u_bar == nullptr) continue;
    // q, k = W_{Q,K} N(u) + b_{Q,K}
    const auto& to = gradient->attention;
    Eigen::Map<Matrix>(to.w_qkv, 2 * d, d).noalias() += qk_bar.transpose() * x;
    // (Eigen's colwise().sum() adds in an order that depends on where the sums lie in memory.)
    simd::add_rows(qk_bar.data(), real, 2 * d, to.b_qkv);
    const Matrix x_bar = qk_bar * w_qk;
    if (settings_.layer_norm)
      layer_norm_adjoint<double>(u + b * d, context_.row(), x_bar.data(), d, real, d, theta.eps, theta.gain,
                                 1.0, u_bar + b * d, to.gain, to.bias);
    else
      Eigen::Map<Matrix, 0, Eigen::OuterStride<>>(u_bar + b * d, real, d, token) += x_bar;
  }
  return value;
}

}  // namespace fluxformer
