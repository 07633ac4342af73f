#include "solvers/sampling/adaptive_metropolis.hpp"

#include <Eigen/Cholesky>
#include <cmath>
#include <utility>

#include "base/error.hpp"
#include "base/index.hpp"
#include "base/random.hpp"

namespace fluxformer::sampling {
namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;

/// Running mean and covariance of the states (Welford).
class Moments {
 public:
  explicit Moments(Index size) : mean_(VectorXd::Zero(size)), squares_(MatrixXd::Zero(size, size)) {}
  void add(const VectorXd& x) {
    ++count_;
    // mean += (x - mean) / k,  squares += (x - mean before) (x - mean after)^T
    const VectorXd before = x - mean_;
    mean_ += before / count_;
    squares_ += before * (x - mean_).transpose();
  }
  long count() const { return count_; }
  MatrixXd covariance() const { return squares_ / (count_ - 1); }

 private:
  long count_ = 0;
  VectorXd mean_;
  MatrixXd squares_;
};

/// The factor of the proposals: 2.38/sqrt(d) times that of the covariance, with a little of the identity, so
/// that no direction is lost.
MatrixXd proposal(const MatrixXd& covariance) {
  const double d = covariance.rows();
  MatrixXd a = covariance;
  a.diagonal().array() += 1e-6 * covariance.trace() / d + 1e-300;
  return 2.38 / std::sqrt(d) * MatrixXd(a.llt().matrixL());
}

}  // namespace

Walk random_walk(const LogDensity& log_density, std::vector<double> start, const WalkPlan& plan,
                 const Visitor& visit) {
  const Index size = start.size();
  const RandomStream stream(plan.seed, "random walk");
  Eigen::Map<const VectorXd> from(start.data(), size);
  VectorXd x = from, next(size), draws(size);
  const auto density = [&](const VectorXd& at) { return log_density({at.data(), start.size()}); };
  double here = density(x);
  if (!std::isfinite(here)) throw BadInput("a random walk cannot start where its density is 0 or infinite");

  MatrixXd factor = plan.first_step / std::sqrt(size) * MatrixXd::Identity(size, size);
  Moments moments(size);
  long accepted = 0;
  for (long step = 0; step < plan.warm_up + plan.steps; ++step) {
    const auto draw = stream.item(step);
    for (Index k = 0; k < size; ++k) draws[k] = draw.normal(k + 1);
    // next = x + L xi, xi standard normal; accepted with probability min(1, p(next) / p(x))
    next.noalias() = factor * draws;
    next += x;
    const double there = density(next);
    if (std::log(draw.uniform(0)) < there - here) {  // false for NaN
      std::swap(x, next);
      here = there;
      accepted += step >= plan.warm_up ? 1 : 0;
    }
    if (step < plan.warm_up) {
      // The way from the start is forgotten: moments begin anew at a tenth and at half of the warm-up.
      if (step == plan.warm_up / 10 || step == plan.warm_up / 2) moments = Moments(size);
      moments.add(x);
      const bool enough = moments.count() > 20 * size;
      if (enough && (moments.count() % 100 == 0 || step + 1 == plan.warm_up))
        factor = proposal(moments.covariance());
    } else {
      visit({x.data(), start.size()});
    }
  }
  return {.last = {x.data(), x.data() + size},
          .accepted = static_cast<double>(accepted) / std::max(plan.steps, 1L)};
}

}  // namespace fluxformer::sampling
