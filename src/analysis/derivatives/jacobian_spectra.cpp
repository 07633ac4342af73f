#include "analysis/derivatives/jacobian_spectra.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <string>
#include <utility>

#include "analysis/dense_matrices.hpp"
#include "analysis/state_examples.hpp"
#include "base/error.hpp"
#include "base/index.hpp"

namespace fluxformer::derivatives {

Eigen::VectorXd take_sample(const SlabContext& context, const double* slab, int b) {
  const auto rows = sample_of(context, slab, b);
  Eigen::VectorXd numbers(rows.size());
  Eigen::Map<RowMatrix>(numbers.data(), rows.rows(), rows.cols()) = rows;
  return numbers;
}

void put_sample(const SlabContext& context, const Eigen::VectorXd& numbers, int b, double* slab) {
  Eigen::Map<RowMatrix, 0, Eigen::OuterStride<>> rows(slab + Index{b} * context.width, context.line->tokens(),
                                                      context.width, Eigen::OuterStride<>(context.row()));
  const Index real = numbers.size() / context.width;
  rows.topRows(real) = Eigen::Map<const RowMatrix>(numbers.data(), real, context.width);
  rows.bottomRows(rows.rows() - real).setZero();
}

Eigen::VectorXd random_direction(const RandomStream& of_sample, Index size) {
  Eigen::VectorXd v(size);
  for (Index j = 0; j < size; ++j) v(j) = of_sample.normal(j);
  return v;
}

namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;

/// Length of a new vector relative to B below which it is round-off: U and V are complete.
constexpr double nothing = 1e-14;

/// Orthogonalises w against the columns twice, which is enough (Giraud et al. 2005).
void orthogonalise(const Eigen::Ref<const MatrixXd>& columns, VectorXd& w) {
  for (int pass = 0; pass < 2; ++pass) w -= columns * (columns.transpose() * w);
}

/// Bidiagonalisation A V = U B of the map of one sample, column by column.
class Bidiagonal {
 public:
  // A v_k = beta_{k-1} u_{k-1} + alpha_k u_k: B has alpha_k on its diagonal and beta_k to the right of it.
  Bidiagonal(const VectorXd& start, int steps) {
    const Index size = start.size(), most = std::min<Index>(steps, size);
    u_.resize(size, most);
    v_.resize(size, most);
    b_.setZero(most, most);
    done_ = most == 0;
    if (!done_) v_.col(0) = start.normalized();
  }

  bool done() const { return done_; }
  /// Vector v_k that A multiplies next; zero if the process has ended.
  VectorXd right() const { return done_ ? VectorXd::Zero(v_.rows()) : VectorXd(v_.col(k_)); }
  /// Vector u_k that A^T multiplies next; zero if the process has ended.
  VectorXd left() const { return done_ ? VectorXd::Zero(u_.rows()) : VectorXd(u_.col(k_ - 1)); }

  /// Adds u_k from w = A v_k: alpha_k u_k = A v_k - beta_{k-1} u_{k-1}.
  void add_left(VectorXd w) {
    orthogonalise(u_.leftCols(k_), w);
    const double alpha = w.norm();
    ++k_;
    if (stops(alpha)) return;  // B ends with a row of zeros: 0 is a singular value
    b_(k_ - 1, k_ - 1) = alpha;
    u_.col(k_ - 1) = w / alpha;
  }

  /// Adds v_{k+1} from w = A^T u_k: beta_k v_{k+1} = A^T u_k - alpha_k v_k.
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

  /// Extreme singular values of B with their residuals beta_k |p_k| / sqrt(2).
  SingularRange range() const {
    constexpr double nan = std::numeric_limits<double>::quiet_NaN();
    const int k = k_;
    if (k == 0 || !finite_) return {nan, nan, nan, nan, k};
    const LeftSvd svd = left_svd(b_.topLeftCorner(k_, k_));
    const auto error = [&](Index i) { return beta_ * std::abs(svd.left(k_ - 1, i)) / std::numbers::sqrt2; };
    return {svd.values(0), error(0), svd.values(k_ - 1), error(k_ - 1), k};
  }

 private:
  /// True if a vector of this length ends the process; the residual is then 0.
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
  // A sample whose process has ended takes part with the vector 0, and its result is not used.
  const auto apply = [&](const SlabMap& a, auto&& vector, auto&& add) {
    for (int b = 0; b < context.samples; ++b) put_sample(context, vector(each[b]), b, in.data());
    a(in.data(), out.data());
    for (int b = 0; b < context.samples; ++b)
      if (auto& e = each[b]; !e.done()) add(e, take_sample(context, out.data(), b));
  };
  // Step k of all samples together: u_k from A v_k, then v_{k+1} from A^T u_k
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

using Eigen::MatrixXd;
using Eigen::VectorXd;

LyapunovDirections::LyapunovDirections(const SlabContext& context, int exponents, const RandomStream& start,
                                       std::span<const long> samples)
    : context_(context), in_(context.size()), out_(context.size()) {
  need_whole_line(*context.line, "Lyapunov exponents");
  if (exponents < 1 || exponents > context.width)
    throw BadInput(std::to_string(exponents) + " Lyapunov exponents: 1 to model.width = " +
                   std::to_string(context.width) + " are possible");
  for (int b = 0; b < context.samples; ++b) {
    const auto of_sample = start.item(samples[b]);
    MatrixXd& directions = directions_.emplace_back(take_sample(context, in_.data(), b).size(), exponents);
    for (int j = 0; j < exponents; ++j)
      directions.col(j) = random_direction(of_sample.item(j), directions.rows());
  }
  growth_.assign(directions_.size(), VectorXd::Zero(exponents));
  orthonormalise();
  start_counting();
}

void LyapunovDirections::advance(const SlabMap& derivative) {
  // Column j of all samples at once: DG_i Q_i.
  for (Index j = 0; j < growth_.front().size(); ++j) {
    for (int b = 0; b < context_.samples; ++b) put_sample(context_, directions_[b].col(j), b, in_.data());
    derivative(in_.data(), out_.data());
    for (int b = 0; b < context_.samples; ++b) directions_[b].col(j) = take_sample(context_, out_.data(), b);
  }
  orthonormalise();
}

// DG_i Q_i = Q_{i+1} R_i; ln |(R_i)_jj| is added to the growth of direction j.
void LyapunovDirections::orthonormalise() {
  for (std::size_t b = 0; b < directions_.size(); ++b) {
    MatrixXd& directions = directions_[b];
    if (directions.rows() == 0) continue;
    ThinQr qr = thin_qr(directions);
    growth_[b] += qr.diagonal.cwiseAbs().array().log().matrix();
    directions = std::move(qr.q);
  }
}

void LyapunovDirections::start_counting() {
  for (auto& growth : growth_) growth.setZero();
}

// Exponent j = (1/length) sum_i ln |(R_i)_jj|
VectorXd LyapunovDirections::exponents(int sample, double length) const {
  if (directions_[sample].rows() == 0)
    return VectorXd::Constant(growth_[sample].size(), std::numeric_limits<double>::quiet_NaN());
  return growth_[sample] / length;
}

namespace {

/// Change of each exponent; 0 if an exponent stays minus infinity.
VectorXd change_of(const VectorXd& from, const VectorXd& to) {
  return (from.array() == to.array()).select(0.0, (to - from).cwiseAbs());
}

}  // namespace

std::vector<SweptExponents> sweep_exponents(LyapunovDirections& directions,
                                            const std::function<void()>& forwards,
                                            const std::function<void()>& backwards, const SweepPlan& plan) {
  directions.start_counting();
  forwards();
  std::vector<SweptExponents> found;
  for (int b = 0; b < directions.samples(); ++b) {
    const VectorXd value = directions.exponents(b, plan.length);
    found.push_back({value, VectorXd::Constant(value.size(), std::numeric_limits<double>::quiet_NaN()), 0});
  }
  // Sweeps do not make undefined numbers defined.
  const auto done = [&](const SweptExponents& one) {
    return one.value.hasNaN() || (one.sweeps > 0 && (one.change.array() < plan.tolerance).all());
  };
  // The way back by the transposed maps turns the directions towards those of largest growth. Only the
  // growth on the way forwards is counted.
  for (int sweep = 1; sweep <= plan.most && !std::ranges::all_of(found, done); ++sweep) {
    backwards();
    directions.start_counting();
    forwards();
    for (int b = 0; b < directions.samples(); ++b) {
      auto& one = found[b];
      if (done(one)) continue;
      const VectorXd value = directions.exponents(b, plan.length);
      one = {value, change_of(one.value, value), sweep};
    }
  }
  return found;
}

}  // namespace fluxformer::derivatives
