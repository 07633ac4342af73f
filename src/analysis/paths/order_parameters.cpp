#include "analysis/paths/order_parameters.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "analysis/dense_matrices.hpp"
#include "base/error.hpp"
#include "base/index.hpp"

namespace fluxformer::paths {

double PathNetwork::prior_variance(int from) const {
  // s_a^2 s_from^2 ... s_L^2
  return std::accumulate(variances.begin() + (from - 1), variances.end(), readout_variance,
                         std::multiplies<>());
}

int PathNetwork::order_size(int l) const {
  // H_l ... H_L; 1 for l = L + 1
  return std::accumulate(heads.begin() + (l - 1), heads.end(), 1, std::multiplies<>());
}

double PathNetwork::largest_width() const {
  return *std::ranges::max_element(widths);
}

PathNetwork network_of_width(const std::vector<int>& heads, double width) {
  return {.heads = heads,
          .widths = std::vector<double>(heads.size() + 1, width),
          .variances = std::vector<double>(heads.size(), 1.0)};
}

void check(const PathNetwork& network) {
  const auto positive = [](double value) { return value > 0 && std::isfinite(value); };
  if (network.heads.empty() || std::ranges::any_of(network.heads, [](int heads) { return heads < 1; }))
    throw BadInput("a network of attention paths needs at least one layer, and a head in each");
  if (network.widths.size() != network.heads.size() + 1 || network.variances.size() != network.heads.size())
    throw BadInput("a network of " + std::to_string(network.layers()) +
                   " attention layers needs one width more, and as many variances");
  if (!std::ranges::all_of(network.widths, positive) || !std::ranges::all_of(network.variances, positive) ||
      !positive(network.input_variance) || !positive(network.readout_variance))
    throw BadInput("widths and variances of a network of attention paths must be positive");
}

void check_whole_widths(const PathNetwork& network) {
  for (const double width : network.widths)
    if (width != std::floor(width) || width > 1e9)
      throw BadInput(
          "the weights of a network of attention paths can only be drawn if its widths are whole numbers");
}

namespace {

using Eigen::MatrixXd;

/// Beyond these the exponential of a coordinate would leave the range in which squares can be represented.
constexpr double largest_log = 150;

/// R from its coordinates, which begin at `at`.
MatrixXd factor(const double* at, Index size) {
  MatrixXd r = MatrixXd::Zero(size, size);
  for (Index i = 0; i < size; ++i)
    for (Index j = 0; j <= i; ++j, ++at)
      r(i, j) = i == j ? std::exp(std::clamp(*at, -largest_log, largest_log)) : *at;
  return r;
}

}  // namespace

OrderParameters gaussian_process_point(const PathNetwork& network) {
  OrderParameters order{.readout = network.readout_variance};
  order.u.reserve(network.heads.size());
  for (int l = 1; l <= network.layers(); ++l) {
    const int size = network.order_size(l);
    // U_l = s_a^2 prod_{k >= l} s_k^2 I
    order.u.emplace_back(network.prior_variance(l) * MatrixXd::Identity(size, size));
  }
  return order;
}

MatrixXd partial_trace(const MatrixXd& u, int heads) {
  const Index size = u.rows() / heads;
  MatrixXd sum = MatrixXd::Zero(size, size);
  // sum_h U^{(h b), (h b')}: the diagonal blocks
  for (Index h = 0; h < heads; ++h) sum += u.block(h * size, h * size, size, size);
  return sum;
}

MatrixXd repeated(const MatrixXd& a, int heads) {
  MatrixXd all = MatrixXd::Zero(a.rows() * heads, a.cols() * heads);
  for (Index h = 0; h < heads; ++h) all.block(h * a.rows(), h * a.cols(), a.rows(), a.cols()) = a;
  return all;
}

double best_readout(const PathNetwork& network, const MatrixXd& last) {
  // Positive root of u^2 + b u - g: b = s_a^2 (H_L N_L/N_a - 1), g = tr(U_L) N_L s_a^2/(N_a s_L^2)
  const double variance = network.readout_variance,
               ratio = network.widths[network.widths.size() - 2] / network.readout_width(),  // N_L / N_a
      b = variance * (network.heads.back() * ratio - 1),
               g = last.trace() * ratio * variance / network.variances.back(),
               root = std::sqrt(b * b + 4 * g);
  return b > 0 ? 2 * g / (b + root) : (root - b) / 2;  // without cancellation
}

int coordinate_count(const PathNetwork& network) {
  int count = 0;
  for (int l = 1; l <= network.layers(); ++l)
    count += network.order_size(l) * (network.order_size(l) + 1) / 2;
  return count;
}

std::vector<double> coordinates_of(const OrderParameters& order) {
  std::vector<double> coordinates;
  for (const auto& u : order.u) {
    // U = R R^T, x = ln R_ii on the diagonal
    const auto lower = Cholesky(u).lower();
    for (Index i = 0; i < u.rows(); ++i)
      for (Index j = 0; j <= i; ++j) coordinates.push_back(i == j ? std::log(lower(i, i)) : lower(i, j));
  }
  return coordinates;
}

OrderParameters order_at(const PathNetwork& network, const std::vector<double>& coordinates) {
  OrderParameters order;
  order.u.reserve(network.heads.size());
  const double* at = coordinates.data();
  for (int l = 1; l <= network.layers(); ++l) {
    const Index size = network.order_size(l);
    const auto r = factor(at, size);
    // U = R R^T is positive definite whatever the coordinates.
    order.u.emplace_back(r * r.transpose());
    at += size * (size + 1) / 2;
  }
  order.readout = best_readout(network, order.u.back());
  return order;
}

std::vector<double> pulled_back(const std::vector<double>& coordinates, const std::vector<MatrixXd>& slopes) {
  std::vector<double> gradient;
  gradient.reserve(coordinates.size());
  for (const auto& slope : slopes) {
    const auto r = factor(coordinates.data() + gradient.size(), slope.rows());
    // S(R R^T): dS/dR = 2 (dS/dU) R; the diagonal is exp(x), which adds the factor R_ii.
    const MatrixXd d = 2 * slope * r;
    for (Index i = 0; i < d.rows(); ++i)
      for (Index j = 0; j <= i; ++j) gradient.push_back(i == j ? d(i, i) * r(i, i) : d(i, j));
  }
  return gradient;
}

std::vector<double> padded_orders(
    const OrderParameters& order) {  // they are symmetric: by rows as by columns
  const auto size = order.u.front().rows();
  std::vector<double> all;
  for (const auto& u : order.u) {
    MatrixXd large = MatrixXd::Constant(size, size, std::numeric_limits<double>::quiet_NaN());
    large.topLeftCorner(u.rows(), u.cols()) = u;
    all.insert(all.end(), large.data(), large.data() + large.size());
  }
  return all;
}

}  // namespace fluxformer::paths
