#include "analysis/information/information.hpp"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "analysis/dense_matrices.hpp"
#include "base/error.hpp"
#include "operators/kernels/vector_math.hpp"

namespace fluxformer::information {

namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;

[[noreturn]] void refuse(std::string_view estimator, const std::string& why) {
  throw BadInput("mutual information (" + std::string(estimator) + "): " + why);
}

}  // namespace

LabelGroups::LabelGroups(std::span<const int> labels) : order(labels.size()) {
  std::iota(order.begin(), order.end(), Index{0});
  std::stable_sort(order.begin(), order.end(), [&](Index a, Index b) { return labels[a] < labels[b]; });
  for (Index i = 0; i < std::ssize(order); ++i)
    if (i == 0 || labels[order[i]] != labels[order[i - 1]]) first.push_back(i);
  first.push_back(std::ssize(order));
}

std::vector<double> LabelGroups::rows(const Points& points) const {
  std::vector<double> sorted;
  sorted.reserve(points.count * points.components);
  for (const Index i : order) sorted.insert(sorted.end(), points.row(i), points.row(i) + points.components);
  return sorted;
}

double LabelGroups::entropy() const {
  // H(Y) = -sum_y p_y ln p_y
  double sum = 0;
  for (Index g = 0; g < groups(); ++g) sum -= share(g) * std::log(share(g));
  return sum;
}

Information between(double lower, double upper, double most) {
  // The midpoint of the bounds before they are clamped: if both are off by the same amount it is exact.
  return {std::clamp(0.5 * (lower + upper), 0.0, most), std::clamp(lower, 0.0, most),
          std::clamp(upper, 0.0, most)};
}

void require_points(std::string_view estimator, const Points& points) {
  if (points.count < 2) refuse(estimator, std::to_string(points.count) + " samples; it needs at least 2");
  if (points.components < 1) refuse(estimator, "points of 0 components; it needs at least 1");
  const Index size = points.count * points.components;
  for (Index i = 0; i < size; ++i)
    if (!std::isfinite(points.data[i]))
      refuse(estimator, "component " + std::to_string(i % points.components) + " of sample " +
                            std::to_string(i / points.components) + " is not a finite number");
}

void require_labels(std::string_view estimator, const Points& points, std::span<const int> labels) {
  if (std::ssize(labels) != points.count)
    refuse(estimator, std::to_string(labels.size()) + " labels for " + std::to_string(points.count) +
                          " samples; it needs one for each");
}

void require_noise(std::string_view estimator, double sigma) {
  if (!(sigma > 0) || !std::isfinite(sigma))
    refuse(estimator, "sigma = " + std::to_string(sigma) + ": must be a finite number above 0");
}

namespace {

/// `count` intervals of equal width from `low` to `high`.
struct Grid {
  double low, high;
  Index count;

  std::int32_t bin(double x) const {
    if (!(high > low)) return 0;  // a constant state
    const double at = std::floor((x - low) / (high - low) * count), last = count - 1;
    return static_cast<std::int32_t>(std::clamp(at, 0.0, last));
  }
};

Grid grid_of(const Points& t, const Bins& bins) {
  constexpr Index most = Index{1} << 30;
  if (bins.count < 1 || bins.count > most)
    throw BadInput("mutual information (binning): " + std::to_string(bins.count) +
                   " bins; allowed are 1 to 1073741824");
  if (bins.range) {
    const auto [low, high] = *bins.range;
    if (!std::isfinite(low) || !std::isfinite(high) || !(high > low))
      throw BadInput("mutual information (binning): range " + std::to_string(low) + " to " +
                     std::to_string(high) + ": the second must be above the first");
    return {low, high, bins.count};
  }
  const auto [low, high] = std::minmax_element(t.data, t.end());
  return {*low, *high, bins.count};
}

/// Entropy of a partition of N samples: ln N - 1/N sum n ln n.
class PartitionEntropy {
 public:
  /// Adds a part of n samples.
  void add(Index n) {
    count_ += n;
    sum_ += n * std::log(n);
  }
  double value() const { return std::log(count_) - sum_ / count_; }

 private:
  double count_ = 0, sum_ = 0;
};

}  // namespace

InformationPlane binned_information(const Points& t, std::span<const int> labels, const Bins& bins) {
  require_points("binning", t);
  require_labels("binning", t, labels);
  const Grid grid = grid_of(t, bins);
  const Index size = t.count * t.components;
  std::vector<std::int32_t> cell(size);
  for (Index i = 0; i < size; ++i) cell[i] = grid.bin(t.data[i]);

  // Sorted by cell, then by label: runs are the cells, runs within them the pairs of cell and label.
  const auto same_cell = [&](Index a, Index b) {
    const auto* const p = cell.data() + a * t.components;
    return std::equal(p, p + t.components, cell.data() + b * t.components);
  };
  std::vector<Index> order(t.count);
  std::iota(order.begin(), order.end(), Index{0});
  std::sort(order.begin(), order.end(), [&](Index a, Index b) {
    const auto *const p = cell.data() + a * t.components, *const q = cell.data() + b * t.components;
    const auto [at_p, at_q] = std::mismatch(p, p + t.components, q);
    return at_p == p + t.components ? labels[a] < labels[b] : *at_p < *at_q;
  });
  PartitionEntropy cells, pairs;
  Index in_cell = 0, in_pair = 0;
  for (Index i = 0; i < t.count; ++i) {
    ++in_cell, ++in_pair;
    const bool last = i + 1 == t.count, ends = last || !same_cell(order[i], order[i + 1]);
    if (ends || labels[order[i]] != labels[order[i + 1]]) pairs.add(std::exchange(in_pair, 0));
    if (ends) cells.add(std::exchange(in_cell, 0));
  }

  const LabelGroups groups(labels);
  PartitionEntropy label;
  for (Index g = 0; g < groups.groups(); ++g) label.add(groups.size(g));
  // I(X; T_b) = H(T_b),  I(T_b; Y) = H(T_b) + H(Y) - H(T_b, Y)
  return {{.value = cells.value()}, {.value = cells.value() + label.value() - pairs.value()}};
}

namespace {

constexpr Index block_rows = 256, block_columns = 1024;

/// Sums over j of both kernels, d = |t_i - t_j|; the sample itself adds 1, so that logarithms are finite.
struct KernelSums {
  double wide = 0;    ///< sum of exp(-d^2 / (8 sigma^2))
  double narrow = 0;  ///< sum of exp(-d^2 / (2 sigma^2)), the fourth power of the wide kernel

  template <class Kernel>
  void add(const Kernel& kernel) {
    wide += kernel.sum();
    narrow += kernel.square().square().sum();
  }
};

/// Bounds of the entropy of a mixture, in nats, less the entropy of the noise: -sum_i share ln (1/count sum_j
/// kernel).
struct Entropies {
  double lower = 0, upper = 0;

  /// Adds one of the `count` samples of a mixture, with weight `share`.
  void add(const KernelSums& sums, double count, double share) {
    lower -= share * std::log(sums.wide / count);
    upper -= share * std::log(sums.narrow / count);
  }
};

}  // namespace

InformationPlane kde_information(const Points& t, std::span<const int> labels, double sigma) {
  require_points("kde", t);
  require_labels("kde", t, labels);
  require_noise("kde", sigma);
  const LabelGroups groups(labels);
  const Index count = t.count, m = t.components;

  // In units of sqrt(8) sigma and relative to the mean, so that |x|^2 + |y|^2 - 2xy, the exponent of the wide
  // kernel, loses the fewest digits. Sorted by label: the samples of one label are a range of columns.
  RowMatrix x = Eigen::Map<const RowMatrix>(groups.rows(t).data(), count, m);
  x.rowwise() -= x.colwise().mean().eval();
  x /= std::sqrt(8.0) * sigma;
  const Eigen::VectorXd square = x.rowwise().squaredNorm();

  const double n = count;
  Entropies all, within;
  RowMatrix kernel;
  std::vector<Index> group_of(count);
  for (Index g = 0; g < groups.groups(); ++g)
    for (Index i = groups.first[g]; i < groups.first[g + 1]; ++i) group_of[i] = g;
  for (Index row = 0; row < count; row += block_rows) {
    const Index rows = std::min(block_rows, count - row);
    std::vector<KernelSums> over_all(rows), over_group(rows);
    for (Index column = 0; column < count; column += block_columns) {
      const Index columns = std::min(block_columns, count - column);
      // exp(2 x.y - |x|^2 - |y|^2) for a block of samples x (rows) and y (columns); exactly 1 on the diagonal
      kernel.noalias() = 2 * x.middleRows(row, rows) * x.middleRows(column, columns).transpose();
      kernel.colwise() -= square.segment(row, rows);
      kernel.rowwise() -= square.segment(column, columns).transpose();
      kernel = kernel.cwiseMin(0.0);  // round-off may be positive
      for (Index i = std::max(row, column); i < std::min(row + rows, column + columns); ++i)
        kernel(i - row, i - column) = 0;
      exp_shifted(kernel.data(), kernel.size(), 0.0);
      for (Index i = 0; i < rows; ++i) {
        const Index g = group_of[row + i];
        over_all[i].add(kernel.row(i).array());
        const Index from = std::max(column, groups.first[g]);
        const Index to = std::min(column + columns, groups.first[g + 1]);
        if (from < to) over_group[i].add(kernel.row(i).segment(from - column, to - from).array());
      }
    }
    for (Index i = 0; i < rows; ++i) {
      all.add(over_all[i], n, 1 / n);
      within.add(over_group[i], groups.size(group_of[row + i]), 1 / n);
    }
  }
  // I(T + sigma Z; Y) = I(X; T + sigma Z) - sum_y p_y I(X; T + sigma Z | Y = y)
  return {between(all.lower, all.upper, std::log(n)),
          between(all.lower - within.upper, all.upper - within.lower, groups.entropy())};
}

namespace {

/// Mean and shrunk covariance.
struct Moments {
  VectorXd mean;
  MatrixXd covariance;
};

/// Moments after Ledoit and Wolf: covariance (1 - delta) S + delta tr(S)/m, with delta the squared ratio of
/// the error of S to its distance from the target.
Moments shrunk_moments(const Points& points) {
  const double n = points.count, m = points.components;
  RowMatrix x = Eigen::Map<const RowMatrix>(points.data, points.count, points.components);
  Moments result;
  result.mean = x.colwise().mean().transpose();
  x.rowwise() -= result.mean.transpose();
  MatrixXd& s = result.covariance;
  s = x.transpose() * x / n;
  const double target = s.trace() / m;
  const double square = s.squaredNorm(), distance = square - m * target * target;
  // 1/N^2 sum_i |x_i x_i' - S|^2
  const double error = (x.rowwise().squaredNorm().squaredNorm() / n - square) / n;
  // Already a multiple of the identity (m = 1, one sample, a constant): nothing to shrink.
  if (!(distance > 1e-14 * square)) return result;
  const double shrinkage = std::clamp(error / distance, 0.0, 1.0);
  s *= 1 - shrinkage;
  s.diagonal().array() += shrinkage * target;
  return result;
}

/// Gaussian class N(mean, covariance) of one label, with the noise.
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

/// KL(p || q) = 1/2 [tr(S_q^-1 S_p) - m + |L_q^-1 (mu_p - mu_q)|^2 + ln det S_q - ln det S_p], S = L L^T
double kullback_leibler(const GaussianClass& p, const GaussianClass& q) {
  const VectorXd step = q.factor.solve_lower(p.mean - q.mean);
  return 0.5 * (q.factor.solve(p.covariance).trace() - p.mean.size() + step.squaredNorm() +
                q.factor.log_det() - p.factor.log_det());
}

/// 1/8 |L^-1 (mu_p - mu_q)|^2 + 1/2 [ln det S - (ln det S_p + ln det S_q) / 2], S = (S_p + S_q) / 2 = L L^T
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

/// Entropy of one Gaussian with mean and covariance of the mixture, less the mean entropy of the classes.
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

double gaussian_channel(const double* covariance, Index m, double sigma) {
  require_noise("gaussian", sigma);
  const Eigen::Map<const MatrixXd> given(covariance, m, m);
  if (m < 1 || !given.allFinite())
    throw BadInput(
        "mutual information (gaussian): a covariance needs at least one component and finite numbers");
  const SymmetricEigen eigen = symmetric_eigen(given, Eigen::EigenvaluesOnly);
  if (!eigen.converged)
    throw NumericalFailure(
        "mutual information (gaussian): the eigenvalues of the covariance do not converge");
  // 1/2 ln det(1 + Sigma / sigma^2) = 1/2 sum over eigenvalues
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
  for (Index g = 0; g < groups.groups(); ++g) {
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
