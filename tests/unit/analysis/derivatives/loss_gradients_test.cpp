// Gradients of the mean loss over a sample set, and layer Jacobians in known cases.

#include "analysis/derivatives/loss_gradients.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "analysis/derivatives/layer_jacobians.hpp"
#include "model/gradient_evaluator.hpp"
#include "model/make_depth_model.hpp"
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
        probe(probe_parameters(spec), line, 5, spec.cells, Precision::dbl) {}

  ListedSamples data;
  TokenLine line;
  SampleSet samples;
  ModelProbe probe;
};

TEST(LossGradients, are_those_of_the_evaluator_that_trains) {
  Measured m({.tokens_x = 12, .tokens_y = 1});
  const auto found = loss_gradients(m.samples, m.probe);

  SlabContext context{&m.line, 5, m.probe.spec().width};
  const auto model = make_depth_model(m.probe.parameters(), context, Precision::dbl);
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
}

}  // namespace
}  // namespace fluxformer::derivatives
