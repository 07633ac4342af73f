#include "analysis/identifiability/alternative_weights.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "analysis/identifiability/column_space.hpp"
#include "base/index.hpp"

namespace fluxformer::identifiability {
namespace {

using Row = Eigen::RowVectorXd;

double variation(const Row& a, const Row& b) {
  return (a - b).cwiseAbs().sum() / 2;
}

/// Directions g, one a row: away from a, less of the largest weights, and random ones.
Matrix directions(const Row& a, const Row& b, const AlternativeSearch& search, const RandomStream& stream) {
  const Index n = b.size(), largest = std::min<Index>(search.largest, n);
  Matrix g = Matrix::Zero(1 + largest + search.random, n);
  // Away from a; then minus the unit vectors of the largest weights; then random ones
  g.row(0) = (b - a).cwiseSign();
  std::vector<Index> order(n);
  std::iota(order.begin(), order.end(), 0);
  std::partial_sort(order.begin(), order.begin() + largest, order.end(),
                    [&](Index i, Index j) { return b[i] > b[j]; });
  for (Index k = 0; k < largest; ++k) g(1 + k, order[k]) = -1;
  for (Index k = 1 + largest; k < g.rows(); ++k)
    for (Index j = 0; j < n; ++j) g(k, j) = stream.uniform(k * n + j, -1, 1);
  return g;
}

/// b + t x with the largest t that keeps all entries non-negative; the entry that stops it becomes exactly 0.
Row as_far_as_possible(const Row& b, const Row& x) {
  double t = std::numeric_limits<double>::infinity();
  Index stop = -1;
  for (Index j = 0; j < b.size(); ++j)
    if (x[j] < 0 && b[j] / -x[j] < t) {
      t = b[j] / -x[j];
      stop = j;
    }
  if (stop < 0 || !std::isfinite(t)) return b;
  Row far = (b + t * x).cwiseMax(0);
  far[stop] = 0;
  return far;
}

/// Moves b to a better point; false if there is none.
bool improve(const Row& a, Row& b, const Eigen::MatrixXd& ones, const Matrix& g) {
  // y = g B less its projection on col(B [T, 1]); x = B y is in LN([T, 1]).
  const auto scaled = column_space(b.transpose().asDiagonal() * ones);
  const Matrix wanted = g * b.asDiagonal(), free = scaled.remove(wanted);
  double best = variation(a, b) * (1 + 1e-12);
  Row next = b;
  for (Index k = 0; k < g.rows(); ++k) {
    // What is left of a direction without any freedom is round-off.
    if (!(free.row(k).norm() > 1e-10 * wanted.row(k).norm())) continue;
    const Row x = free.row(k) * b.asDiagonal();
    for (const double sign : {1.0, -1.0}) {
      Row candidate = as_far_as_possible(b, sign * x);
      if (const double distance = variation(a, candidate); distance > best) {
        best = distance;
        next = std::move(candidate);
      }
    }
  }
  const bool better = next != b;
  b = next;
  return better;
}

/// a plus the part of b - a in the null space, shortened until nothing is negative beyond round-off.
Row made_exact(const Row& a, const Row& b, const ColumnSpace& space) {
  Row x = b - a;
  // Twice: the first projection leaves the round-off of large steps.
  for (int repeat = 0; repeat < 2; ++repeat) x = space.remove(x);
  constexpr double rounding = 1e-15;
  double t = 1;
  for (Index j = 0; j < a.size(); ++j)
    if (a[j] + x[j] < -rounding) t = std::min(t, a[j] / -x[j]);
  return (a + t * x).cwiseMax(0);
}

}  // namespace

AlternativeWeights alternative_weights(const SampleHead& head, const AlternativeSearch& search,
                                       const RandomStream& stream) {
  const Index n = head.weights.rows();
  AlternativeWeights result{head.weights, Eigen::VectorXd::Zero(n), 0};
  const Matrix values = compact_values(head);
  if (!values.allFinite() || !head.weights.allFinite()) {
    constexpr double nan = std::numeric_limits<double>::quiet_NaN();
    return {Matrix::Constant(n, n, nan), Eigen::VectorXd::Constant(n, nan), nan};
  }
  const Eigen::MatrixXd all = with_ones(values);
  ColumnSpace space = column_space(all);
  for (Index i = 0; i < n; ++i) {
    const Index seen = head.causal ? i + 1 : n;
    const Eigen::MatrixXd ones = all.topRows(seen);
    if (head.causal) space = column_space(ones);
    if (space.everything()) continue;
    const Row a = head.weights.row(i).head(seen);
    const auto numbers = stream.item(i);
    Row b = a;
    // Each step ends at an entry that becomes 0.
    for (int step = 0; step < search.steps; ++step) {
      const auto g = directions(a, b, search, numbers.item(step));
      if (!improve(a, b, ones, g)) break;
    }
    b = made_exact(a, b, space);
    result.weights.row(i).head(seen) = b;
    result.total_variation[i] = variation(a, b);
  }
  const Matrix t = head.values * head.output;
  const double largest = t.cwiseAbs().maxCoeff();
  const Matrix change = (result.weights - head.weights) * t;
  result.output_difference = largest > 0 ? change.cwiseAbs().maxCoeff() / largest : 0;
  return result;
}

}  // namespace fluxformer::identifiability
