#include "analysis/clusters/head_maps.hpp"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <utility>

#include "analysis/dense_matrices.hpp"
#include "model/depth_weights.hpp"
#include "operators/layer_norm.hpp"

namespace fluxformer::clusters {
namespace {

/// The gain of the norm in front of attention, null: none. For norm = post it is that of the norm behind.
const double* gain_before(const ModelSpec& spec, const AttentionWeights<const double>& w) {
  return spec.norm == Norm::pre ? w.gain : nullptr;
}

/// log sum_ij e^{a_ij} of at least one number.
double log_sum_exp(const Eigen::MatrixXd& a) {
  const double largest = a.maxCoeff();
  return largest + std::log((a.array() - largest).exp().sum());
}

/// W_Q G, W_K G, W_V G [c][d] and W_O [d][c] of a head.
struct HeadWeights {
  Eigen::MatrixXd query, key, value, output;
};

HeadWeights weights_of(const ModelSpec& spec, const AttentionWeights<const double>& w, Index head) {
  const Index d = spec.width, c = spec.attention.channels(spec.width);
  const Index group = head * spec.attention.key_groups() / spec.attention.heads;
  const Index queries = spec.query_width(), keys = spec.key_width();
  const auto rows = [&](Index first) {
    Eigen::MatrixXd found = Eigen::Map<const RowMatrix>(w.w_qkv + first * d, c, d);
    if (const double* const gain = gain_before(spec, w))
      found = found * Eigen::Map<const Eigen::VectorXd>(gain, d).asDiagonal();
    return found;
  };
  const Eigen::Map<const RowMatrix> output(w.w_o, d, queries);
  return {rows(head * c), rows(queries + group * c), rows(queries + keys + group * c),
          output.middleCols(head * c, c)};
}

/// tr(A B)
double trace(const Eigen::MatrixXd& a, const Eigen::MatrixXd& b) {
  return a.cwiseProduct(b.transpose()).sum();
}

/// The smallest eigenvalue of (M + M^T) / 2 over the largest in size, M = Q^T K with c rows each: eigenvalues on the span of the rows, and
/// 0 beyond.
double least_eigenvalue(const Eigen::MatrixXd& query, const Eigen::MatrixXd& key) {
  const Index d = query.cols(), c = query.rows();
  Eigen::MatrixXd symmetric;
  if (2 * c < d) {
    Eigen::MatrixXd both(d, 2 * c);
    both << query.transpose(), key.transpose();
    const auto basis = thin_qr(both).q;
    const Eigen::MatrixXd q = query * basis, k = key * basis;
    symmetric = (q.transpose() * k + k.transpose() * q) / 2;
  } else {
    symmetric = (query.transpose() * key + key.transpose() * query) / 2;
  }
  const auto values = symmetric_eigen(symmetric, Eigen::EigenvaluesOnly).values;
  const double least = 2 * c < d ? std::min(0.0, values[0]) : values[0];
  return least / values.cwiseAbs().maxCoeff();
}

HeadMap map_of(const HeadWeights& w) {
  // Norms and products of M = Q^T K and V = O W by traces of c x c matrices.
  const Eigen::MatrixXd key_query = w.key * w.query.transpose(), value_output = w.value * w.output;
  const double m_squared = trace(w.query * w.query.transpose(), w.key * w.key.transpose());
  const double v_squared = trace(w.output.transpose() * w.output, w.value * w.value.transpose());
  const double product = trace(w.output.transpose() * w.query.transpose(), w.key * w.value.transpose());
  HeadMap found;
  // V has the eigenvalues of W O, and 0.
  found.value_radius = largest_eigenvalue(value_output);
  found.value_scale = product / m_squared;
  found.value_mismatch = std::sqrt(std::max(0.0, 1 - product * product / (m_squared * v_squared)));
  // |M - M^T|^2 = 2 |M|^2 - 2 tr(M M)
  found.antisymmetry = std::sqrt(std::max(0.0, (1 - trace(key_query, key_query) / m_squared) / 2));
  found.least_eigenvalue = least_eigenvalue(w.query, w.key);
  return found;
}

}  // namespace

std::vector<HeadMap> head_maps(const Parameters& parameters) {
  const auto& spec = parameters.spec;
  DepthWeights<double> weights(parameters);
  std::vector<HeadMap> found;
  for (int layer = 1; layer <= spec.layers; ++layer) {
    const auto at = weights.at({layer, layer - 1.0});
    for (Index head = 0; head < spec.attention.heads; ++head)
      found.push_back(map_of(weights_of(spec, at.attention, head)));
  }
  return found;
}

HeadKernels::HeadKernels(const Parameters& parameters)
    : attention_(parameters.spec.attention), channels_(attention_.channels(parameters.spec.width)) {
  const auto& spec = parameters.spec;
  DepthWeights<double> weights(parameters);
  for (int layer = 1; layer <= spec.layers; ++layer) {
    const auto w = weights.at({layer, layer - 1.0}).attention;
    Layer one{.queries_and_keys =
                  Eigen::Map<const RowMatrix>(w.w_qkv, spec.query_width() + spec.key_width(), spec.width),
              .gain = {},
              .norm = w.norm};
    if (const double* const gain = gain_before(spec, w)) one.gain.assign(gain, gain + spec.width);
    layers_.push_back(std::move(one));
  }
}

void HeadKernels::put_log_energies(int layer, const RowMatrix& u, double* to) const {
  const auto& own = layers_[layer - 1];
  const Index n = u.rows(), d = u.cols(), heads = attention_.heads, groups = attention_.key_groups();
  if (n == 0) {
    std::fill(to, to + heads, std::nan(""));
    return;
  }
  RowMatrix x = u;
  if (!own.gain.empty())
    layer_norm<double>(u.data(), d, n, d, own.norm, own.gain.data(), nullptr, x.data(), d);
  const Eigen::MatrixXd both = x * own.queries_and_keys.transpose();
  for (Index head = 0; head < heads; ++head) {
    const auto q = both.middleCols(head * channels_, channels_);
    const auto k = both.middleCols((heads + head * groups / heads) * channels_, channels_);
    Eigen::MatrixXd a = q * k.transpose();
    if (attention_.kernel == Kernel::l2) {
      a.colwise() -= q.rowwise().squaredNorm() / 2;
      a.rowwise() -= k.rowwise().squaredNorm().transpose() / 2;
    } else {
      a /= std::sqrt(static_cast<double>(channels_));
    }
    to[head] = log_sum_exp(a) - 2 * std::log(static_cast<double>(n));
  }
}

}  // namespace fluxformer::clusters
