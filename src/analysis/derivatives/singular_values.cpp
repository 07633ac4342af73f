#include "analysis/derivatives/singular_values.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <string>
#include <utility>

#include "analysis/dense_matrices.hpp"
#include "analysis/state_examples.hpp"
#include "base/error.hpp"

namespace fluxformer::derivatives {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

/// A new vector shorter than this fraction of B is round-off: U and V are complete.
constexpr double nothing = 1e-14;

/// Orthogonalises w against the columns, twice, which is enough (Giraud et al. 2005).
void orthogonalise(const Eigen::Ref<const MatrixXd>& columns, VectorXd& w) {
  for (int pass = 0; pass < 2; ++pass) w -= columns * (columns.transpose() * w);
}

/// The bidiagonalisation of one sample.
class Bidiagonal {
 public:
  Bidiagonal(const VectorXd& start, int steps) {
    const Index size = start.size(), most = std::min<Index>(steps, size);
    u_.resize(size, most);
    v_.resize(size, most);
    b_.setZero(most, most);
    done_ = most == 0;
    if (!done_) v_.col(0) = start.normalized();
  }

  bool done() const { return done_; }
  /// The vector to be multiplied next; zero if there is none.
  VectorXd right() const { return done_ ? VectorXd::Zero(v_.rows()) : VectorXd(v_.col(k_)); }
  VectorXd left() const { return done_ ? VectorXd::Zero(u_.rows()) : VectorXd(u_.col(k_ - 1)); }

  /// w: A right()
  void add_left(VectorXd w) {
    orthogonalise(u_.leftCols(k_), w);
    const double alpha = w.norm();
    ++k_;
    if (stops(alpha)) return;  // B ends with a row of zeros: 0 is a singular value
    b_(k_ - 1, k_ - 1) = alpha;
    u_.col(k_ - 1) = w / alpha;
  }

  /// w: A^T left()
  void add_right(VectorXd w) {
    orthogonalise(v_.leftCols(k_), w);
    const double beta = w.norm();
    if (stops(beta)) return;
    beta_ = beta;
    done_ = k_ == v_.cols();
    if (done_) return;
    b_(k_ - 1, k_) = beta;
    v_.col(k_) = w / beta;
  }

  SingularRange range() const {
    constexpr double nan = std::numeric_limits<double>::quiet_NaN();
    const auto k = static_cast<int>(k_);
    if (k == 0 || !finite_) return {nan, nan, nan, nan, k};
    const LeftSvd svd = left_svd(b_.topLeftCorner(k_, k_));
    const auto error = [&](Index i) { return beta_ * std::abs(svd.left(k_ - 1, i)) / std::numbers::sqrt2; };
    return {svd.values(0), error(0), svd.values(k_ - 1), error(k_ - 1), k};
  }

 private:
  /// Whether a vector of this length ends the process; the residual is then 0.
  bool stops(double length) {
    finite_ = std::isfinite(length);
    largest_ = std::max(largest_, length);
    if (finite_ && length > nothing * largest_) return false;
    beta_ = 0;
    done_ = true;
    return true;
  }

  MatrixXd u_, v_, b_;
  Index k_ = 0;  // rows of B
  double beta_ = 0, largest_ = 0;
  bool done_ = false, finite_ = true;
};

}  // namespace

std::vector<SingularRange> singular_ranges(const SlabContext& context, const SlabMap& map,
                                           const SlabMap& transposed, int steps, const RandomStream& start,
                                           std::span<const long> samples) {
  need_whole_line(*context.line, "singular values");
  if (steps < 1)
    throw BadInput("singular values need at least one Lanczos step, not " + std::to_string(steps));
  std::vector<double> in(context.size()), out(context.size());
  std::vector<Bidiagonal> each;
  each.reserve(samples.size());
  for (int b = 0; b < context.samples; ++b)
    each.emplace_back(random_direction(start.item(samples[b]), take_sample(context, in.data(), b).size()),
                      steps);
  const auto all_done = [&] {
    return std::all_of(each.begin(), each.end(), [](auto& e) { return e.done(); });
  };
  const auto apply = [&](const SlabMap& a, auto&& vector, auto&& add) {
    for (int b = 0; b < context.samples; ++b) put_sample(context, vector(each[b]), b, in.data());
    a(in.data(), out.data());
    for (int b = 0; b < context.samples; ++b)
      if (auto& e = each[b]; !e.done()) add(e, take_sample(context, out.data(), b));
  };
  while (!all_done()) {
    apply(
        map, [](const Bidiagonal& e) { return e.right(); },
        [](Bidiagonal& e, VectorXd w) { e.add_left(std::move(w)); });
    if (all_done()) break;
    apply(
        transposed, [](const Bidiagonal& e) { return e.left(); },
        [](Bidiagonal& e, VectorXd w) { e.add_right(std::move(w)); });
  }
  std::vector<SingularRange> ranges(each.size());
  std::transform(each.begin(), each.end(), ranges.begin(), [](const Bidiagonal& e) { return e.range(); });
  return ranges;
}

}  // namespace fluxformer::derivatives
