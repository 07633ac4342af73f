#include "solvers/sampling/hamiltonian.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/error.hpp"
#include "base/index.hpp"
#include "base/random.hpp"

namespace fluxformer::sampling {
namespace {

constexpr double divergence = 1000;  // rise of the energy at which a trajectory diverges

/// p := p - epsilon gradient
void kick(PhasePoint& at, double epsilon) {
  for (Index k = 0; k < std::ssize(at.p); ++k) at.p[k] -= epsilon * at.gradient[k];
}

/// q := q + epsilon p; computes the potential there and its gradient
void drift(const Potential& potential, PhasePoint& at, double epsilon) {
  for (Index k = 0; k < std::ssize(at.q); ++k) at.q[k] += epsilon * at.p[k];
  at.potential = potential(at.q, at.gradient);
}

void draw_momenta(PhasePoint& at, const RandomStream& draw) {
  for (Index k = 0; k < std::ssize(at.p); ++k) at.p[k] = draw.normal(k + 2);
}

/// Probability that the end of a trajectory is accepted.
double acceptance(double before, const PhasePoint& after) {
  const double change = before - after.energy();
  return std::isfinite(change) ? std::min(1.0, std::exp(change)) : 0;
}

/// A step size with which a single step is accepted in about half of the cases: doubled or halved until the
/// acceptance crosses 1/2.
double first_step(const Potential& potential, PhasePoint at, const RandomStream& stream) {
  draw_momenta(at, stream.item(0));
  const double before = at.energy();
  const auto accepted = [&](double epsilon) {
    auto moved = at;
    leapfrog(potential, moved, epsilon, 1);
    return acceptance(before, moved) > 0.5;
  };
  double epsilon = 0.1;
  const bool large = accepted(epsilon);
  for (int k = 0; k < 60 && accepted(epsilon) == large; ++k) epsilon *= large ? 2 : 0.5;
  return epsilon;
}

/// Dual averaging of ln epsilon (Hoffman and Gelman's constants).
class StepSize {
 public:
  StepSize(double first, double target)
      : goal_(std::log(10 * first)), target_(target), log_(std::log(first)) {}
  double now() const { return std::exp(log_); }
  double mean() const { return std::exp(mean_); }
  void learn(double accepted) {
    ++count_;
    // H_t: running mean of (target - accepted); ln eps_t = mu - sqrt(t)/gamma H_t with mu = ln(10 eps_1),
    // gamma = 0.05, t_0 = 10; the mean of ln eps_t has the weights t^-0.75.
    const double share = 1 / (count_ + 10);
    error_ = (1 - share) * error_ + share * (target_ - accepted);
    log_ = goal_ - std::sqrt(count_) / 0.05 * error_;
    const double weight = std::pow(count_, -0.75);
    mean_ = weight * log_ + (1 - weight) * mean_;
  }

 private:
  double goal_, target_, log_, mean_ = 0, error_ = 0, count_ = 0;
};

}  // namespace

double PhasePoint::energy() const {
  return potential + std::inner_product(p.begin(), p.end(), p.begin(), 0.0) / 2;
}

bool leapfrog(const Potential& potential, PhasePoint& at, double epsilon, int steps) {
  // Half a kick, then drifts and kicks in turns; the last kick is again a half.
  const double most = at.energy() + divergence;
  kick(at, epsilon / 2);
  for (int step = 1; step <= steps; ++step) {
    drift(potential, at, epsilon);
    if (!(at.potential <= most)) return false;  // true for NaN
    kick(at, step < steps ? epsilon : epsilon / 2);
  }
  return at.energy() <= most;
}

HamiltonianChain hamiltonian_chain(const Potential& potential, std::vector<double> start,
                                   const HamiltonianPlan& plan,
                                   const std::function<void(std::span<const double> q)>& visit) {
  const RandomStream stream(plan.seed, "hamiltonian chain");
  const Index size = start.size();
  PhasePoint here{
      .q = std::move(start), .p = std::vector<double>(size), .gradient = std::vector<double>(size)};
  here.potential = potential(here.q, here.gradient);
  if (!std::isfinite(here.potential))
    throw BadInput("a Hamiltonian chain cannot start where its density is 0 or infinite");

  StepSize size_of_steps(first_step(potential, here, stream), plan.acceptance);
  HamiltonianChain chain;
  PhasePoint there = here;
  for (int k = 0; k < plan.warm_up + plan.draws; ++k) {
    const auto draw = stream.item(k + 1);
    const bool warmed = k >= plan.warm_up;
    if (k == plan.warm_up) chain.step = plan.warm_up > 0 ? size_of_steps.mean() : size_of_steps.now();
    // Trajectories of one length could return to where they began, for ever.
    const double epsilon = draw.uniform(0, 0.9, 1.1) * (warmed ? chain.step : size_of_steps.now());
    draw_momenta(here, draw);
    there = here;
    const bool ended = leapfrog(potential, there, epsilon, plan.steps);
    const double accepted = ended ? acceptance(here.energy(), there) : 0;
    if (draw.uniform(1) < accepted) std::swap(here, there);
    if (!warmed) {
      size_of_steps.learn(accepted);
      continue;
    }
    chain.acceptance += accepted / plan.draws;
    chain.divergent += ended ? 0 : 1;
    visit(here.q);
  }
  chain.last = std::move(here.q);
  return chain;
}

}  // namespace fluxformer::sampling
