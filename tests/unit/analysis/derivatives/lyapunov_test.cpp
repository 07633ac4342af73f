// Lyapunov exponents of a linear field, marched by the layer map of a real model: R(u) = M u token by token,
// so that each of the cells multiplies by 1 + h M.

#include "analysis/derivatives/lyapunov.hpp"

#include <gtest/gtest.h>

#include <Eigen/LU>
#include <cmath>

#include "analysis/derivatives/probe_jacobian.hpp"
#include "base/error.hpp"
#include "tests/support/test_matrices.hpp"
#include "tests/support/test_vectors.hpp"

namespace fluxformer::derivatives {
namespace {

using Eigen::Matrix4d;
using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr int d = 4;

/// Eigenvalues 0.3 +- 0.7 i, -0.2, -0.9, in a basis that is not orthogonal. The block of the pair is a
/// multiple of a rotation, so that its two exponents do not oscillate.
Matrix4d field() {
  Matrix4d t;
  t << 0.3, 0.7, 0.4, -1.1,  //
      -0.7, 0.3, 0.9, 0.6,   //
      0, 0, -0.2, 1.3,       //
      0, 0, 0, -0.9;
  const auto numbers = test::random_vector(d * d, 1);
  const Matrix4d q = test::orthogonal_factor(Matrix4d(numbers.data()));
  return q * t * q.transpose();
}
const double real_parts[d] = {0.3, 0.3, -0.2, -0.9};

/// du/ds = M u: a reaction of pairs of ReLUs, relu(x) - relu(-x) = x, no attention and no diffusion.
Parameters linear_model(const Matrix4d& m, int layers) {
  ModelSpec spec;
  spec.kind = ModelKind::pde;
  spec.variation = DepthVariation::linear;
  spec.norm = Norm::none;
  spec.attention.layer_norm = false;
  spec.activation = Activation::relu;
  spec.layers = layers;
  spec.width = d;
  spec.ffn = 2 * d;
  spec.classes = 2;
  Parameters p(spec);
  const auto w_1 = p.view("layers/1/W_1"), w_2 = p.view("layers/1/W_2");
  for (std::size_t j = 0; j < d; ++j) {
    w_1[j * d + j] = 1;
    w_1[(d + j) * d + j] = -1;
    for (std::size_t i = 0; i < d; ++i) {
      w_2[i * 2 * d + j] = m(static_cast<int>(i), static_cast<int>(j));
      w_2[i * 2 * d + d + j] = -w_2[i * 2 * d + j];
    }
  }
  p.values[p.layout.rho()] = 1;
  return p;
}

/// One sample of one token, marched once.
struct LinearField {
  LinearField(int layers, int cells)
      : line(TokenLine::even(MPI_COMM_SELF, 1, 1)),
        probe(linear_model(field(), layers), line, 1, cells, Precision::float64),
        jacobian(probe),
        h(static_cast<double>(layers) / cells) {
    std::vector<double> u{1, -2, 0.5, 3};
    probe.forward(u, Keep::nothing, [&](int row, const double* state) { jacobian.keep(row, state); });
  }
  LyapunovMeter meter(int exponents) const {
    return LyapunovMeter(probe.counted(), exponents, RandomStream(5, "lyapunov"), one_key);
  }
  void forwards(LyapunovMeter& meter, int from, int to) {
    for (int row = from; row < to; ++row) meter.advance(jacobian.derivative(row, row + 1));
  }
  void backwards(LyapunovMeter& meter) {
    for (int row = probe.cells(); row > 0; --row) meter.advance(jacobian.transposed(row - 1, row));
  }

  const std::vector<long> one_key{0};
  TokenLine line;
  ModelProbe probe;
  ProbeJacobian jacobian;
  double h;
};

TEST(Lyapunov, sum_is_ln_det_of_every_step_exactly) {
  LinearField linear(6, 12);
  const double ln_det = std::log(std::abs((Matrix4d::Identity() + linear.h * field()).determinant()));
  auto meter = linear.meter(d);
  for (int row = 0; row < 12; ++row) {
    meter.start_counting();
    linear.forwards(meter, row, row + 1);
    EXPECT_NEAR(meter.exponents(0, linear.h).sum(), ln_det / linear.h, 1e-13);  // some products of 4 x 4
  }
}

TEST(Lyapunov, exponents_are_the_real_parts_of_the_eigenvalues_as_h_goes_to_0) {
  // Directions settle over the first 60 layers (their error there: exp(-0.5 * 60)); growth over the last 4 is
  // then ln |1 + h lambda| / h = Re lambda - h Re(lambda^2) / 2 + O(h^2).
  const std::complex<double> lambda[d] = {{0.3, 0.7}, {0.3, -0.7}, {-0.2, 0}, {-0.9, 0}};
  double error[2] = {};
  for (const int k : {0, 1}) {
    const int per_layer = 4 << k;
    LinearField linear(64, 64 * per_layer);
    auto meter = linear.meter(d);
    linear.forwards(meter, 0, 60 * per_layer);
    meter.start_counting();
    linear.forwards(meter, 60 * per_layer, 64 * per_layer);
    const VectorXd found = meter.exponents(0, 4);
    for (int j = 0; j < d; ++j) {
      EXPECT_NEAR(found(j), std::log(std::abs(1.0 + linear.h * lambda[j])) / linear.h, 1e-11);
      error[k] = std::max(error[k], std::abs(found(j) - real_parts[j]));
    }
  }
  EXPECT_LT(error[1], 0.07);
  EXPECT_NEAR(error[0] / error[1], 2, 0.3);  // first order, to O(h)
}

TEST(Lyapunov, sweeps_back_and_forth_find_the_singular_values_of_the_whole_march) {
  LinearField linear(5, 10);
  Matrix4d product = Matrix4d::Identity();
  for (int row = 0; row < 10; ++row) product = (Matrix4d::Identity() + linear.h * field()) * product;
  const VectorXd exact = test::singular_values(product).array().log() / 5;
  auto meter = linear.meter(2);
  linear.forwards(meter, 0, 10);
  // Random directions: two never grow more than the best two.
  EXPECT_LT(meter.exponents(0, 5).sum(), exact.head(2).sum());
  for (int sweep = 0; sweep < 30; ++sweep) {
    linear.backwards(meter);
    meter.start_counting();
    linear.forwards(meter, 0, 10);
  }
  // A sweep gains (sigma_2 / sigma_1)^2.
  EXPECT_NEAR(meter.exponents(0, 5)(0), exact(0), 1e-10);
  EXPECT_NEAR(meter.exponents(0, 5)(1), exact(1), 1e-10);
}

TEST(Lyapunov, sweeps_end_when_exponents_settle_and_the_last_change_tells_their_error) {
  LinearField linear(5, 10);
  Matrix4d product = Matrix4d::Identity();
  for (int row = 0; row < 10; ++row) product = (Matrix4d::Identity() + linear.h * field()) * product;
  const VectorXd sigma = test::singular_values(product), exact = sigma.array().log() / 5;
  const auto swept = [&](int most, double tolerance) {
    auto meter = linear.meter(2);
    return sweep_exponents(
        meter, [&] { linear.forwards(meter, 0, 10); }, [&] { linear.backwards(meter); },
        {5, most, tolerance})[0];
  };
  // Errors fall by this factor in a sweep, or faster.
  const double factor = std::pow(std::max(sigma(1) / sigma(0), sigma(2) / sigma(1)), 4);
  for (const double tolerance : {1e-2, 1e-4, 1e-6}) {
    const auto found = swept(100, tolerance);
    ASSERT_GT(found.sweeps, 1);
    ASSERT_LT(found.sweeps, 100);
    EXPECT_LT(found.change.maxCoeff(), tolerance);
    EXPECT_GE(swept(found.sweeps - 1, tolerance).change.maxCoeff(), tolerance);
    for (int j = 0; j < 2; ++j) {
      const double error = std::abs(found.value(j) - exact(j)), bound = factor / (1 - factor) * tolerance;
      EXPECT_LE(error, 1.5 * bound) << tolerance;  // before the last sweeps other directions fade as well
    }
  }
  EXPECT_EQ(swept(7, 0).sweeps, 7);
  const auto none = swept(0, 1);
  EXPECT_EQ(none.sweeps, 0);
  EXPECT_TRUE(none.change.array().isNaN().all());
  EXPECT_TRUE(none.value.allFinite());
}

TEST(Lyapunov, a_sample_is_swept_for_itself_whatever_the_others_need) {
  // Multiplication of three channels of a single token; those of the second sample differ by little.
  const double factors[3][3] = {{9, 3, 1}, {1.3, 1.2, 1.1}, {1, 4, 2}};
  const auto line = TokenLine::even(MPI_COMM_SELF, 1, 1);
  const auto swept = [&](const std::vector<long>& keys) {
    const SlabContext context{&line, static_cast<int>(keys.size()), 3, {}, nullptr};
    LyapunovMeter meter(context, 2, RandomStream(1, "lyapunov"), keys);
    const auto pass = [&] {
      meter.advance([&](const double* v, double* out) {
        for (Index j = 0; j < context.size(); ++j)
          out[j] = factors[static_cast<std::size_t>(keys[j / 3])][j % 3] * v[j];
      });
    };
    return sweep_exponents(meter, pass, pass, {1, 200, 1e-5});
  };
  const auto together = swept({0, 1, 2});
  EXPECT_GT(together[1].sweeps, 2 * together[0].sweeps);
  const double exact[3][2] = {{9, 3}, {1.3, 1.2}, {4, 2}};
  for (std::size_t b = 0; b < 3; ++b) {
    const auto alone = swept({static_cast<long>(b)})[0];
    EXPECT_EQ(alone.sweeps, together[b].sweeps);
    EXPECT_EQ(alone.value, together[b].value);
    EXPECT_EQ(alone.change, together[b].change);
    // (1.2 / 1.3)^4 = 0.73 and (1.1 / 1.2)^4 = 0.71 of an error are left after a sweep.
    for (int j = 0; j < 2; ++j) EXPECT_NEAR(alone.value(j), std::log(exact[b][j]), 5e-5);
  }
}

TEST(Lyapunov, samples_do_not_mind_padding_and_each_other) {
  // Sample b is multiplied by b + 2, in its real tokens; the content of the padding must not matter.
  const auto exponents = [](int tokens, std::vector<int> length, std::vector<long> keys) {
    const auto line = TokenLine::even(MPI_COMM_SELF, tokens, 1);
    const SlabContext context{
        &line, static_cast<int>(keys.size()), 2, {std::move(length), false, {}}, nullptr};
    LyapunovMeter meter(context, 2, RandomStream(1, "lyapunov"), keys);
    meter.advance([&](const double* v, double* out) {
      for (Index j = 0; j < context.size(); ++j) {
        const std::size_t b = j % context.row() / 2, token = j / context.row();
        const bool real = static_cast<int>(token) < context.mask.length[b];
        // Tokens are multiplied by different numbers, so that exponents depend on the directions.
        out[j] = real ? static_cast<double>(keys[b] + 2) * static_cast<double>(token + 1) * v[j] : NAN;
      }
    });
    std::vector<VectorXd> all;
    for (int b = 0; b < context.samples; ++b) all.push_back(meter.exponents(b, 1));
    return all;
  };
  const auto together = exponents(9, {3, 5, 0}, {0, 1, 2});
  EXPECT_EQ(together[0], exponents(3, {3}, {0})[0]);
  EXPECT_EQ(together[1], exponents(5, {5}, {1})[0]);
  EXPECT_TRUE(std::isnan(together[2](0)));
}

TEST(Lyapunov, more_exponents_than_channels_are_refused) {
  const LinearField linear(1, 1);
  EXPECT_THROW(linear.meter(d + 1), BadInput);
  EXPECT_THROW(linear.meter(0), BadInput);
}

}  // namespace
}  // namespace fluxformer::derivatives
