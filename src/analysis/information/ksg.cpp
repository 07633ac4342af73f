#include "analysis/information/ksg.hpp"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <nanoflann.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"

namespace fluxformer::information {
namespace {

/// x^8, which is compared instead of the distance x (see MaximumNorm).
double eighth_power(double x) {
  const double x2 = x * x, x4 = x2 * x2;
  return x4 * x4;
}

/// Interface of a set of points for nanoflann.
struct Cloud {
  Points points;
  std::size_t kdtree_get_point_count() const { return points.count; }
  double kdtree_get_pt(std::size_t i, std::size_t j) const { return points.row(i)[j]; }
  template <class Box>
  bool kdtree_get_bbox(Box&) const {
    return false;
  }
};

/// Maximum norm for nanoflann, which bounds the distance of a cell from below by a *sum* over axes. A sum
/// overestimates a maximum and would lose neighbours. max_j d_j^8 >= 1/D sum_j d_j^8 is a bound that it can
/// use, and a tight one: 8 % below the distance for D = 2, a third for D = 24. The factor 1 - 1e-9 allows for
/// round-off of the sum.
struct MaximumNorm {
  using ElementType = double;
  using DistanceType = double;
  explicit MaximumNorm(const Cloud& cloud) : cloud_(cloud), share_((1 - 1e-9) / cloud.points.components) {}

  double evalMetric(const double* a, std::size_t index, std::size_t size) const {
    using Row = Eigen::Map<const Eigen::ArrayXd>;
    const double largest = (Row(a, size) - Row(cloud_.points.row(index), size)).abs().maxCoeff();
    return eighth_power(largest);
  }
  double accum_dist(double a, double b, std::size_t) const { return share_ * eighth_power(std::abs(a - b)); }

 private:
  const Cloud& cloud_;
  double share_;
};

/// Counts points closer than `radius`.
struct Counter {
  using DistanceType = double;
  double radius;
  std::size_t count = 0;
  bool addPoint(double, std::uint32_t) { return ++count, true; }
  double worstDist() const { return radius; }
  std::size_t size() const { return count; }
  bool full() const { return true; }
  void sort() {}  // nanoflann 1.7 sorts what it found
};

/// k-d tree of points, which it owns. Radii are 8th powers.
class Tree {
 public:
  Tree(std::vector<double> values, Index components)
      : values_(std::move(values)),
        cloud_{{values_.data(), std::ssize(values_) / components, components}},
        index_(components, cloud_, nanoflann::KDTreeSingleIndexAdaptorParams(16)) {}
  Tree(const Tree&) = delete;
  Tree& operator=(const Tree&) = delete;

  Index size() const { return cloud_.points.count; }
  const double* point(Index i) const { return cloud_.points.row(i); }

  /// Distance from one of the tree's points to its k-th neighbour.
  double radius(const double* point, Index k) const {
    near_.resize(k + 1);
    distance_.resize(k + 1);
    index_.knnSearch(point, k + 1, near_.data(), distance_.data());  // the point itself comes first
    return distance_.back();
  }
  /// Number of points closer than `radius` or, if that is 0, at the same place; the point itself included.
  Index closer(const double* point, double radius) const {
    Counter counter{radius > 0 ? radius : std::numeric_limits<double>::denorm_min()};
    index_.radiusSearchCustomCallback(point, counter);
    return counter.count;
  }

 private:
  std::vector<double> values_;
  Cloud cloud_;
  nanoflann::KDTreeSingleIndexAdaptor<MaximumNorm, Cloud> index_;
  mutable std::vector<std::uint32_t> near_;
  mutable std::vector<double> distance_;
};

/// Sum of psi(n) over whole numbers n, added and subtracted, which does not depend on the order of the terms.
class DigammaSum {
 public:
  explicit DigammaSum(Index most) : times_(most + 1, 0) {}
  void add(Index n) { ++times_[n]; }
  void subtract(Index n) { --times_[n]; }
  /// Sum so far divided by `terms`, plus psi(most).
  double mean(Index terms) const {
    double psi = -0.57721566490153286061, sum = 0;  // psi(1) = -gamma, psi(n + 1) = psi(n) + 1/n
    for (Index n = 1; n < std::ssize(times_); ++n) {
      sum += times_[n] * psi;
      if (n + 1 < std::ssize(times_)) psi += 1.0 / n;
    }
    return psi + sum / terms;
  }

 private:
  std::vector<long> times_;
};

/// Points scaled to a root mean square deviation of about 1 by a power of two: differences are not rounded.
std::vector<double> scaled(const Points& points) {
  const Index size = points.count * points.components;
  std::vector<double> mean(points.components, 0.0), result(points.data, points.end());
  for (Index i = 0; i < size; ++i) mean[i % points.components] += points.data[i] / points.count;
  double square = 0;
  for (Index i = 0; i < size; ++i) {
    const double deviation = points.data[i] - mean[i % points.components];
    square += deviation * deviation / size;
  }
  if (!(square > 0)) return result;
  const int power = std::lround(-0.5 * std::log2(square));
  for (auto& value : result) value = std::ldexp(value, power);
  return result;
}

void require_neighbours(Index k, Index count) {
  if (k < 1 || k >= count)
    throw BadInput("mutual information (ksg): k = " + std::to_string(k) + ": must be 1 to " +
                   std::to_string(count - 1) + ", one below the number of samples");
}

}  // namespace

double ksg_information(const Points& a, const Points& b, Index k) {
  require_points("ksg", a);
  require_points("ksg", b);
  if (a.count != b.count)
    throw BadInput("mutual information (ksg): " + std::to_string(a.count) + " samples of one vector, " +
                   std::to_string(b.count) + " of the other");
  require_neighbours(k, a.count);
  std::vector<double> of_a = scaled(a), of_b = scaled(b), of_both;
  of_both.reserve(of_a.size() + of_b.size());
  const auto append = [&](const std::vector<double>& from, Index i, Index components) {
    const double* const row = from.data() + i * components;
    of_both.insert(of_both.end(), row, row + components);
  };
  for (Index i = 0; i < a.count; ++i) append(of_a, i, a.components), append(of_b, i, b.components);

  const Tree both(std::move(of_both), a.components + b.components);
  const Tree only_a(std::move(of_a), a.components), only_b(std::move(of_b), b.components);
  // psi(k) + psi(N) - < psi(n_a + 1) + psi(n_b + 1) >; counts include the point itself
  DigammaSum sum(a.count);
  for (Index i = 0; i < a.count; ++i) {
    const double radius = both.radius(both.point(i), k);
    sum.add(radius > 0 ? k : both.closer(both.point(i), 0));
    sum.subtract(only_a.closer(only_a.point(i), radius));
    sum.subtract(only_b.closer(only_b.point(i), radius));
  }
  return sum.mean(a.count);
}

double ksg_information(const Points& t, std::span<const int> labels, Index k) {
  require_points("ksg", t);
  require_labels("ksg", t, labels);
  require_neighbours(k, t.count);
  const LabelGroups groups(labels);
  const std::vector<double> values = scaled(t);
  const std::vector<double> sorted = groups.rows({values.data(), t.count, t.components});
  std::vector<double> used;
  std::vector<std::unique_ptr<Tree>> trees;
  for (Index g = 0; g < groups.groups(); ++g) {
    if (groups.size(g) < 2) continue;
    const auto at = [&](Index i) { return sorted.begin() + i * t.components; };
    used.insert(used.end(), at(groups.first[g]), at(groups.first[g + 1]));
    trees.push_back(std::make_unique<Tree>(std::vector<double>(at(groups.first[g]), at(groups.first[g + 1])),
                                           t.components));
  }
  if (trees.empty())
    throw BadInput("mutual information (ksg): every label occurs once; some must occur twice");

  // psi(N) + psi(k) - < psi(N_y) + psi(m) >
  const Index count = std::ssize(used) / t.components;
  const Tree all(std::move(used), t.components);
  DigammaSum sum(count);
  for (const auto& tree : trees) {
    const Index size = tree->size(), neighbours = std::min(k, size - 1);
    for (Index i = 0; i < size; ++i) {
      const double* const point = tree->point(i);
      const double radius = tree->radius(point, neighbours);
      sum.add(radius > 0 ? neighbours : tree->closer(point, 0));
      sum.subtract(size);
      sum.subtract(all.closer(point, radius));
    }
  }
  return sum.mean(count);
}

}  // namespace fluxformer::information
