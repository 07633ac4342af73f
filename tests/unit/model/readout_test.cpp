// Readout: the mean over the real tokens by plain loops, its adjoint by differences.

#include "model/readout.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/small_problem.hpp"
#include "tests/support/test_vectors.hpp"

namespace fluxformer {
namespace {

using namespace test;

constexpr int classes = 3, samples = 2;

ProblemSpec spec_of(Norm norm, std::vector<int> lengths) {
  ProblemSpec spec;
  spec.model = small_model(1);
  spec.model.norm = norm;
  spec.model.attention.layer_norm = norm == Norm::pre;
  spec.model.classes = classes;
  spec.mesh = {.cells = 1, .tokens_x = 3, .tokens_y = 2, .samples = samples};
  spec.mask.length = std::move(lengths);
  return spec;
}

/// z = W mean N(u) + b, straight from the formula.
std::vector<double> naive(const Problem& problem, const Whole& u, bool layer_norm) {
  const auto& p = problem.parameters;
  const auto d = static_cast<std::size_t>(p.spec.width);
  std::vector<double> z;
  for (std::size_t b = 0; b < samples; ++b) {
    const auto& lengths = problem.context.mask.length;
    const std::size_t length = lengths.empty() ? 6 : static_cast<std::size_t>(lengths[b]);
    std::vector<double> mean(d, 0.0);
    for (std::size_t x = 0; x < length; ++x) {
      const double* row = u.data() + (x * samples + b) * d;
      double m = 0, variance = 0;
      for (std::size_t c = 0; c < d; ++c) m += row[c] / static_cast<double>(d);
      for (std::size_t c = 0; c < d; ++c) variance += (row[c] - m) * (row[c] - m) / static_cast<double>(d);
      for (std::size_t c = 0; c < d; ++c) {
        double value = row[c];
        if (layer_norm)
          value = (value - m) / std::sqrt(variance + p.spec.norm_eps) * p.view("final_norm/gain")[c] +
                  p.view("final_norm/bias")[c];
        mean[c] += value / static_cast<double>(length);
      }
    }
    for (std::size_t k = 0; k < classes; ++k) {
      double value = p.view("head/b")[k];
      for (std::size_t c = 0; c < d; ++c) value += p.view("head/W")[k * d + c] * mean[c];
      z.push_back(value);
    }
  }
  return z;
}

class ReadoutOf : public testing::TestWithParam<std::pair<Norm, std::vector<int>>> {
 protected:
  ReadoutOf() : problem(MPI_COMM_SELF, spec_of(GetParam().first, GetParam().second)) {}
  double looked_at(const Whole& state) {
    std::vector<double> z(w.size());
    ReadoutTape tape;
    Readout(problem.parameters, problem.context).logits(state.data(), z.data(), tape);
    return dot(w, z);
  }
  Problem problem;
  const Whole u = random_vector(problem.context.size(), 4), w = random_vector(samples * classes, 5);
};

TEST_P(ReadoutOf, is_the_mean_over_the_real_tokens) {
  Readout readout(problem.parameters, problem.context);
  ReadoutTape tape;
  std::vector<double> z(w.size(), 7.0);
  for (int time = 0; time < 2; ++time) {  // reused
    readout.logits(u.data(), z.data(), tape);
    EXPECT_LT(relative_difference(z, naive(problem, u, GetParam().first == Norm::pre)), 1e-14);
  }
}

TEST_P(ReadoutOf, has_the_adjoint_of_its_differences) {
  Readout readout(problem.parameters, problem.context);
  ReadoutTape tape;
  std::vector<double> z(w.size()), bar(u.size(), 7.0), gradient(problem.parameters.values.size(), 0.25);
  readout.logits(u.data(), z.data(), tape);
  readout.adjoint(w.data(), bar.data(), gradient, tape);
  // Central differences: step^2 times third derivatives of order 10, and round-off over the step.
  constexpr double step = 1e-5, tolerance = 10 * step * step + 1e-14 / step;
  for (std::size_t j = 0; j < u.size(); ++j) {
    auto up = u, down = u;
    up[j] += step;
    down[j] -= step;
    EXPECT_NEAR(bar[j], (looked_at(up) - looked_at(down)) / (2 * step), tolerance) << "state, entry " << j;
  }
  for (std::size_t j = 0; j < gradient.size(); ++j) {
    double& value = problem.parameters.values[j];
    const double kept = value;
    value = kept + step;
    const double up = looked_at(u);
    value = kept - step;
    const double down = looked_at(u);
    value = kept;
    EXPECT_NEAR(gradient[j] - 0.25, (up - down) / (2 * step), tolerance) << "parameter " << j;
  }
}

TEST_P(ReadoutOf, gives_nothing_to_the_padding) {
  Readout readout(problem.parameters, problem.context);
  ReadoutTape tape;
  std::vector<double> z(w.size()), bar(u.size(), 7.0), gradient(problem.parameters.values.size(), 0.0);
  readout.logits(u.data(), z.data(), tape);
  readout.adjoint(w.data(), bar.data(), gradient, tape);
  const auto d = static_cast<std::size_t>(problem.context.width);
  for (std::size_t row = 0; row < u.size() / d; ++row) {
    if (problem.context.mask.real(static_cast<int>(row % samples), static_cast<int>(row / samples))) continue;
    for (std::size_t c = 0; c < d; ++c) EXPECT_EQ(bar[row * d + c], 0) << "row " << row;
  }
}

INSTANTIATE_TEST_SUITE_P(Norms, ReadoutOf,
                         testing::Values(std::pair{Norm::pre, std::vector<int>{}},
                                         std::pair{Norm::pre, std::vector<int>{6, 1}},
                                         std::pair{Norm::pre, std::vector<int>{2, 5}},
                                         std::pair{Norm::post, std::vector<int>{3, 6}},
                                         std::pair{Norm::none, std::vector<int>{}},
                                         std::pair{Norm::sphere, std::vector<int>{4, 2}}));

}  // namespace
}  // namespace fluxformer
