#include "analysis/paths/nested_wishart.hpp"

#include <cmath>
#include <utility>

#include "analysis/dense_matrices.hpp"
#include "base/error.hpp"
#include "base/index.hpp"

namespace fluxformer::paths {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;

/// Logarithm of the density of t = ln b for b ~ chi(k), up to a constant.
double log_chi(double t, double k) {
  return k * t - std::exp(2 * t) / 2;
}

}  // namespace

NestedWishart::NestedWishart(PathNetwork network) : network_(std::move(network)) {
  check(network_);
  for (int l = 1; l <= network_.layers(); ++l)
    if (network_.widths[l - 1] < network_.order_size(l))
      throw BadInput("the exact posterior of attention paths needs widths of at least " +
                     std::to_string(network_.order_size(l)) + " in layer " + std::to_string(l) +
                     ", the paths from there on");
}

int NestedWishart::coordinates() const {
  return 1 + coordinate_count(network_);
}

std::vector<double> NestedWishart::start() const {
  std::vector<double> x = {std::log(network_.readout_width()) / 2};
  x.reserve(coordinates());
  for (int l = network_.layers(); l >= 1; --l)
    for (int i = 0; i < network_.order_size(l); ++i)
      for (int j = 0; j <= i; ++j) x.push_back(i == j ? std::log(network_.widths[l - 1] - i) / 2 : 0);
  return x;
}

double NestedWishart::log_prior(std::span<const double> x) const {
  double sum = log_chi(x[0], network_.readout_width());
  std::size_t at = 1;
  for (int l = network_.layers(); l >= 1; --l)
    for (int i = 0; i < network_.order_size(l); ++i)
      for (int j = 0; j <= i; ++j, ++at)
        sum += i == j ? log_chi(x[at], network_.widths[l - 1] - i) : -x[at] * x[at] / 2;
  return sum;
}

OrderParameters NestedWishart::order(std::span<const double> x) const {
  const auto layers = static_cast<std::size_t>(network_.layers());
  OrderParameters order{.u = std::vector<MatrixXd>(layers),
                        .readout = network_.readout_variance * std::exp(2 * x[0]) / network_.readout_width()};
  MatrixXd above = MatrixXd::Constant(1, 1, std::sqrt(order.readout));  // a factor of U_{l+1}
  std::size_t at = 1;
  for (std::size_t l = layers; l-- > 0;) {
    const int size = network_.order_size(static_cast<int>(l) + 1);
    MatrixXd b = MatrixXd::Zero(size, size);
    for (Index i = 0; i < size; ++i)
      for (Index j = 0; j <= i; ++j, ++at) b(i, j) = i == j ? std::exp(x[at]) : x[at];
    const double scale = std::sqrt(network_.variances[l] / network_.widths[l]);
    // Lower triangular, as both of its factors.
    above = scale * (repeated(above, network_.heads[l]) * b).eval();
    order.u[l] = above * above.transpose();
  }
  return order;
}

}  // namespace fluxformer::paths
