// Largest and smallest singular values against a dense SVD, and their error bounds.

#include "analysis/derivatives/jacobian_spectra.hpp"

#include <gtest/gtest.h>

#include <Eigen/LU>
#include <algorithm>
#include <cmath>

#include "analysis/derivatives/layer_jacobians.hpp"
#include "base/error.hpp"
#include "tests/support/small_problem.hpp"
#include "tests/support/test_matrices.hpp"
#include "tests/support/test_vectors.hpp"

namespace fluxformer::derivatives {
namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;

MatrixXd random_matrix(Eigen::Index n, unsigned seed) {
  const auto numbers = test::random_vector(static_cast<std::size_t>(n * n), seed);
  return Eigen::Map<const MatrixXd>(numbers.data(), n, n);
}

/// Orthogonal times the given singular values times orthogonal.
MatrixXd with_singular_values(const VectorXd& values, unsigned seed) {
  const auto n = values.size();
  const MatrixXd u = test::orthogonal_factor(random_matrix(n, seed)),
                 v = test::orthogonal_factor(random_matrix(n, seed + 1));
  return test::product(u * values.asDiagonal(), v.transpose());
}

/// A matrix for each sample, which acts on its real numbers; the padding of the result is not a number.
struct MatrixCase {
  MatrixCase(std::vector<MatrixXd> of_samples, int width, int padding = 0)
      : matrices(std::move(of_samples)),
        line(TokenLine::even(MPI_COMM_SELF, longest() / width + padding, 1)),
        context{&line, static_cast<int>(matrices.size()), width} {
    for (std::size_t b = 0; b < matrices.size(); ++b) {
      context.mask.length.push_back(static_cast<int>(matrices[b].rows()) / width);
      keys.push_back(static_cast<long>(10 + b));
    }
  }
  int longest() const {
    Eigen::Index n = 0;
    for (const auto& a : matrices) n = std::max(n, a.rows());
    return static_cast<int>(n);
  }
  SlabMap map(bool transposed) const {
    return [this, transposed](const double* v, double* out) {
      std::fill_n(out, context.size(), NAN);
      for (int b = 0; b < context.samples; ++b) {
        const auto& a = matrices[b];
        if (a.size() == 0) continue;
        const VectorXd x = take_sample(context, v, b);
        const VectorXd y = transposed ? VectorXd(a.transpose() * x) : VectorXd(a * x);
        for (Eigen::Index j = 0; j < y.size(); ++j)
          out[static_cast<std::size_t>(j / context.width) * context.row() +
              static_cast<std::size_t>(b * context.width + static_cast<int>(j) % context.width)] = y(j);
      }
    };
  }
  std::vector<SingularRange> ranges(int steps) const {
    return singular_ranges(context, map(false), map(true), steps, RandomStream(3, "singular"), keys);
  }

  std::vector<MatrixXd> matrices;
  TokenLine line;
  SlabContext context;
  std::vector<long> keys;
};

SingularRange range_of(const MatrixXd& a, int steps) {
  return MatrixCase({a}, 1).ranges(steps).front();
}

TEST(SingularValues, of_as_many_steps_as_numbers_are_those_of_a_dense_svd) {
  const MatrixCase samples({random_matrix(12, 1), random_matrix(6, 2), random_matrix(9, 3)}, 3, 2);
  const auto ranges = samples.ranges(40);
  for (std::size_t b = 0; b < ranges.size(); ++b) {
    const auto exact = test::singular_values(samples.matrices[b]);
    const double rounding = 1e-14 * exact(0);  // a small multiple of the dimension times 1e-16
    EXPECT_NEAR(ranges[b].largest, exact(0), rounding);
    EXPECT_NEAR(ranges[b].smallest, exact(exact.size() - 1), rounding);
    EXPECT_EQ(ranges[b].steps, exact.size());
    EXPECT_EQ(ranges[b].smallest_error, 0);
  }
}

TEST(SingularValues, of_few_steps_are_within_their_errors_and_inside_the_true_range) {
  const MatrixXd a = MatrixXd::Identity(150, 150) + 0.05 * random_matrix(150, 4);
  const auto exact = test::singular_values(a);
  const auto distance = [&](double value) { return (exact.array() - value).abs().minCoeff(); };
  constexpr double rounding = 1e-13;  // of the dense SVD: a small multiple of the dimension times 1e-16
  double before = HUGE_VAL;
  for (const int steps : {4, 12, 36, 100}) {
    const auto found = range_of(a, steps);
    EXPECT_EQ(found.steps, steps);
    EXPECT_LE(found.largest, exact(0) + rounding);
    EXPECT_GE(found.smallest, exact(149) - rounding);
    EXPECT_LE(distance(found.largest), found.largest_error + rounding);
    EXPECT_LE(distance(found.smallest), found.smallest_error + rounding);
    // The error bounds hold, and not just because they are huge: the largest value converges.
    EXPECT_LT(found.largest_error, before);
    before = found.largest_error;
  }
  EXPECT_LT(before, 1e-6);
}

TEST(SingularValues, over_many_orders_need_the_full_reorthogonalisation) {
  // Without reorthogonalisation the directions of large singular values reappear, and the smallest is not
  // found in n steps.
  VectorXd values(40);
  for (int j = 0; j < 40; ++j) values(j) = std::pow(10, -j / 5.0);
  const auto found = range_of(with_singular_values(values, 5), 40);
  EXPECT_NEAR(found.largest, 1, 1e-14);
  EXPECT_NEAR(found.smallest, values(39), 1e-14);  // a few times 1e-16 of the largest
}

TEST(SingularValues, that_repeat_end_the_search_early) {
  VectorXd values = VectorXd::Constant(20, 2.0);
  values.tail(5).setConstant(0.5);
  const auto found = range_of(with_singular_values(values, 7), 20);
  EXPECT_EQ(found.steps, 2);
  EXPECT_NEAR(found.largest, 2, 1e-14);
  EXPECT_NEAR(found.smallest, 0.5, 1e-14);
  EXPECT_EQ(found.smallest_error, 0);
}

TEST(SingularValues, of_a_map_that_loses_directions_are_0) {
  VectorXd values = VectorXd::Constant(8, 3.0);
  values.tail(2).setZero();
  const auto found = range_of(with_singular_values(values, 9), 8);
  EXPECT_NEAR(found.largest, 3, 1e-14);
  EXPECT_NEAR(found.smallest, 0, 1e-14);
  EXPECT_EQ(found.smallest_error, 0);
  EXPECT_EQ(range_of(MatrixXd::Zero(5, 5), 5).largest, 0);
}

TEST(SingularValues, know_nothing_of_padding_and_of_the_other_samples) {
  const auto a = random_matrix(12, 11), b = random_matrix(8, 12);
  const auto together = MatrixCase({a, b}, 2, 5).ranges(4);
  const auto first = MatrixCase({a}, 2).ranges(4);
  auto second = MatrixCase({b}, 2);
  second.keys = {11};
  EXPECT_EQ(together[0].largest, first[0].largest);
  EXPECT_EQ(together[1].smallest, second.ranges(4)[0].smallest);
}

TEST(SingularValues, of_a_filler_or_of_what_is_not_finite_are_not_numbers) {
  MatrixXd bad = random_matrix(6, 13);
  bad(2, 3) = NAN;
  const auto ranges = MatrixCase({random_matrix(6, 14), bad, MatrixXd(0, 0)}, 1).ranges(6);
  EXPECT_TRUE(std::isfinite(ranges[0].smallest));
  EXPECT_TRUE(std::isnan(ranges[1].largest) && std::isnan(ranges[1].smallest_error));
  EXPECT_TRUE(std::isnan(ranges[2].largest));
  EXPECT_EQ(ranges[2].steps, 0);
  EXPECT_THROW(range_of(bad, 0), BadInput);
}

}  // namespace
}  // namespace fluxformer::derivatives

// Lyapunov exponents of a linear field, marched by the layer map of a real model: R(u) = M u token by token,
// so that each of the cells multiplies by 1 + h M.

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
        probe(test::on_cells(linear_model(field(), layers), cells), line, 1, Precision::float64),
        jacobian(probe),
        h(static_cast<double>(layers) / cells) {
    std::vector<double> u{1, -2, 0.5, 3};
    probe.forward(u, Keep::nothing, [&](int row, const double* state) { jacobian.keep(row, state); });
  }
  LyapunovDirections directions(int exponents) const {
    return LyapunovDirections(probe.counted(), exponents, RandomStream(5, "lyapunov"), one_key);
  }
  void forwards(LyapunovDirections& directions, int from, int to) {
    for (int row = from; row < to; ++row) directions.advance(jacobian.derivative(row, row + 1));
  }
  void backwards(LyapunovDirections& directions) {
    for (int row = probe.cells(); row > 0; --row) directions.advance(jacobian.transposed(row - 1, row));
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
  auto directions = linear.directions(d);
  for (int row = 0; row < 12; ++row) {
    directions.start_counting();
    linear.forwards(directions, row, row + 1);
    EXPECT_NEAR(directions.exponents(0, linear.h).sum(), ln_det / linear.h, 1e-13);  // some products of 4 x 4
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
    auto directions = linear.directions(d);
    linear.forwards(directions, 0, 60 * per_layer);
    directions.start_counting();
    linear.forwards(directions, 60 * per_layer, 64 * per_layer);
    const VectorXd found = directions.exponents(0, 4);
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
  auto directions = linear.directions(2);
  linear.forwards(directions, 0, 10);
  // Random directions: two never grow more than the best two.
  EXPECT_LT(directions.exponents(0, 5).sum(), exact.head(2).sum());
  for (int sweep = 0; sweep < 30; ++sweep) {
    linear.backwards(directions);
    directions.start_counting();
    linear.forwards(directions, 0, 10);
  }
  // A sweep gains (sigma_2 / sigma_1)^2.
  EXPECT_NEAR(directions.exponents(0, 5)(0), exact(0), 1e-10);
  EXPECT_NEAR(directions.exponents(0, 5)(1), exact(1), 1e-10);
}

TEST(Lyapunov, sweeps_end_when_exponents_settle_and_the_last_change_tells_their_error) {
  LinearField linear(5, 10);
  Matrix4d product = Matrix4d::Identity();
  for (int row = 0; row < 10; ++row) product = (Matrix4d::Identity() + linear.h * field()) * product;
  const VectorXd sigma = test::singular_values(product), exact = sigma.array().log() / 5;
  const auto swept = [&](int most, double tolerance) {
    auto directions = linear.directions(2);
    return sweep_exponents(
        directions, [&] { linear.forwards(directions, 0, 10); }, [&] { linear.backwards(directions); },
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
    LyapunovDirections directions(context, 2, RandomStream(1, "lyapunov"), keys);
    const auto pass = [&] {
      directions.advance([&](const double* v, double* out) {
        for (Index j = 0; j < context.size(); ++j) out[j] = factors[keys[j / 3]][j % 3] * v[j];
      });
    };
    return sweep_exponents(directions, pass, pass, {1, 200, 1e-5});
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
    LyapunovDirections directions(context, 2, RandomStream(1, "lyapunov"), keys);
    directions.advance([&](const double* v, double* out) {
      for (Index j = 0; j < context.size(); ++j) {
        const std::size_t b = j % context.row() / 2, token = j / context.row();
        const bool real = static_cast<int>(token) < context.mask.length[b];
        // Tokens are multiplied by different numbers, so that exponents depend on the directions.
        out[j] = real ? static_cast<double>(keys[b] + 2) * static_cast<double>(token + 1) * v[j] : NAN;
      }
    });
    std::vector<VectorXd> all;
    for (int b = 0; b < context.samples; ++b) all.push_back(directions.exponents(b, 1));
    return all;
  };
  const auto together = exponents(9, {3, 5, 0}, {0, 1, 2});
  EXPECT_EQ(together[0], exponents(3, {3}, {0})[0]);
  EXPECT_EQ(together[1], exponents(5, {5}, {1})[0]);
  EXPECT_TRUE(std::isnan(together[2](0)));
}

TEST(Lyapunov, more_exponents_than_channels_are_refused) {
  const LinearField linear(1, 1);
  EXPECT_THROW(linear.directions(d + 1), BadInput);
  EXPECT_THROW(linear.directions(0), BadInput);
}

}  // namespace
}  // namespace fluxformer::derivatives
