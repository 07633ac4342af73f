// T10-T12: with scaled identities as weights and without depth, the equation describes interacting particles,
// for which exact results are known (docs/model.md sources C, D and E).

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "base/error.hpp"
#include "tests/support/linear_reaction.hpp"
#include "tests/support/reached.hpp"
#include "tests/support/small_problem.hpp"
#include "tests/support/test_vectors.hpp"

namespace fluxformer {
namespace {

using namespace test;

/// `count` particles in `dimension` dimensions: one depth cell, no transport, one head.
ProblemSpec particles(int count, int dimension, Norm norm) {
  ProblemSpec spec;
  spec.model.width = dimension;
  spec.model.ffn = 2 * dimension;
  spec.model.activation = Activation::relu;
  spec.model.norm = norm;
  spec.model.attention.layer_norm = false;
  spec.mesh = {.cells = 1, .tokens_x = count, .tokens_y = 1, .samples = 1};
  spec.scheme = DepthScheme::upwind;
  spec.speed = 0;
  return spec;
}

Parameters identities(const ProblemSpec& spec, double query_key, double value) {
  Parameters p(spec.model);
  initialise_scaled_identity(p, query_key, value);
  return p;
}

EvolveSettings fixed_steps(double dt, double time) {
  EvolveSettings settings;
  settings.method = "rk";
  settings.dt = dt;
  settings.time = time;
  return settings;
}

// ---- T10: particles on the sphere

constexpr int six = 6;

/// Six unit vectors with the same scalar product gamma between any two: a e_i + b sum_j e_j.
Whole equiangular(double gamma) {
  const double a = std::sqrt(1 - gamma), b = (std::sqrt(1 + (six - 1) * gamma) - a) / six;
  Whole u(six * six, b);
  for (std::size_t i = 0; i < six; ++i) u[i * six + i] += a;
  return u;
}

double product(const Whole& u, std::size_t i, std::size_t j) {
  double sum = 0;
  for (std::size_t c = 0; c < six; ++c) sum += u[i * six + c] * u[j * six + c];
  return sum;
}

/// The scalar ODE, by classical Runge-Kutta with steps of 1/2000 (error below 1e-13).
double law_of_gamma(double gamma, double beta, double time) {
  const auto rate = [&](double g) {
    const double e = std::exp(beta * g);
    return 2 * e * (1 - g) * ((six - 1) * g + 1) / (std::exp(beta) + (six - 1) * e);
  };
  const int steps = static_cast<int>(std::lround(2000 * time));
  const double dt = time / steps;
  for (int k = 0; k < steps; ++k) {
    const double k1 = rate(gamma), k2 = rate(gamma + dt / 2 * k1), k3 = rate(gamma + dt / 2 * k2),
                 k4 = rate(gamma + dt * k3);
    gamma += dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4);
  }
  return gamma;
}

Problem sphere_problem(const ProblemSpec& spec, double beta) {
  return Problem(MPI_COMM_WORLD, spec, identities(spec, std::sqrt(beta) * std::pow(six, 0.25), 1));
}

EvolveSettings to_1e12(double time) {
  auto settings = fixed_steps(1e-3, time);
  settings.adaptive_tolerance = 1e-12;
  return settings;
}

Whole after(const ProblemSpec& spec, double beta, const Whole& start, double time) {
  const auto problem = sphere_problem(spec, beta);
  return evolve(problem, to_1e12(time), start, Whole(start.size(), 0.0));
}

TEST(ParticlesOnTheSphere, reach_the_angles_of_the_reference) {
  const auto spec = particles(six, six, Norm::sphere);
  for (const auto& [beta, gamma] : {std::pair{1.0, 0.8451426453}, {3.0, 0.3014563886}, {0.0, 0.8993257342}}) {
    const auto u = after(spec, beta, equiangular(0), 2);
    for (std::size_t i = 0; i < six; ++i)
      for (std::size_t j = 0; j < six; ++j)
        EXPECT_LT(reached("T10 gamma at t = 2", std::abs(product(u, i, j) - (i == j ? 1 : gamma))), 1e-9)
            << "beta " << beta;
  }
}

TEST(ParticlesOnTheSphere, equiangular_starts_obey_the_scalar_law) {
  const auto spec = particles(six, six, Norm::sphere);
  for (const double beta : {0.5, 2.0})
    for (const double gamma : {-0.15, 0.3})
      EXPECT_LT(reached("T10 gamma against its equation",
                        std::abs(product(after(spec, beta, equiangular(gamma), 1), 0, 1) -
                                 law_of_gamma(gamma, beta, 1))),
                1e-9)
          << "beta " << beta << ", gamma " << gamma;
}

TEST(ParticlesOnTheSphere, their_energy_never_decreases) {
  const auto spec = particles(six, six, Norm::sphere);
  for (const double beta : {0.5, 4.0}) {
    const auto problem = sphere_problem(spec, beta);
    auto start = random_vector(six * six, 12);
    for (std::size_t i = 0; i < six; ++i) {
      const double length = std::sqrt(product(start, i, i));
      for (std::size_t c = 0; c < six; ++c) start[i * six + c] /= length;
    }
    const auto energy = [&](const Whole& u) {
      double sum = 0;
      for (std::size_t i = 0; i < six; ++i)
        for (std::size_t j = 0; j < six; ++j) sum += std::exp(beta * product(u, i, j));
      return sum / (2 * beta * six * six);
    };
    Evolve solver(problem.mesh, *problem.equation, fixed_steps(0.02, 8));
    problem.scatter(start, solver.state());
    double last = energy(start), first = last;
    solver.run([&](const Step& step) {
      const double now = energy(problem.gather(step.u));
      EXPECT_LE(reached("T10 relative loss of energy in a step", (last - now) / last), 1e-14);
      last = now;
      return true;
    });
    EXPECT_GT(last, 1.2 * first);
  }
}

// ---- T11 and T12: many particles on a line

constexpr int many = 2000;

/// The standard normal quantile: Newton's method on the distribution function.
double normal_quantile(double p) {
  double x = 0;
  for (int k = 0; k < 60; ++k) {
    const double excess = 0.5 * std::erfc(-x / std::numbers::sqrt2) - p;
    const double density = std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi);
    x -= std::clamp(excess / density, -0.5, 0.5);
  }
  return x;
}

Whole quantiles(double deviation) {
  Whole x;
  for (int j = 1; j <= many; ++j) x.push_back(deviation * normal_quantile((j - 0.5) / many));
  return x;
}

double variance(const Whole& x) {
  double mean = 0, sum = 0;
  for (const double value : x) mean += value / many;
  for (const double value : x) sum += (value - mean) * (value - mean) / many;
  return sum;
}

double largest(const Whole& x) {
  double max = 0;
  for (const double value : x) max = std::max(max, std::abs(value));
  return max;
}

TEST(GaussianClosure, contracting_particles_have_the_variance_of_the_closed_form) {
  const auto spec = particles(many, 1, Norm::none);
  constexpr double beta = 0.7, time = 1, deviation = 1.2;
  const Problem problem(MPI_COMM_WORLD, spec, identities(spec, std::sqrt(beta), -1));
  const auto x = evolve(problem, fixed_steps(0.1, time), quantiles(deviation), Whole(many, 0.0));
  const double s0 = deviation * deviation;
  const double closed_form = s0 / (1 + 2 * beta * s0 * time);
  EXPECT_LT(reached("T11 variance", std::abs(variance(x) / closed_form - 1)), 0.01);
}

TEST(GaussianClosure, expanding_particles_grow_no_faster_than_exp_t) {
  const auto spec = particles(many, 1, Norm::none);
  const Problem problem(MPI_COMM_WORLD, spec, identities(spec, 1, 1));
  const auto start = quantiles(1);
  Evolve solver(problem.mesh, *problem.equation, fixed_steps(0.1, 1));
  problem.scatter(start, solver.state());
  solver.run([&](const Step& step) {
    const double bound = std::exp(step.clock.time) * largest(start);
    EXPECT_LE(reached("T11 largest particle over exp(t)", largest(problem.gather(step.u)) / bound), 1 + 1e-6);
    return true;
  });
  EXPECT_GT(variance(problem.gather(solver.state())), 2 * variance(start));
}

/// Velocity -(1/epsilon) (E_k[y|x] - x) with the kernel exp(-|x - y|^2 / (2 epsilon)).
ProblemSpec heat(Normalisation normalisation, int iterations) {
  auto spec = particles(many, 1, Norm::none);
  spec.model.attention.kernel = Kernel::l2;
  spec.model.attention.normalisation = normalisation;
  spec.model.attention.sinkhorn_iterations = iterations;
  return spec;
}

Parameters heat_weights(const ProblemSpec& spec, double epsilon) {
  auto p = identities(spec, 1 / std::sqrt(epsilon), -1 / epsilon);
  set_linear_reaction(p, 1 / epsilon);
  return p;
}

/// d variance / dt = 2 <x, velocity> / n.
double variance_rate(const ProblemSpec& spec, double epsilon, const Whole& x) {
  const Problem problem(MPI_COMM_WORLD, spec, heat_weights(spec, epsilon));
  Evolve solver(problem.mesh, *problem.equation, fixed_steps(0.1, 1));
  const auto velocity = problem.mesh.create_vector();
  problem.scatter(x, solver.state());
  solver.rate(solver.state(), velocity);
  return 2 * dot(x, problem.gather(velocity)) / many;
}

constexpr double half_percent = 0.005;

void expect_rate(const ProblemSpec& spec, double epsilon, const Whole& x, double exact) {
  const bool softmax = spec.model.attention.normalisation == Normalisation::softmax;
  const double error = std::abs(variance_rate(spec, epsilon, x) / exact - 1);
  EXPECT_LT(reached(softmax ? "T12 rate with softmax" : "T12 rate with Sinkhorn", error), half_percent);
}

TEST(HeatLimit, softmax_has_the_rate_of_the_closed_form) {
  const auto spec = heat(Normalisation::softmax, 1);
  expect_rate(spec, 0.5, quantiles(1), 1.3333333);
  // s + epsilon ln s = ... + 2t means ds/dt = 2 s / (s + epsilon)
  expect_rate(spec, 2, quantiles(1.5), 2 * 2.25 / (2.25 + 2));
}

TEST(HeatLimit, sinkhorn_has_the_rate_of_the_closed_form) {
  const auto spec = heat(Normalisation::sinkhorn, 41);  // converged: 81 change the ninth digit
  expect_rate(spec, 0.5, quantiles(1), 0.8768943744);
}

TEST(HeatLimit, softmax_variance_follows_the_closed_form_in_time) {
  constexpr double epsilon = 0.5, time = 0.5;
  const auto spec = heat(Normalisation::softmax, 1);
  const Problem problem(MPI_COMM_WORLD, spec, heat_weights(spec, epsilon));
  const auto start = quantiles(1);
  const double s = variance(evolve(problem, fixed_steps(0.1, time), start, Whole(many, 0.0)));
  // s + epsilon ln s = s0 + epsilon ln s0 + 2 t, solved for s by Newton's method
  double exact = 1;
  for (int k = 0; k < 50; ++k)
    exact -= (exact + epsilon * std::log(exact) - 1 - 2 * time) / (1 + epsilon / exact);
  EXPECT_LT(reached("T12 variance with softmax", std::abs(s / exact - 1)), half_percent);
}

}  // namespace
}  // namespace fluxformer
