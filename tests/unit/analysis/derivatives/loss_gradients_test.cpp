// Gradients of the mean loss over a sample set, and layer Jacobians in known cases.

#include "analysis/derivatives/loss_gradients.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "analysis/derivatives/layer_jacobians.hpp"
#include "model/depth_model.hpp"
#include "model/gradient_evaluator.hpp"
#include "tests/support/listed_samples.hpp"
#include "tests/unit/analysis/probe_case.hpp"

namespace fluxformer::derivatives {
namespace {

using namespace test;

struct Measured {
  explicit Measured(const ProbeSpec& spec)
      : data(random_samples(5, 12, 1, 3, 4, 1)),
        line(token_line(MPI_COMM_SELF, data)),
        samples(MPI_COMM_SELF, line, data, all_of(data), 5),
        probe(probe_parameters(spec), line, 5, spec.cells, Precision::float64) {}

  ListedSamples data;
  TokenLine line;
  SampleSet samples;
  ModelProbe probe;
};

TEST(LossGradients, are_those_of_the_evaluator_that_trains) {
  Measured m({.tokens_x = 12, .tokens_y = 1});
  const auto found = loss_gradients(m.samples, m.probe);

  SlabContext context{&m.line, 5, m.probe.spec().width};
  const auto model = make_depth_model(m.probe.parameters(), context, Precision::float64);
  Backpropagation march(*model, {2, 2}, 1);
  GradientEvaluator evaluator(m.probe.parameters(), context, march, {});
  std::vector<double> gradient(found.parameters.size());
  m.samples.for_batches(
      [&](const Batch& batch) { EXPECT_NEAR(evaluator.gradient(batch, gradient).loss, found.loss, 1e-13); });
  EXPECT_LT(relative_difference(found.parameters, gradient), 1e-12);
}

TEST(LossGradients, by_layer_are_some_of_those_by_row) {
  Measured m({.kind = ModelKind::pde, .cells = 6, .tokens_x = 12, .tokens_y = 1});
  const auto found = loss_gradients(m.samples, m.probe);
  ASSERT_EQ(found.by_row.norm.size(), 7u);
  ASSERT_EQ(found.by_layer.norm.size(), 3u);
  for (std::size_t l = 0; l < 3; ++l) EXPECT_EQ(found.by_layer.norm[l], found.by_row.norm[3 * l]);
}

TEST(LossGradients, of_each_sample_are_those_of_the_sample_alone_in_the_order_of_the_samples) {
  Measured m({.kind = ModelKind::pde, .cells = 6, .tokens_x = 12, .tokens_y = 1});
  const std::vector<std::size_t> order{3, 0, 4};
  const auto found = loss_gradients(m.samples.with(order, 5), m.probe);
  ASSERT_EQ(found.norm_by_sample.size(), 3u * 3);
  ASSERT_EQ(found.size_by_sample.size(), 3u * 3);
  ASSERT_EQ(found.size.size(), 7u);
  std::vector<double> squares(3, 0.0);
  for (std::size_t place = 0; place < 3; ++place) {
    const auto sample = m.samples.with({order[place]}, 5);
    const auto alone = loss_gradients(sample, m.probe);
    const auto real = static_cast<std::size_t>(m.data.length(order[place]));
    std::vector<double> u, state_norm;
    sample.for_batches([&](const Batch& batch) {
      m.probe.embed(batch, u);
      m.probe.forward(u, Keep::nothing, [&](int, const double* state) {
        double square = 0;  // [token][sample][channel], this sample in the first slot
        for (std::size_t token = 0; token < real; ++token)
          for (std::size_t j = 0; j < static_cast<std::size_t>(m.probe.spec().width); ++j)
            square += std::pow(state[token * m.probe.counted().row() + j], 2);
        state_norm.push_back(std::sqrt(square));
      });
    });
    for (std::size_t l = 0; l < 3; ++l) {
      const double norm = found.norm_by_sample[place * 3 + l], size = found.size_by_sample[place * 3 + l];
      EXPECT_NEAR(norm / alone.by_layer.norm[l], 1, 1e-12);
      EXPECT_NEAR(size / (norm * state_norm[3 * l]), 1, 1e-12);
      squares[l] += size * size / 3;
    }
  }
  for (std::size_t l = 0; l < 3; ++l) {
    EXPECT_NEAR(found.size[3 * l] / std::sqrt(squares[l]), 1, 1e-12);
    double mean = 0;
    for (std::size_t place = 0; place < 3; ++place)
      mean += std::pow(found.norm_by_sample[place * 3 + l], 2) / 3;
    EXPECT_NEAR(found.by_layer.norm[l] / std::sqrt(mean), 1, 1e-12);
  }
}

TEST(LossGradients, have_a_size_that_does_not_depend_on_the_scale_of_the_state) {
  // No layer does anything and the head undoes the scale: the same model in other units.
  const ProbeSpec nothing{.norm = Norm::none, .alpha = 0, .rho = 0, .tokens_x = 12, .tokens_y = 1};
  Measured one(nothing);
  auto scaled = one.probe.parameters();
  for (const auto& view : scaled.layout.views())
    for (double& number : scaled.view(view.path()))
      number *= view.group == "embedding" ? 8 : view.path() == "head/W" ? 1.0 / 8 : 1;
  ModelProbe other(scaled, one.line, 5, 2, Precision::float64);
  const auto plain = loss_gradients(one.samples, one.probe), large = loss_gradients(one.samples, other);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(large.by_row.norm[i] * 8 / plain.by_row.norm[i], 1, 1e-12);
    EXPECT_NEAR(large.size[i] / plain.size[i], 1, 1e-12);
  }
}

TEST(LayerJacobians, of_layers_that_do_nothing_are_the_identity) {
  const ProbeSpec nothing{.norm = Norm::none,
                          .kind = ModelKind::pde,
                          .alpha = 0,
                          .rho = 0,
                          .cells = 4,
                          .tokens_x = 12,
                          .tokens_y = 1};
  Measured m(nothing);
  auto parameters = m.probe.parameters();
  parameters.spec.cells = 4;
  const auto found = layer_jacobians(m.samples, parameters, {.steps = 3, .exponents = 2, .sweeps = 1});
  ASSERT_EQ(found.largest.size(), 2u);
  for (std::size_t l = 0; l < 2; ++l) {
    EXPECT_NEAR(found.largest[l], 1, 1e-12);
    EXPECT_NEAR(found.smallest[l], 1, 1e-12);
    EXPECT_LT(found.largest_error[l], 1e-12);
  }
  ASSERT_EQ(found.lyapunov.size(), 2u);
  for (const double exponent : found.lyapunov) EXPECT_NEAR(exponent, 0, 1e-12);
  ASSERT_EQ(found.lyapunov_error.size(), 2u);
  for (const double error : found.lyapunov_error) EXPECT_NEAR(error, 0, 1e-12);
  EXPECT_EQ(found.lyapunov_sweeps, 1);
}

}  // namespace
}  // namespace fluxformer::derivatives
