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

/// 8th powers are compared instead of distances (see MaximumNorm).
double eighth_power(double x) {
  const double x2 = x * x, x4 = x2 * x2;
  return x4 * x4;
}

/// The interface that nanoflann needs for a set of points.
struct Cloud {
  Points points;
  std::size_t kdtree_get_point_count() const { return points.count; }
  double kdtree_get_pt(std::size_t i, std::size_t j) const { return points.row(i)[j]; }
  template <class Box>
  bool kdtree_get_bbox(Box&) const {
    return false;
  }
};

/// nanoflann bounds the distance of a cell from below by a *sum* over axes, which overestimates a maximum and
/// would lose neighbours. max_j d_j^8 >= 1/D sum_j d_j^8 is a bound that it can use, and a tight one: 8 %
/// below the distance for D = 2, a third for D = 24. The last factor allows for round-off of the sum.
struct MaximumNorm {
  using ElementType = double;
  using DistanceType = double;
  explicit MaximumNorm(const Cloud& cloud)
      : cloud_(cloud), share_((1 - 1e-9) / static_cast<double>(cloud.points.components)) {}

  double evalMetric(const double* a, std::size_t index, std::size_t size) const {
    using Row = Eigen::Map<const Eigen::ArrayXd>;
    const auto n = static_cast<Eigen::Index>(size);
    const double largest = (Row(a, n) - Row(cloud_.points.row(index), n)).abs().maxCoeff();
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
};

/// Owns its points; radii are 8th powers.
class Tree {
 public:
  Tree(std::vector<double> values, std::size_t components)
      : values_(std::move(values)),
        cloud_{{values_.data(), values_.size() / components, components}},
        index_(components, cloud_, nanoflann::KDTreeSingleIndexAdaptorParams(16)) {}
  Tree(const Tree&) = delete;
  Tree& operator=(const Tree&) = delete;

  std::size_t size() const { return cloud_.points.count; }
  const double* point(std::size_t i) const { return cloud_.points.row(i); }

  /// Distance from one of the tree's points to its k-th neighbour.
  double radius(const double* point, std::size_t k) const {
    near_.resize(k + 1);
    distance_.resize(k + 1);
    index_.knnSearch(point, k + 1, near_.data(), distance_.data());  // the point itself comes first
    return distance_.back();
  }
  /// Number of points closer than `radius` or, if that is 0, at the same place; the point itself included.
  std::size_t closer(const double* point, double radius) const {
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

/// sum_i (psi(.) - psi(.)) of whole numbers, which does not depend on the order of the terms.
class DigammaSum {
 public:
  explicit DigammaSum(std::size_t most) : times_(most + 1, 0) {}
  void add(std::size_t n) { ++times_[n]; }
  void subtract(std::size_t n) { --times_[n]; }
  /// Their sum so far divided by `terms`, plus psi(most).
  double mean(std::size_t terms) const {
    double psi = -0.57721566490153286061, sum = 0;  // psi(1) = -gamma, psi(n + 1) = psi(n) + 1/n
    for (std::size_t n = 1; n < times_.size(); ++n) {
      sum += static_cast<double>(times_[n]) * psi;
      if (n + 1 < times_.size()) psi += 1 / static_cast<double>(n);
    }
    return psi + sum / static_cast<double>(terms);
  }

 private:
  std::vector<long> times_;
};

/// Scaled to a root mean square deviation of about 1, by a power of two: differences are not rounded.
std::vector<double> scaled(const Points& points) {
  const std::size_t size = points.count * points.components;
  std::vector<double> mean(points.components, 0.0), result(points.data, points.data + size);
  for (std::size_t i = 0; i < size; ++i)
    mean[i % points.components] += points.data[i] / static_cast<double>(points.count);
  double square = 0;
  for (std::size_t i = 0; i < size; ++i) {
    const double deviation = points.data[i] - mean[i % points.components];
    square += deviation * deviation / static_cast<double>(size);
  }
  if (!(square > 0)) return result;
  const int power = static_cast<int>(std::lround(-0.5 * std::log2(square)));
  for (auto& value : result) value = std::ldexp(value, power);
  return result;
}

void require_neighbours(std::size_t k, std::size_t count) {
  if (k < 1 || k >= count)
    throw BadInput("mutual information (ksg): k = " + std::to_string(k) + ": must be 1 to " +
                   std::to_string(count - 1) + ", one below the number of samples");
}

}  // namespace

double ksg_information(const Points& a, const Points& b, std::size_t k) {
  require_points("ksg", a);
  require_points("ksg", b);
  if (a.count != b.count)
    throw BadInput("mutual information (ksg): " + std::to_string(a.count) + " samples of one vector, " +
                   std::to_string(b.count) + " of the other");
  require_neighbours(k, a.count);
  std::vector<double> of_a = scaled(a), of_b = scaled(b), of_both;
  of_both.reserve(of_a.size() + of_b.size());
  const auto append = [&](const std::vector<double>& from, std::size_t i, std::size_t components) {
    const double* const row = from.data() + i * components;
    of_both.insert(of_both.end(), row, row + components);
  };
  for (std::size_t i = 0; i < a.count; ++i) append(of_a, i, a.components), append(of_b, i, b.components);

  const Tree both(std::move(of_both), a.components + b.components);
  const Tree only_a(std::move(of_a), a.components), only_b(std::move(of_b), b.components);
  DigammaSum sum(a.count);
  for (std::size_t i = 0; i < a.count; ++i) {
    const double radius = both.radius(both.point(i), k);
    sum.add(radius > 0 ? k : both.closer(both.point(i), 0));
    sum.subtract(only_a.closer(only_a.point(i), radius));
    sum.subtract(only_b.closer(only_b.point(i), radius));
  }
  return sum.mean(a.count);
}

double ksg_information(const Points& t, std::span<const int> labels, std::size_t k) {
  require_points("ksg", t);
  require_labels("ksg", t, labels);
  require_neighbours(k, t.count);
  const LabelGroups groups(labels);
  const std::vector<double> values = scaled(t);
  const std::vector<double> sorted = groups.rows({values.data(), t.count, t.components});
  std::vector<double> used;
  std::vector<std::unique_ptr<Tree>> trees;
  for (std::size_t g = 0; g < groups.groups(); ++g) {
    if (groups.size(g) < 2) continue;
    const auto at = [&](std::size_t i) {
      return sorted.begin() + static_cast<std::ptrdiff_t>(i * t.components);
    };
    used.insert(used.end(), at(groups.first[g]), at(groups.first[g + 1]));
    trees.push_back(std::make_unique<Tree>(std::vector<double>(at(groups.first[g]), at(groups.first[g + 1])),
                                           t.components));
  }
  if (trees.empty())
    throw BadInput("mutual information (ksg): every label occurs once; some must occur twice");

  const std::size_t count = used.size() / t.components;
  const Tree all(std::move(used), t.components);
  DigammaSum sum(count);
  for (const auto& tree : trees) {
    const std::size_t size = tree->size(), neighbours = std::min(k, size - 1);
    for (std::size_t i = 0; i < size; ++i) {
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
