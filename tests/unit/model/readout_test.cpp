// Readout: pooling and head by plain loops, its adjoint by differences.

#include "model/readout.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <span>
#include <string>

#include "tests/support/reference_layer.hpp"
#include "tests/support/small_problem.hpp"
#include "tests/support/test_vectors.hpp"

namespace fluxformer {
namespace {

using namespace test;

constexpr int readout_classes = 3, readout_samples = 2;

struct ReadoutCase {
  Norm norm;
  std::vector<int> lengths;  ///< real tokens of the samples; empty: all of them
  Pooling pooling = Pooling::mean;
  HeadTransform transform = {};
  int class_tokens = 0;
};

ProblemSpec readout_spec_of(const ReadoutCase& of) {
  ProblemSpec spec;
  spec.model = small_model(1);
  spec.model.norm = of.norm;
  spec.model.attention.layer_norm = of.norm == Norm::pre;
  spec.model.classes = readout_classes;
  spec.model.pooling = of.pooling;
  spec.model.class_tokens = of.class_tokens;
  if (of.class_tokens > 0) spec.model.features = 4;
  spec.model.head_transform = of.transform;
  spec.mesh = {.cells = 1, .tokens_x = 3, .tokens_y = 2, .samples = readout_samples};
  spec.mask.length = of.lengths;
  return spec;
}

using Row = std::vector<double>;

Row normalised(const Parameters& p, const std::string& prefix, const Row& x) {
  return reference::layer_norm(x, p.spec.width, p.view(prefix + "gain").data(),
                               p.view(prefix + "bias").data(), p.spec.norm_eps);
}

Row affine(std::span<const double> w, std::span<const double> b, const Row& x) {
  Row y(b.begin(), b.end());
  for (std::size_t i = 0; i < y.size(); ++i)
    for (std::size_t j = 0; j < x.size(); ++j) y[i] += w[i * x.size() + j] * x[j];
  return y;
}

double activated(HeadActivation activation, double x) {
  constexpr double pi = 3.14159265358979323846;
  switch (activation) {
    case HeadActivation::none:
      return x;
    case HeadActivation::tanh:
      return std::tanh(x);
    case HeadActivation::relu:
      return x > 0 ? x : 0;
    case HeadActivation::gelu_erf:
      return x / 2 * (1 + std::erf(x / std::sqrt(2.0)));
    case HeadActivation::gelu_tanh:
      return x / 2 * (1 + std::tanh(std::sqrt(2 / pi) * (x + 0.044715 * x * x * x)));
  }
  return NAN;
}

/// z = W g + b, g = N(act(T p + t)) or p, p the mean of N_f(u) over the real tokens, of the first, or of the
/// last one, or N_f(u) of all class tokens side by side: straight from the formulas.
std::vector<double> naive(const Problem& problem, const Whole& u, const ReadoutCase& of) {
  const auto& p = problem.parameters;
  const auto d = static_cast<std::size_t>(p.spec.width);
  std::vector<double> z;
  for (std::size_t b = 0; b < readout_samples; ++b) {
    const std::size_t length = of.lengths.empty() ? 6 : static_cast<std::size_t>(of.lengths[b]);
    const std::size_t first = of.pooling == Pooling::last ? length - 1 : 0;
    const bool front = of.pooling == Pooling::front;
    const std::size_t end = of.pooling == Pooling::first ? 1 : front ? of.class_tokens : length;
    Row pooled(front ? end * d : d, 0.0);
    for (std::size_t x = first; x < end; ++x) {
      const double* const from = u.data() + (x * readout_samples + b) * d;
      Row row(from, from + d);
      if (of.norm == Norm::pre) row = normalised(p, "final_norm/", row);
      const std::size_t place = front ? x * d : 0, among = front ? 1 : end - first;
      for (std::size_t c = 0; c < d; ++c) pooled[place + c] += row[c] / static_cast<double>(among);
    }
    if (of.transform.present) {
      pooled = affine(p.view("head/transform_W"), p.view("head/transform_b"), pooled);
      for (double& value : pooled) value = activated(of.transform.activation, value);
      if (of.transform.norm) pooled = normalised(p, "head/norm_", pooled);
    }
    for (const double value : affine(p.view("head/W"), p.view("head/b"), pooled)) z.push_back(value);
  }
  return z;
}

class ReadoutOf : public testing::TestWithParam<ReadoutCase> {
 protected:
  ReadoutOf() : problem(MPI_COMM_SELF, readout_spec_of(GetParam())) {}
  double looked_at(const Whole& state) {
    std::vector<double> z(w.size());
    ReadoutTape tape;
    Readout(problem.parameters, problem.context).logits(state.data(), z.data(), tape);
    return dot(w, z);
  }
  Problem problem;
  const Whole u = random_vector(problem.context.size(), 4),
              w = random_vector(readout_samples * readout_classes, 5);
};

TEST_P(ReadoutOf, is_the_head_of_what_is_pooled) {
  Readout readout(problem.parameters, problem.context);
  ReadoutTape tape;
  std::vector<double> z(w.size(), 7.0);
  for (int time = 0; time < 2; ++time) {  // reused
    readout.logits(u.data(), z.data(), tape);
    EXPECT_LT(relative_difference(z, naive(problem, u, GetParam())), 1e-14);
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

TEST_P(ReadoutOf, gives_nothing_to_the_padding_and_to_tokens_that_are_not_pooled) {
  Readout readout(problem.parameters, problem.context);
  ReadoutTape tape;
  std::vector<double> z(w.size()), bar(u.size(), 7.0), gradient(problem.parameters.values.size(), 0.0);
  readout.logits(u.data(), z.data(), tape);
  readout.adjoint(w.data(), bar.data(), gradient, tape);
  const auto d = static_cast<std::size_t>(problem.context.width);
  for (std::size_t row = 0; row < u.size() / d; ++row) {
    const auto sample = static_cast<int>(row % readout_samples),
               token = static_cast<int>(row / readout_samples);
    const auto& mask = problem.context.mask;
    const bool next = token + 1 < 6 && mask.real(sample, token + 1), last = mask.real(sample, token) && !next;
    const auto pooling = GetParam().pooling;
    const bool pooled = pooling == Pooling::mean    ? mask.real(sample, token)
                        : pooling == Pooling::first ? token == 0
                        : pooling == Pooling::front ? token < GetParam().class_tokens
                                                    : last;
    if (pooled) continue;
    for (std::size_t c = 0; c < d; ++c) EXPECT_EQ(bar[row * d + c], 0) << "row " << row;
  }
}

INSTANTIATE_TEST_SUITE_P(Norms, ReadoutOf,
                         testing::Values(ReadoutCase{Norm::pre, {}}, ReadoutCase{Norm::pre, {6, 1}},
                                         ReadoutCase{Norm::pre, {2, 5}}, ReadoutCase{Norm::post, {3, 6}},
                                         ReadoutCase{Norm::none, {}}, ReadoutCase{Norm::sphere, {4, 2}}));

INSTANTIATE_TEST_SUITE_P(Poolings, ReadoutOf,
                         testing::Values(ReadoutCase{Norm::pre, {}, Pooling::first},
                                         ReadoutCase{Norm::post, {3, 6}, Pooling::first},
                                         ReadoutCase{Norm::pre, {1, 5}, Pooling::last},
                                         ReadoutCase{Norm::none, {}, Pooling::last},
                                         ReadoutCase{Norm::pre, {2, 6}, Pooling::front, {}, 2},
                                         ReadoutCase{Norm::post, {}, Pooling::front, {}, 3}));

INSTANTIATE_TEST_SUITE_P(
    Transforms, ReadoutOf,
    testing::Values(ReadoutCase{Norm::post, {2, 6}, Pooling::first, {true, HeadActivation::tanh, false}},
                    ReadoutCase{Norm::pre, {3, 5}, Pooling::last, {true, HeadActivation::gelu_erf, true}},
                    ReadoutCase{Norm::none, {4, 6}, Pooling::mean, {true, HeadActivation::relu, false}},
                    ReadoutCase{Norm::pre, {}, Pooling::mean, {true, HeadActivation::gelu_tanh, true}},
                    ReadoutCase{Norm::pre, {}, Pooling::first, {true, HeadActivation::none, true}}));

}  // namespace
}  // namespace fluxformer
