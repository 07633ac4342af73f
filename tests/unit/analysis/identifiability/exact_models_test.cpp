// Models whose token identity and contributions are known.

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "analysis/derivatives/input_jacobian.hpp"
#include "analysis/identifiability/attribution.hpp"
#include "analysis/identifiability/attribution_baselines.hpp"
#include "analysis/identifiability/contributions.hpp"
#include "analysis/identifiability/identity_rates.hpp"
#include "analysis/identifiability/model_heads.hpp"
#include "tests/support/listed_samples.hpp"
#include "tests/unit/analysis/probe_case.hpp"

namespace fluxformer::test {
namespace {

using namespace identifiability;

constexpr int tokens = 7;

/// Attention alone, without LayerNorm and biases: u <- residual u + h A u W_V^T W_O^T. With W_Q = 0 the
/// weights are 1/n whatever the state is, 1/(i + 1) in row i under a causal mask.
struct FrozenCase {
  bool residual = true, causal = false;
  int heads = 1, cells = 2;
  bool unit_maps = true;  // W_V and W_O such that the heads add up to A u; else random
};

Parameters frozen(const FrozenCase& c) {
  ModelSpec model = small_model(2);
  model.norm = Norm::none;
  model.attention.layer_norm = false;
  model.attention.heads = c.heads;
  model.residual = c.residual;
  model.order = SubLayerOrder::parallel;  // a reaction by itself without residual would leave nothing
  model.causal = c.causal;
  if (c.cells != 2) {
    model.kind = ModelKind::pde;
    model.variation = DepthVariation::linear;
  }
  auto parameters = random_parameters({.model = model, .kappa = 0, .rho = 0});
  const auto d = static_cast<std::size_t>(model.width);
  for (const auto& view : parameters.layout.views()) {
    const auto values = parameters.view(view.path());
    if (view.name == "W_Q" || view.name.starts_with("b_")) std::fill(values.begin(), values.end(), 0.0);
    if (c.unit_maps && (view.name == "W_V" || view.name == "W_O"))
      for (std::size_t i = 0; i < d * d; ++i) values[i] = i % (d + 1) == 0 ? 1 : 0;
  }
  return parameters;
}

/// Contributions after every cell, and the attention of the layers.
struct Measured {
  std::vector<Matrix> c, attention;
};

Measured measure(const FrozenCase& frozen_case) {
  const auto parameters = frozen(frozen_case);
  const TokenLine line = TokenLine::even(MPI_COMM_SELF, tokens, 1);
  const auto u_0 = random_vector(tokens * static_cast<std::size_t>(parameters.spec.width), 3);
  Measured found;
  for (const auto& norms : derivatives::InputJacobian(on_cells(parameters, frozen_case.cells), line, 5)
                               .norms(u_0.data(), tokens, {}))
    found.c.push_back(contributions_of_norms(norms.norms));
  for (int l = 0; l < 2; ++l) {
    Matrix a = Matrix::Zero(tokens, tokens);
    for (int i = 0; i < tokens; ++i)
      for (int j = 0; j < (frozen_case.causal ? i + 1 : tokens); ++j)
        a(i, j) = 1.0 / (frozen_case.causal ? i + 1 : tokens);
    found.attention.push_back(a);
  }
  return found;
}

double difference(const Matrix& a, const Matrix& b) {
  return (a - b).cwiseAbs().maxCoeff();
}

// Sums of tens of products: round-off, here and below.
TEST(Contributions, of_frozen_attention_without_residual_are_its_weights) {
  for (const bool causal : {false, true})
    for (const bool unit : {true, false}) {
      const auto found = measure({.residual = false, .causal = causal, .unit_maps = unit});
      Matrix expected = found.attention[0].transpose();
      for (int j = 0; j < tokens; ++j) expected.col(j) /= expected.col(j).sum();
      EXPECT_LT(difference(found.c[1], expected), 1e-14);
    }
}

TEST(Contributions, of_frozen_attention_with_residual_are_rollout) {
  for (const bool causal : {false, true})
    for (const int heads : {1, 2}) {  // equal heads, which add up to A u
      const auto found = measure({.causal = causal, .heads = heads});
      const auto rolled = rollout(found.attention);
      for (std::size_t l = 0; l < 2; ++l) EXPECT_LT(difference(found.c[l + 1], rolled[l].transpose()), 1e-14);
      const Matrix first = (found.attention[0] + Matrix::Identity(tokens, tokens)) / 2;
      EXPECT_LT(difference(found.c[1], first.transpose()), 1e-14);
    }
}

TEST(Contributions, of_a_depth_step_weigh_attention_by_it) {
  const auto found = measure({.causal = true, .cells = 8});
  const double h = 0.25;
  const Matrix once = (h * found.attention[0] + Matrix::Identity(tokens, tokens)) / (1 + h);
  EXPECT_LT(difference(found.c[1], once.transpose()), 1e-14);
  EXPECT_LT(difference(found.c[3], (once * once * once).transpose()), 1e-14);
}

// (I + h kappa L)^m, L the second difference without flux through the ends; row sums are 1.
TEST(Contributions, of_token_diffusion_are_powers_of_its_stencil) {
  ModelSpec model = small_model(2);
  model.kind = ModelKind::pde;
  model.variation = DepthVariation::linear;
  model.norm = Norm::none;
  model.attention.layer_norm = false;
  const double kappa = 0.3, h = 0.5;
  const auto parameters = random_parameters({.model = model, .kappa = kappa, .alpha = 0, .rho = 0});
  const TokenLine line = TokenLine::even(MPI_COMM_SELF, tokens, 1);
  const auto u_0 = random_vector(tokens * 6, 3);
  const auto found =
      derivatives::InputJacobian(on_cells(parameters, 4), line, 6).norms(u_0.data(), tokens, {});
  Matrix step = Matrix::Identity(tokens, tokens);
  for (int i = 0; i < tokens; ++i)
    for (const int j : {i - 1, i + 1})
      if (j >= 0 && j < tokens) step(i, j) += h * kappa, step(i, i) -= h * kappa;
  Matrix power = Matrix::Identity(tokens, tokens);
  for (std::size_t row = 0; row < found.size(); ++row, power = Matrix(power * step))
    EXPECT_LT(difference(contributions_of_norms(found[row].norms), power.transpose()), 1e-14);
}

TEST(Contributions, add_up_to_one_and_are_not_negative) {
  ProbeCase c({.kind = ModelKind::pde, .kappa = 0.1, .layers = 2, .cells = 4}, 1);
  const auto batch = c.batch({2});
  std::vector<double> u;
  c.probe.embed(batch, u);
  for (const auto& norms :
       derivatives::InputJacobian(c.probe.parameters(), c.line, 8).norms(u.data(), batch.length[0], {})) {
    const auto one = contributions_of_norms(norms.norms);
    EXPECT_GE(one.minCoeff(), 0);
    EXPECT_LT((one.colwise().sum().array() - 1).abs().maxCoeff(), 1e-14);
  }
}

/// Twelve samples of images under a model whose terms are weighed by alpha, rho and kappa.
IdentityRates rates_of(Norm norm, double weight, const IdentityPlan& plan) {
  const auto data = random_samples(12, 4, 3, 3, 4, 5);
  const TokenLine line = TokenLine::even(MPI_COMM_SELF, 4, 3);
  auto parameters = probe_parameters({.norm = norm,
                                      .kind = ModelKind::pde,
                                      .kappa = weight / 4,
                                      .alpha = weight,
                                      .rho = weight,
                                      .cells = 4});
  ModelProbe probe(parameters, line, 3, Precision::float64);
  const auto set = [&](std::vector<std::size_t> members) {
    return SampleSet(MPI_COMM_SELF, line, data, std::move(members), 3);
  };
  return identity_rates({set({0, 1, 2, 3}), set({4, 5}), set({6, 7, 8, 9, 10, 11})}, probe, plan);
}

TEST(IdentityRates, are_one_at_every_depth_where_nothing_acts) {
  for (const Norm norm : {Norm::pre, Norm::none}) {
    const auto found = rates_of(norm, 0, {.mlp = false});
    for (const auto guess : {TokenGuess::identity_cosine, TokenGuess::identity_l2, TokenGuess::linear_cosine,
                             TokenGuess::linear_l2, TokenGuess::linear_angle})
      EXPECT_EQ(found.of(guess), std::vector<double>(5, 1.0)) << static_cast<int>(guess);
    EXPECT_EQ(found.identical, 0);
    EXPECT_EQ(found.smallest_distance, std::vector<double>(5, found.smallest_distance[0]));
  }
}

TEST(IdentityRates, are_one_at_the_input_and_fall_where_tokens_mix) {
  const auto found = rates_of(Norm::none, 1.5, {.mlp_settings = {.hidden = 4, .epochs = 1, .batch = 4}});
  EXPECT_EQ(found.of(TokenGuess::identity_cosine).front(), 1);
  EXPECT_EQ(found.of(TokenGuess::identity_l2).front(), 1);
  EXPECT_LT(found.of(TokenGuess::identity_cosine).back(), 1);
  EXPECT_LT(found.of(TokenGuess::mlp_l2).front(), 1);  // four units cannot tell
  EXPECT_LT(found.of(TokenGuess::linear_norm).front(), 0.7);
  double real = 0;
  for (std::size_t k = 6; k < 12; ++k) real += random_samples(12, 4, 3, 3, 4, 5).length(k);
  EXPECT_NEAR(found.tokens, real / 6, 1e-12);
  EXPECT_NEAR(found.chance, 6 / real, 1e-12);
}

TEST(IdentityRates, of_maps_that_are_not_asked_for_are_not_known) {
  const auto found = rates_of(Norm::none, 1, {.linear = false, .mlp = false});
  EXPECT_TRUE(std::isnan(found.of(TokenGuess::linear_l2)[1]));
  EXPECT_TRUE(std::isnan(found.of(TokenGuess::mlp_angle)[1]));
  EXPECT_FALSE(std::isnan(found.of(TokenGuess::shuffled)[1]));
}

}  // namespace
}  // namespace fluxformer::test
