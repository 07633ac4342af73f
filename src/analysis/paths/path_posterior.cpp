#include "analysis/paths/path_posterior.hpp"

#include <cmath>
#include <string>
#include <utility>

#include "analysis/dense_matrices.hpp"
#include "base/error.hpp"
#include "base/index.hpp"

namespace fluxformer::paths {
namespace {

using Eigen::Map;
using Eigen::VectorXd;

using Weights = Map<const RowMatrix>;

void require(const PathNetwork& network, const PathExamples& examples, double temperature) {
  check(network);
  check_whole_widths(network);
  if (!(temperature > 0) || !std::isfinite(temperature))
    throw BadInput("the temperature of attention paths must be positive");
  if (examples.inputs.cols() == 0 || examples.inputs.cols() % network.paths() != 0 ||
      examples.targets.size() != examples.inputs.rows())
    throw BadInput("the attentioned inputs are not those of the " + std::to_string(network.paths()) +
                   " paths of the network");
}

}  // namespace

PathPosterior::PathPosterior(PathNetwork network, const PathExamples& examples, double temperature)
    : network_((require(network, examples, temperature), std::move(network))),
      examples_(examples),
      temperature_(temperature),
      dimension_(examples.inputs.cols() / network_.paths()),
      output_scale_(std::sqrt(network_.input_variance / examples.inputs.cols() / network_.widths[0])),
      offsets_{0, width(0) * dimension_} {
  for (Index l = 0; l < layers(); ++l) {
    // V_l = s_l q_l, and w_l has 1/sqrt(N_{l+1})
    scales_.push_back(std::sqrt(network_.variances[l] / network_.widths[l + 1]));
    offsets_.push_back(offsets_.back() + network_.heads[l] * width(l) * width(l + 1));
    w_.emplace_back(network_.order_size(l + 1), width(l));
  }
  offsets_.push_back(offsets_.back() + width(layers()));
  w_.emplace_back(1, width(layers()));
  w_slope_ = w_;
}

void PathPosterior::effective_weights(const double* q) {
  const double a_scale = std::sqrt(network_.readout_variance);
  w_.back() = a_scale * Weights(q + offsets_[layers() + 1], 1, width(layers()));
  for (Index l = layers(); l-- > 0;) {
    const Index rest = w_[l + 1].rows(), size = width(l) * width(l + 1);
    // w_l^{(h, rest)} = V_{l,h}^T w_{l+1}^{rest}/sqrt(N_{l+1}), as rows
    for (int h = 0; h < network_.heads[l]; ++h)
      w_[l].middleRows(h * rest, rest).noalias() =
          scales_[l] * w_[l + 1] * Weights(q + offsets_[l + 1] + h * size, width(l + 1), width(l));
  }
}

void PathPosterior::forward(std::span<const double> q) {
  f_ = outputs(examples_.inputs, input_weights(q));
}

double PathPosterior::value(std::span<const double> q, std::span<double> gradient) {
  forward(q);
  error_ = (f_ - examples_.targets) / temperature_;
  const Map<const VectorXd> all(q.data(), q.size());
  // |q|^2/2 + |f - y|^2/(2 T), error_ = (f - y)/T
  const double phi = all.squaredNorm() / 2 + temperature_ * error_.squaredNorm() / 2;

  mixed_slope_.resize(mixed_.rows(), mixed_.cols());
  // f = X . (w V_0) scaled: slope by w V_0, then by V_0 and by w
  Map<VectorXd>(mixed_slope_.data(), mixed_slope_.size()).noalias() =
      output_scale_ * (examples_.inputs.transpose() * error_);
  Map<RowMatrix>(gradient.data(), width(0), dimension_).noalias() = w_.front().transpose() * mixed_slope_;
  // Slope of w_1 from w_1 V_0
  w_slope_.front().noalias() = mixed_slope_ * Weights(q.data(), width(0), dimension_).transpose();
  for (Index l = 0; l < layers(); ++l) {
    const Index rest = w_[l + 1].rows(), size = width(l) * width(l + 1);
    w_slope_[l + 1].setZero();
    for (int h = 0; h < network_.heads[l]; ++h) {
      const Index at = offsets_[l + 1] + h * size;
      const auto slope = w_slope_[l].middleRows(h * rest, rest);
      // w_l = w_{l+1} V: slope of V is w_{l+1}^T slope, that of w_{l+1} is slope V^T.
      Map<RowMatrix>(gradient.data() + at, width(l + 1), width(l)).noalias() =
          scales_[l] * w_[l + 1].transpose() * slope;
      w_slope_[l + 1].noalias() +=
          scales_[l] * slope * Weights(q.data() + at, width(l + 1), width(l)).transpose();
    }
  }
  Map<RowMatrix>(gradient.data() + offsets_[layers() + 1], 1, width(layers())) =
      std::sqrt(network_.readout_variance) * w_slope_.back();
  Map<VectorXd>(gradient.data(), gradient.size()) += all;
  return phi;
}

const RowMatrix& PathPosterior::input_weights(std::span<const double> q) {
  effective_weights(q.data());
  mixed_.noalias() = output_scale_ * w_.front() * Weights(q.data(), width(0), dimension_);
  return mixed_;
}

OrderParameters PathPosterior::order(std::span<const double> q) {
  effective_weights(q.data());
  OrderParameters order{.readout = w_.back().squaredNorm() / network_.readout_width()};
  order.u.reserve(layers());
  // U_l = w_l w_l^T/N_l
  for (Index l = 0; l < layers(); ++l) order.u.emplace_back(w_[l] * w_[l].transpose() / network_.widths[l]);
  return order;
}

std::vector<double> PathPosterior::virials(std::span<const double> q) {
  forward(q);
  std::vector<double> all;
  all.reserve(offsets_.size());
  for (Index k = 0; k + 1 < std::ssize(offsets_); ++k) {
    const Index count = offsets_[k + 1] - offsets_[k];
    // |V|^2/s^2 - dim V
    all.push_back(Map<const VectorXd>(q.data() + offsets_[k], count).squaredNorm() - count);
  }
  // sum_mu f_mu (y_mu - f_mu)/T
  all.push_back(f_.dot(examples_.targets - f_) / temperature_);
  return all;
}

namespace {

using Eigen::MatrixXd;

/// Logarithm of the density of t = ln b for b ~ chi(k), up to a constant.
double log_chi(double t, double k) {
  return k * t - std::exp(2 * t) / 2;
}

}  // namespace

NestedWishart::NestedWishart(PathNetwork network) : network_(std::move(network)) {
  check(network_);
  // A Wishart matrix of n_l rows needs N_l >= n_l degrees of freedom.
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
  // ln b of b ~ chi(k) has its mode at e^{2t} = k: t = ln(k)/2.
  std::vector<double> x = {std::log(network_.readout_width()) / 2};
  x.reserve(coordinates());
  for (int l = network_.layers(); l >= 1; --l)
    for (int i = 0; i < network_.order_size(l); ++i)
      for (int j = 0; j <= i; ++j) x.push_back(i == j ? std::log(network_.widths[l - 1] - i) / 2 : 0);
  return x;
}

double NestedWishart::log_prior(std::span<const double> x) const {
  // c ~ chi(N_a), B_ii ~ chi(N_l - i), B_ij ~ N(0, 1)
  double sum = log_chi(x[0], network_.readout_width());
  std::size_t at = 1;
  for (int l = network_.layers(); l >= 1; --l)
    for (int i = 0; i < network_.order_size(l); ++i)
      for (int j = 0; j <= i; ++j, ++at)
        sum += i == j ? log_chi(x[at], network_.widths[l - 1] - i) : -x[at] * x[at] / 2;
  return sum;
}

OrderParameters NestedWishart::order(std::span<const double> x) const {
  const Index layers = network_.layers();
  OrderParameters order{.u = std::vector<MatrixXd>(layers),
                        .readout = network_.readout_variance * std::exp(2 * x[0]) / network_.readout_width()};
  MatrixXd above = MatrixXd::Constant(1, 1, std::sqrt(order.readout));  // a factor of U_{l+1}
  std::size_t at = 1;
  for (Index l = layers; l-- > 0;) {
    const int size = network_.order_size(l + 1);
    MatrixXd b = MatrixXd::Zero(size, size);
    for (Index i = 0; i < size; ++i)
      for (Index j = 0; j <= i; ++j, ++at) b(i, j) = i == j ? std::exp(x[at]) : x[at];
    // F_l = s_l/sqrt(N_l) (I (x) F_{l+1}) B, U_l = F_l F_l^T
    const double scale = std::sqrt(network_.variances[l] / network_.widths[l]);
    // Lower triangular, as both of its factors.
    above = scale * (repeated(above, network_.heads[l]) * b).eval();
    order.u[l] = above * above.transpose();
  }
  return order;
}

}  // namespace fluxformer::paths
