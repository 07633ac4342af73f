#include "analysis/influence/convex_head.hpp"

#include <Eigen/Cholesky>
#include <cmath>
#include <utility>

#include "base/error.hpp"

namespace fluxformer::influence {
namespace {

/// Features with a 1 behind them, for the bias.
RowMatrix with_ones(const RowMatrix& features) {
  RowMatrix x(features.rows(), features.cols() + 1);
  x << features, Eigen::VectorXd::Ones(features.rows());
  return x;
}

/// log sum exp of a row, less its entry at `label`.
double cross_entropy(const Eigen::RowVectorXd& z, int label) {
  const double top = z.maxCoeff();
  return top + std::log((z.array() - top).exp().sum()) - z[label];
}

Eigen::VectorXd flat(const RowMatrix& weights) {
  return Eigen::Map<const Eigen::VectorXd>(weights.data(), weights.size());
}

RowMatrix as_weights(const Eigen::VectorXd& flat, Index rows) {
  return Eigen::Map<const RowMatrix>(flat.data(), rows, flat.size() / rows);
}

}  // namespace

ConvexHead::ConvexHead(LabelledFeatures train, int classes, double ridge)
    : x_(with_ones(train.features)), labels_(std::move(train.labels)), classes_(classes), ridge_(ridge) {
  if (!(ridge > 0))
    throw BadInput("influence.ridge must be above 0: the last linear map has no unique minimum without it");
  for (const int label : labels_)
    if (label < 0 || label >= classes)
      throw BadInput("influence.solver = head: a sample has the label " + std::to_string(label) + " of " +
                     std::to_string(classes) + " classes");
  auto found = fit(RowMatrix::Zero(classes, x_.cols()), Eigen::VectorXd::Ones(size()));
  weights_ = std::move(found.weights);
  steps_ = found.steps;
  gradient_norm_ = found.gradient_norm;
  hessian_ = hessian_of(weights_, Eigen::VectorXd::Ones(size()));
}

LabelledFeatures ConvexHead::train() const {
  return {x_.leftCols(x_.cols() - 1), labels_};
}

RowMatrix ConvexHead::probabilities(const RowMatrix& weights, const RowMatrix& x) const {
  RowMatrix p = x * weights.transpose();
  for (Index i = 0; i < p.rows(); ++i) {
    const Eigen::RowVectorXd e = (p.row(i).array() - p.row(i).maxCoeff()).exp();
    p.row(i) = e / e.sum();
  }
  return p;
}

double ConvexHead::objective_of(const RowMatrix& weights, const Eigen::VectorXd& shares) const {
  const RowMatrix z = x_ * weights.transpose();
  double sum = 0;
  for (Index i = 0; i < size(); ++i)
    if (shares[i] != 0) sum += shares[i] * cross_entropy(z.row(i), labels_[i]);
  return sum / static_cast<double>(size()) + ridge_ / 2 * weights.squaredNorm();
}

Eigen::VectorXd ConvexHead::gradient_of(const RowMatrix& weights, const Eigen::VectorXd& shares) const {
  // 1/N sum share_i (p - e_y) x_i^T + ridge W
  RowMatrix rest = probabilities(weights, x_);
  for (Index i = 0; i < size(); ++i) rest(i, labels_[i]) -= 1;
  const Eigen::VectorXd scaled = shares / static_cast<double>(size());
  const RowMatrix gradient = rest.transpose() * (scaled.asDiagonal() * x_) + ridge_ * weights;
  return flat(gradient);
}

Eigen::MatrixXd ConvexHead::hessian_of(const RowMatrix& weights, const Eigen::VectorXd& shares) const {
  // Blocks of classes a, b: 1/N X^T diag(share p_a (delta_ab - p_b)) X, and ridge on the diagonal.
  const RowMatrix p = probabilities(weights, x_);
  const Index f = x_.cols();
  Eigen::MatrixXd h(classes_ * f, classes_ * f);
  for (int a = 0; a < classes_; ++a)
    for (int b = 0; b <= a; ++b) {
      Eigen::VectorXd factor = -p.col(a).cwiseProduct(p.col(b));
      if (a == b) factor += p.col(a);
      factor = factor.cwiseProduct(shares) / static_cast<double>(size());
      const Eigen::MatrixXd block = x_.transpose() * (factor.asDiagonal() * x_);
      h.block(a * f, b * f, f, f) = block;
      h.block(b * f, a * f, f, f) = block.transpose();
    }
  h.diagonal().array() += ridge_;
  return h;
}

ConvexHead::Fit ConvexHead::fit(RowMatrix weights, const Eigen::VectorXd& shares) const {
  constexpr int most_steps = 200;
  Eigen::VectorXd gradient = gradient_of(weights, shares);
  const double scale = std::max(gradient_of(RowMatrix::Zero(classes_, x_.cols()), shares).norm(), 1e-300);
  for (int step = 0; step < most_steps; ++step) {
    if (gradient.norm() <= 1e-13 * scale) return {weights, step, gradient.norm()};
    const Eigen::VectorXd direction =
        -Eigen::LLT<Eigen::MatrixXd>(hessian_of(weights, shares)).solve(gradient);
    // Halved until the objective falls (Armijo); near the minimum, where it only rounds, whole steps.
    const double before = objective_of(weights, shares), slope = gradient.dot(direction);
    double length = 1;
    while (-slope > 1e-13 * std::abs(before) && length > 1e-10 &&
           objective_of(weights + length * as_weights(direction, classes_), shares) >
               before + 1e-4 * length * slope)
      length /= 2;
    weights += length * as_weights(direction, classes_);
    const Eigen::VectorXd next = gradient_of(weights, shares);
    // Round-off of the gradient's sums: no step makes it smaller.
    if (next.norm() <= 1e-12 * scale && next.norm() >= gradient.norm())
      return {weights, step + 1, next.norm()};
    gradient = next;
  }
  throw NumericalFailure(
      "influence.solver = head: Newton's method did not reach the minimum of the last linear map");
}

RowMatrix ConvexHead::gradients(const LabelledFeatures& samples) const {
  const RowMatrix x = with_ones(samples.features);
  RowMatrix rest = probabilities(weights_, x), all(x.rows(), variables());
  for (Index i = 0; i < x.rows(); ++i) {
    rest(i, samples.labels[i]) -= 1;
    const RowMatrix outer = rest.row(i).transpose() * x.row(i);
    all.row(i) = flat(outer);
  }
  return all;
}

std::vector<double> ConvexHead::losses_at(const RowMatrix& weights, const LabelledFeatures& samples) const {
  const RowMatrix z = with_ones(samples.features) * weights.transpose();
  std::vector<double> all;
  for (Index i = 0; i < z.rows(); ++i) all.push_back(cross_entropy(z.row(i), samples.labels[i]));
  return all;
}

Eigen::MatrixXd ConvexHead::solve_kronecker(HeadCurvature by, const Eigen::MatrixXd& right) const {
  const RowMatrix p = probabilities(weights_, x_);
  const double n = static_cast<double>(size());
  const Eigen::MatrixXd a = x_.transpose() * x_ / n;
  Eigen::MatrixXd g = -(p.transpose() * p) / n;
  g.diagonal() += p.colwise().mean().transpose();
  const auto of_a = symmetric_eigen(a), of_g = symmetric_eigen(g);
  const Index f = a.rows();
  // Q = U (x) V, rows as theta: class, then feature.
  Eigen::MatrixXd q(variables(), variables());
  Eigen::VectorXd values(variables());
  for (Index c = 0; c < classes_; ++c)
    for (Index k = 0; k < f; ++k) {
      for (Index d = 0; d < classes_; ++d)
        q.block(d * f, c * f + k, f, 1) = of_g.vectors(d, c) * of_a.vectors.col(k);
      values[c * f + k] = of_g.values[c] * of_a.values[k] + ridge_;
    }
  if (by == HeadCurvature::ekfac) values = (hessian_ * q).cwiseProduct(q).colwise().sum().transpose();
  return q * values.cwiseInverse().asDiagonal() * (q.transpose() * right);
}

Eigen::MatrixXd ConvexHead::solve(HeadCurvature by, Index kept, const Eigen::MatrixXd& right) const {
  const Index f = x_.cols();
  switch (by) {
    case HeadCurvature::exact:
      return Eigen::LLT<Eigen::MatrixXd>(hessian_).solve(right);
    case HeadCurvature::identity:
      return right;
    case HeadCurvature::diagonal:
      return hessian_.diagonal().cwiseInverse().asDiagonal() * right;
    case HeadCurvature::classes: {
      Eigen::MatrixXd all(right.rows(), right.cols());
      for (int c = 0; c < classes_; ++c)
        all.middleRows(c * f, f) =
            Eigen::LLT<Eigen::MatrixXd>(hessian_.block(c * f, c * f, f, f)).solve(right.middleRows(c * f, f));
      return all;
    }
    case HeadCurvature::truncated: {
      const auto eigen = symmetric_eigen(hessian_);
      const Index count = std::min(kept, variables());
      const auto vectors = eigen.vectors.rightCols(count);
      return vectors * eigen.values.tail(count).cwiseInverse().asDiagonal() * (vectors.transpose() * right);
    }
    default:
      return solve_kronecker(by, right);
  }
}

RowMatrix ConvexHead::influence(const LabelledFeatures& test, HeadCurvature by, Index kept) const {
  return -gradients(test) * solve(by, kept, gradients(train()).transpose());
}

std::vector<double> ConvexHead::self_influence() const {
  const RowMatrix g = gradients(train());
  const Eigen::MatrixXd solved = solve(HeadCurvature::exact, 0, g.transpose());
  std::vector<double> all;
  for (Index i = 0; i < size(); ++i) all.push_back(g.row(i).dot(solved.col(i)));
  return all;
}

std::vector<double> ConvexHead::gradient_norms() const {
  const Eigen::VectorXd norms = gradients(train()).rowwise().norm();
  return {norms.begin(), norms.end()};
}

namespace {

std::vector<double> changes_of(const std::vector<double>& after, const std::vector<double>& before) {
  std::vector<double> change(after.size());
  for (std::size_t t = 0; t < change.size(); ++t) change[t] = after[t] - before[t];
  return change;
}

/// 1 for each sample, 0 for those that are left out.
Eigen::VectorXd shares_without(Index size, const std::vector<Index>& left_out) {
  Eigen::VectorXd shares = Eigen::VectorXd::Ones(size);
  for (const Index i : left_out) shares[i] = 0;
  return shares;
}

}  // namespace

std::vector<double> ConvexHead::change_without(const std::vector<Index>& left_out,
                                               const LabelledFeatures& test, Removal by) const {
  const RowMatrix g = gradients(train());
  Eigen::VectorXd sum = Eigen::VectorXd::Zero(variables());
  for (const Index i : left_out) sum += g.row(i).transpose();
  sum /= static_cast<double>(size());
  if (by == Removal::first) {
    // d loss = g_t . H^{-1} sum g_i/N = -sum I(i, t)/N
    const Eigen::VectorXd change = gradients(test) * solve(HeadCurvature::exact, 0, sum);
    return {change.begin(), change.end()};
  }
  const Eigen::LLT<Eigen::MatrixXd> factors(hessian_of(weights_, shares_without(size(), left_out)));
  const RowMatrix weights = weights_ + as_weights(factors.solve(sum), classes_);
  return changes_of(losses_at(weights, test), losses(test));
}

std::vector<double> ConvexHead::retrained_without(const std::vector<Index>& left_out,
                                                  const LabelledFeatures& test) const {
  const auto again = fit(weights_, shares_without(size(), left_out));
  return changes_of(losses_at(again.weights, test), losses(test));
}

RowMatrix ConvexHead::with_weight(Index sample, double eps) const {
  Eigen::VectorXd shares = Eigen::VectorXd::Ones(size());
  shares[sample] += eps * static_cast<double>(size());
  return fit(weights_, shares).weights;
}

}  // namespace fluxformer::influence
