// Norms of the blocks du_j/dx_i against the derivative of every cell, applied to one unit vector after the
// other.

#include "analysis/derivatives/input_jacobian.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>

#include "tests/support/test_matrices.hpp"
#include "tests/unit/analysis/probe_case.hpp"

namespace fluxformer::test {
namespace {

using derivatives::BlockNorm;
using derivatives::BlockNorms;
using derivatives::InputJacobian;

/// One sample in one slot, with what its batch embeds to.
struct Case {
  explicit Case(const ProbeSpec& spec) : c(spec, 1), batch(c.batch({1})) {
    c.probe.embed(batch, u_0);
    auto u = u_0;
    c.probe.forward(u, Keep::nothing,
                    [&](int, const double* state) { states.emplace_back(state, state + u.size()); });
  }
  int length() const { return batch.length[0]; }
  std::vector<BlockNorms> norms(int columns, const derivatives::BlockNormPlan& plan = {}) {
    return InputJacobian(c.probe.parameters(), c.line, columns).norms(u_0.data(), length(), plan);
  }
  /// The whole Jacobian of row `row`, [channel of token j][channel of token i], by ModelProbe::tangent.
  Eigen::MatrixXd jacobian(int row) {
    const auto size = static_cast<Eigen::Index>(u_0.size());
    Eigen::MatrixXd all(size, size);
    for (Eigen::Index k = 0; k < size; ++k) {
      std::vector<double> v(u_0.size(), 0.0), next(u_0.size());
      v[k] = 1;
      for (int cell = 0; cell < row; ++cell) {
        c.probe.tangent(cell, states[cell].data(), v.data(), next.data());
        v.swap(next);
      }
      all.col(k) = Eigen::Map<const Eigen::VectorXd>(v.data(), size);
    }
    return all;
  }
  Eigen::MatrixXd block(const Eigen::MatrixXd& whole, int i, int j) const {
    const int d = c.probe.spec().width;
    return whole.block(static_cast<Eigen::Index>(j * d), static_cast<Eigen::Index>(i * d), d, d);
  }

  ProbeCase c;
  Batch batch;
  std::vector<double> u_0;
  std::vector<std::vector<double>> states;
};

/// max |x - y| / max |y|
double distance(const RowMatrix& x, const RowMatrix& y) {
  return (x - y).cwiseAbs().maxCoeff() / y.cwiseAbs().maxCoeff();
}

const ProbeSpec transformer{.layers = 2, .cells = 2},
    pde{.norm = Norm::none, .kind = ModelKind::pde, .kappa = 0.2, .layers = 2, .cells = 4},
    post{.norm = Norm::post, .layers = 2, .cells = 2};

// Sums of some ten products of some ten factors: 1e-13 leaves a factor of 100 for their round-off.
TEST(InputJacobian, norms_are_those_of_the_blocks_of_the_jacobian) {
  for (const auto& spec : {transformer, pde, post}) {
    Case one(spec);
    for (const int columns : {1, 5, 64}) {  // tokens are split, shared, and left over
      const auto found = one.norms(columns);
      ASSERT_EQ(found.size(), static_cast<std::size_t>(spec.cells) + 1);
      for (int row = 0; row <= spec.cells; ++row) {
        const auto whole = one.jacobian(row);
        RowMatrix expected(one.length(), one.length());
        for (int i = 0; i < one.length(); ++i)
          for (int j = 0; j < one.length(); ++j) expected(i, j) = one.block(whole, i, j).norm();
        EXPECT_LT(distance(found[row].norms, expected), 1e-13);
      }
    }
  }
}

TEST(InputJacobian, spectral_norms_are_largest_singular_values) {
  Case one(transformer);
  const auto found = one.norms(7, {.norm = BlockNorm::spectral});
  const auto whole = one.jacobian(2);
  for (int i = 0; i < one.length(); ++i)
    for (int j = 0; j < one.length(); ++j)
      EXPECT_NEAR(found[2].norms(i, j), singular_values(one.block(whole, i, j))[0], 1e-12);
}

TEST(InputJacobian, of_the_input_itself_is_the_identity) {
  Case one(transformer);
  const auto found = one.norms(4);
  const RowMatrix expected =
      std::sqrt(one.c.probe.spec().width) * RowMatrix::Identity(one.length(), one.length());
  EXPECT_EQ(found[0].norms, expected);
  EXPECT_EQ(one.norms(4, {.norm = BlockNorm::spectral})[0].norms,
            RowMatrix::Identity(one.length(), one.length()));
}

// A normal variate is beyond four standard errors with probability 6e-5. Squares of sums are skewed, so 1 % of
// the pairs may be beyond.
TEST(InputJacobian, random_directions_agree_within_four_standard_errors) {
  Case one(transformer);
  const auto exact = one.norms(16), random = one.norms(16, {.probes = 256, .seed = 3});
  for (const std::size_t row : {1U, 2U}) {
    const RowMatrix z =
        (random[row].squares - exact[row].squares).cwiseAbs().cwiseQuotient(random[row].standard_error);
    EXPECT_LE((z.array() > 4).count(), 0.01 * static_cast<double>(z.size()));
    EXPECT_GT(z.mean(), 0.3);  // the mean of |z| is 0.8: errors are not overstated
    EXPECT_LT(random[row].standard_error.cwiseQuotient(random[row].squares).mean(), 0.15);
  }
}

TEST(InputJacobian, of_a_causal_model_has_zeros_for_later_tokens) {
  ModelSpec model = small_model(2);
  model.causal = true;
  model.cells = 2;
  const auto parameters = random_parameters({.model = model});
  const TokenLine line = TokenLine::even(MPI_COMM_SELF, 7, 1);
  const auto u_0 = random_vector(7 * 6, 4);
  const auto found = InputJacobian(parameters, line, 8).norms(u_0.data(), 7, {});
  for (int i = 0; i < 7; ++i)
    for (int j = 0; j < 7; ++j) {
      if (i > j) {
        EXPECT_EQ(found[2].norms(i, j), 0);
      } else {
        EXPECT_GT(found[2].norms(i, j), 0);
      }
    }
}

TEST(InputJacobian, does_not_depend_on_padding) {
  Case one(transformer);
  ASSERT_LT(one.length(), one.c.tokens);
  const auto before = one.norms(6);
  for (std::size_t k = static_cast<std::size_t>(one.length() * one.c.probe.spec().width); k < one.u_0.size();
       ++k)
    one.u_0[k] = 17;
  const auto after = one.norms(6);
  for (std::size_t row = 0; row < before.size(); ++row) EXPECT_EQ(before[row].norms, after[row].norms);
}

TEST(InputJacobian, refuses_what_it_cannot_estimate) {
  Case one(transformer);
  EXPECT_THROW(one.norms(4, {.probes = 1}), std::invalid_argument);
  EXPECT_THROW(one.norms(4, {.norm = BlockNorm::spectral, .probes = 8}), std::invalid_argument);
}

}  // namespace
}  // namespace fluxformer::test
