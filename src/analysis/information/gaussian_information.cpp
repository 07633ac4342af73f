#include "analysis/information/gaussian_information.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "analysis/dense_matrices.hpp"
#include "base/error.hpp"

namespace fluxformer::information {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;
using Rows = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

struct Moments {
  VectorXd mean;
  MatrixXd covariance;  // shrunk
};

/// Ledoit and Wolf: (1 - delta) S + delta tr(S)/m, with delta the squared ratio of the error of S to its
/// distance from the target.
Moments shrunk_moments(const Points& points) {
  const auto count = static_cast<Index>(points.count), m = static_cast<Index>(points.components);
  const auto n = static_cast<double>(points.count);
  Rows x = Eigen::Map<const Rows>(points.data, count, m);
  Moments result;
  result.mean = x.colwise().mean().transpose();
  x.rowwise() -= result.mean.transpose();
  MatrixXd& s = result.covariance;
  s = x.transpose() * x / n;
  const double target = s.trace() / static_cast<double>(m);
  const double square = s.squaredNorm(), distance = square - static_cast<double>(m) * target * target;
  // 1/N^2 sum_i |x_i x_i' - S|^2
  const double error = (x.rowwise().squaredNorm().squaredNorm() / n - square) / n;
  // Already a multiple of the identity (m = 1, one sample, a constant): nothing to shrink.
  if (!(distance > 1e-14 * square)) return result;
  const double shrinkage = std::clamp(error / distance, 0.0, 1.0);
  s *= 1 - shrinkage;
  s.diagonal().array() += shrinkage * target;
  return result;
}

/// N(mean, covariance) of one label, with the noise.
struct GaussianClass {
  VectorXd mean;
  MatrixXd covariance;
  double share;
  Cholesky factor;
};

Cholesky factor_of(const MatrixXd& covariance) {
  Cholesky factor(covariance);
  if (!factor.positive())
    throw NumericalFailure(
        "mutual information (gaussian): a covariance with noise is not positive; raise sigma");
  return factor;
}

double kullback_leibler(const GaussianClass& p, const GaussianClass& q) {
  const VectorXd step = q.factor.solve_lower(p.mean - q.mean);
  return 0.5 * (q.factor.solve(p.covariance).trace() - static_cast<double>(p.mean.size()) +
                step.squaredNorm() + q.factor.log_det() - p.factor.log_det());
}

double bhattacharyya(const GaussianClass& p, const GaussianClass& q) {
  const Cholesky factor = factor_of(0.5 * (p.covariance + q.covariance));
  const VectorXd step = factor.solve_lower(p.mean - q.mean);
  return 0.125 * step.squaredNorm() +
         0.5 * (factor.log_det() - 0.5 * (p.factor.log_det() + q.factor.log_det()));
}

/// -sum_y p_y ln sum_y' p_y' exp(-distance(y, y'))
template <class Distance>
double mixture_bound(const std::vector<GaussianClass>& classes, Distance&& distance) {
  double bound = 0;
  for (const auto& p : classes) {
    double sum = p.share;
    for (const auto& q : classes)
      if (&p != &q) sum += q.share * std::exp(-std::max(0.0, distance(p, q)));
    bound -= p.share * std::log(sum);
  }
  return bound;
}

/// Entropy of one Gaussian with mean and covariance of the mixture, minus the mean entropy of the classes.
double largest_entropy_bound(const std::vector<GaussianClass>& classes) {
  const Index m = classes.front().mean.size();
  VectorXd mean = VectorXd::Zero(m);
  for (const auto& c : classes) mean += c.share * c.mean;
  MatrixXd covariance = MatrixXd::Zero(m, m);
  double within = 0;
  for (const auto& c : classes) {
    covariance += c.share * (c.covariance + (c.mean - mean) * (c.mean - mean).transpose());
    within += c.share * c.factor.log_det();
  }
  return 0.5 * (factor_of(covariance).log_det() - within);
}

}  // namespace

double gaussian_channel(const double* covariance, std::size_t m, double sigma) {
  require_noise("gaussian", sigma);
  const auto size = static_cast<Index>(m);
  const Eigen::Map<const MatrixXd> given(covariance, size, size);
  if (m < 1 || !given.allFinite())
    throw BadInput(
        "mutual information (gaussian): a covariance needs at least one component and finite numbers");
  const SymmetricEigen eigen = symmetric_eigen(given, Eigen::EigenvaluesOnly);
  if (!eigen.converged)
    throw NumericalFailure(
        "mutual information (gaussian): the eigenvalues of the covariance do not converge");
  double sum = 0;
  for (const double variance : eigen.values) sum += std::log1p(std::max(0.0, variance) / (sigma * sigma));
  return 0.5 * sum;
}

InformationPlane gaussian_information(const Points& t, std::span<const int> labels, double sigma) {
  require_points("gaussian", t);
  require_labels("gaussian", t, labels);
  require_noise("gaussian", sigma);
  const Moments all = shrunk_moments(t);
  const double of_input = gaussian_channel(all.covariance.data(), t.components, sigma);

  const LabelGroups groups(labels);
  const std::vector<double> sorted = groups.rows(t);
  std::vector<GaussianClass> classes;
  for (std::size_t g = 0; g < groups.groups(); ++g) {
    auto moments =
        shrunk_moments({sorted.data() + groups.first[g] * t.components, groups.size(g), t.components});
    moments.covariance.diagonal().array() += sigma * sigma;
    classes.push_back({moments.mean, moments.covariance, groups.share(g), factor_of(moments.covariance)});
  }
  const double lower = mixture_bound(classes, bhattacharyya);
  const double entropy = groups.entropy();
  const double upper =
      std::min({mixture_bound(classes, kullback_leibler), largest_entropy_bound(classes), entropy});
  return {{.value = of_input}, between(lower, upper, entropy)};
}

}  // namespace fluxformer::information
