// Growth of perturbations, the Jacobian of the logits and responses to perturbed inputs in known cases.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "analysis/perturbation/perturbations.hpp"
#include "analysis/perturbation/perturbed_model.hpp"
#include "tests/support/test_matrices.hpp"
#include "tests/unit/analysis/probe_case.hpp"

namespace fluxformer::perturbation {
namespace {

using test::ProbeCase;
using test::ProbeSpec;

constexpr double sensitivity_rounding = 1e-12;

const ProbeSpec transport{.norm = Norm::none, .alpha = 0, .rho = 0, .cells = 4};
const ProbeSpec field{.norm = Norm::none, .kind = ModelKind::pde, .kappa = 0.2, .cells = 4};

/// A batch of a model with u_0 and u_0 + a little noise.
struct Moved {
  Moved(const ProbeSpec& spec, const std::vector<long>& keys, int places, double level = 1e-3,
        bool full = false)
      : model(spec, places), batch(model.batch(keys, full)), input(model.probe, InputSpace::embedded) {
    input.set(batch);
    u = noisy = input.clean();
    add_noise(input, 1, level, noisy);
  }
  std::vector<double> growth() {
    GrowthAccumulator meter(model.probe.depths(), model.probe.counted());
    add_growth(model.probe, u, noisy, meter);
    meter.reduce(MPI_COMM_SELF);
    return meter.growth();
  }
  std::vector<double> tangent_growth() {
    GrowthAccumulator meter(model.probe.depths(), model.probe.counted());
    add_tangent_growth(model.probe, u, test::plus(noisy, -1, u), meter);
    meter.reduce(MPI_COMM_SELF);
    EXPECT_EQ(meter.samples(), count_real());
    return meter.growth();
  }
  long count_real() const {
    return std::count_if(batch.weight.begin(), batch.weight.end(), [](double w) { return w > 0; });
  }

  ProbeCase model;
  Batch batch;
  ModelInput input;
  std::vector<double> u, noisy;
};

TEST(Growth, is_1_where_nothing_acts) {
  Moved moved(transport, {0, 1, 2}, 4);
  EXPECT_EQ(moved.growth(), std::vector<double>(5, 1.0));
  EXPECT_EQ(moved.tangent_growth(), std::vector<double>(5, 1.0));
}

TEST(Growth, of_a_mode_under_diffusion_is_its_factor) {
  constexpr int n = 12, mode = 3;
  constexpr double kappa = 0.4, h = 0.5;
  Moved moved({.norm = Norm::none,
               .kind = ModelKind::pde,
               .kappa = kappa,
               .alpha = 0,
               .rho = 0,
               .cells = 4,
               .tokens_x = n,
               .tokens_y = 1},
              {0, 1}, 2, 0, true);
  const std::size_t row = moved.u.size() / n;
  for (std::size_t j = 0; j < moved.u.size(); ++j)
    moved.noisy[j] += std::cos(std::numbers::pi * mode * (static_cast<double>(j / row) + 0.5) / n);
  const double factor = 1 - 4 * kappa * h * std::pow(std::sin(std::numbers::pi * mode / (2 * n)), 2);
  for (const auto& growth : {moved.growth(), moved.tangent_growth()})
    for (std::size_t i = 0; i < 5; ++i)
      EXPECT_NEAR(growth[i], std::pow(factor, static_cast<double>(i)), sensitivity_rounding);
}

TEST(Growth, of_a_small_perturbation_is_that_of_the_tangent_to_first_order) {
  for (const auto& spec : {ProbeSpec{}, field}) {
    const auto exact = Moved(spec, {0, 1, 2}, 3).tangent_growth();
    EXPECT_GT(std::abs(exact.back() - 1), 0.01);
    const auto error = [&](double level) {
      return test::plus(Moved(spec, {0, 1, 2}, 3, level).growth(), -1, exact);
    };
    EXPECT_NEAR(std::log2(test::norm(error(2e-4)) / test::norm(error(1e-4))), 1, 0.1);
  }
}

TEST(Growth, of_halves_merges_to_the_whole) {
  Moved whole(field, {0, 1, 2}, 3), one(field, {1}, 2), other(field, {2, 0}, 2);
  auto merged = one.growth();
  for (double& mean : merged) mean /= 3;
  merged = test::plus(merged, 2.0 / 3, other.growth());
  // Differences of about 1e-3 between states that are rounded to 1e-16, differently in each batch.
  EXPECT_LT(test::relative_difference(merged, whole.growth()), 1e-11);
}

TEST(LogitJacobian, of_a_linear_model_is_its_head) {
  Moved c(transport, {0, 1, 2}, 4);
  LogitJacobian jacobian(c.input);
  jacobian.set();
  const auto head = c.model.probe.parameters().view("head/W");
  const Eigen::Map<const RowMatrix> w(head.data(), 4, 6);
  const Eigen::VectorXd expected = test::singular_values(w);
  for (int b = 0; b < 3; ++b)  // z = W mean(u): each token contributes its share
    EXPECT_LT((jacobian.singular_values(b) - expected / std::sqrt(c.batch.length[b])).norm(),
              1e-8 * expected[0]);
  EXPECT_EQ(jacobian.singular_values(3).size(), 0);
}

/// J v of each sample by central differences.
std::vector<double> derivative(ModelProbe& probe, const std::vector<double>& u,
                               const std::vector<double>& v) {
  constexpr double x = 1e-5;
  auto above = test::plus(u, x, v), below = test::plus(u, -x, v);
  const auto there = probe.forward(above);
  auto dz = test::plus(there, -1, probe.forward(below));
  for (double& value : dz) value /= 2 * x;
  return dz;
}

TEST(LogitJacobian, agrees_with_power_iteration) {
  for (const auto& spec : {ProbeSpec{}, field}) {
    Moved c(spec, {0, 1, 2}, 4);
    LogitJacobian jacobian(c.input);
    jacobian.set();
    // v := J^T J v / |J^T J v| for all samples side by side, J v by differences.
    auto v = test::random_vector(c.u.size(), 3);
    std::vector<double> growth(4);
    for (int k = 0; k < 200; ++k) {
      auto z = derivative(c.model.probe, c.u, v);
      for (int j = 12; j < 16; ++j) z[j] = 0;  // the filler
      auto state = c.u;
      c.model.probe.forward(state, Keep::activations);
      c.model.probe.adjoint(z, v);
      for (int b = 0; b < 3; ++b) {
        auto block = c.input.slab_block(v, b);
        growth[b] = std::sqrt(block.norm());
        block /= block.norm();
      }
    }
    std::vector<double> worst;
    jacobian.worst_direction(worst);
    const auto steepest = derivative(c.model.probe, c.u, worst);
    for (int b = 0; b < 3; ++b) {
      // Differences with 1e-5: truncation and rounding below 1e-9.
      const double sigma = jacobian.singular_values(b)[0];
      EXPECT_NEAR(growth[b], sigma, 1e-7 * sigma);
      const Eigen::Map<const Eigen::VectorXd> dz(steepest.data() + 4 * b, 4);
      EXPECT_NEAR(dz.norm(), sigma, 1e-7 * sigma);
      const double cosine = c.input.slab_block(worst, b).cwiseProduct(c.input.slab_block(v, b)).sum();
      EXPECT_NEAR(std::abs(cosine), 1, 1e-7);
    }
  }
}

TEST(LogitJacobian, has_its_worst_direction_where_the_loss_rises) {
  Moved c({}, {0, 1, 2, 5}, 5);
  LogitJacobian jacobian(c.input);
  jacobian.set();
  std::vector<double> worst;
  jacobian.worst_direction(worst);
  const std::vector<long> places{0, 1, 2, 3, 3};
  ResponseAccumulator meter(2, 4, 4);
  for (const int level : {0, 1}) {
    auto u = test::plus(c.u, level == 0 ? -1e-4 : 1e-4, worst);
    const auto there = u;
    const auto& z = c.model.probe.forward(u);
    meter.add(level, c.input, places, there, z.data(), jacobian.logits().data());
  }
  meter.reduce(MPI_COMM_SELF);
  const auto m = meter.result();
  EXPECT_GT(m.loss[1], m.loss[0]);
  double unmoved = 0;
  for (int b = 0; b < 5; ++b) unmoved += c.input.slab_block(worst, b).squaredNorm();
  EXPECT_NEAR(unmoved, 4, sensitivity_rounding);
  EXPECT_NEAR(test::dot(worst, worst), 4, sensitivity_rounding);  // 0 on filler and padding
}

TEST(JacobianAccumulator, knows_the_sensitivity_in_the_worst_direction) {
  // The model is linear, so that a finite step shows it.
  Moved c(transport, {0, 1, 2}, 4);
  LogitJacobian jacobian(c.input);
  jacobian.set();
  JacobianAccumulator meter(4);
  meter.add(c.input, jacobian);
  meter.reduce(MPI_COMM_SELF);
  std::vector<double> worst;
  jacobian.worst_direction(worst);
  auto u = test::plus(c.u, 0.3, worst);
  const auto there = u;
  const std::vector<long> places{0, 1, 2, 2};
  ResponseAccumulator response(1, 4, 3);
  response.add(0, c.input, places, there, c.model.probe.forward(u).data(), jacobian.logits().data());
  response.reduce(MPI_COMM_SELF);
  EXPECT_NEAR(meter.worst_sensitivity(), response.result().sensitivity[0], sensitivity_rounding);
  EXPECT_EQ(meter.samples(), 3);
  double mean = 0;
  for (int b = 0; b < 3; ++b) mean += jacobian.singular_values(b)[1] / 3;
  EXPECT_NEAR(meter.singular_values()[1], mean, sensitivity_rounding);
}

TEST(Responses, of_two_samples_by_hand) {
  Moved c(transport, {0, 1}, 3);  // labels 0 and 1
  auto u = c.u;
  for (int b = 0; b < 2; ++b) c.input.slab_block(u, b) *= b == 0 ? 1.1 : 0.8;
  const std::vector<double> clean{3, 4, 0, 0, 0, 0, 0, 5, 9, 9, 9, 9}, z{3, 3, 0, 0, 0, 0, 0, 6, 9, 9, 9, 9};
  const std::vector<long> places{2, 0, 2};  // of three samples; the last slot is a filler
  ResponseAccumulator meter(3, 4, 3);
  meter.add(0, c.input, places, c.u, clean.data(), clean.data());
  meter.add(1, c.input, places, u, z.data(), clean.data());
  auto broken = z;
  broken[5] = NAN;
  meter.add(2, c.input, places, u, broken.data(), clean.data());
  meter.reduce(MPI_COMM_SELF);
  const auto m = meter.result();
  EXPECT_EQ(m.samples, 2);
  EXPECT_EQ(m.accuracy, (std::vector<double>{0, 0.5, 0.5}));  // the first of equals
  EXPECT_EQ(meter.correct_by_sample(), (std::vector<double>{0, 0, 0, 0, 0, 0, 0, 1, 1}));
  EXPECT_NEAR(m.input_change[1], (0.1 + 0.2) / 2, sensitivity_rounding);
  EXPECT_NEAR(m.sensitivity[1], (0.2 / 0.1 + 0.2 / 0.2) / 2, sensitivity_rounding);
  const double first = std::log(2 + 2 * std::exp(-3)), second = std::log(3 + std::exp(6));
  EXPECT_NEAR(m.loss[1], (first + second) / 2, sensitivity_rounding);
  EXPECT_NEAR(m.loss[2], first, sensitivity_rounding);
  EXPECT_EQ(m.not_finite, (std::vector<long>{0, 0, 1}));
  EXPECT_TRUE(std::isnan(m.sensitivity[0]));
}

}  // namespace
}  // namespace fluxformer::perturbation
