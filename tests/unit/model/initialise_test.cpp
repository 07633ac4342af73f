// Initial values of the parameters.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "base/error.hpp"
#include "tests/support/small_problem.hpp"
#include "tests/support/test_vectors.hpp"

namespace fluxformer {
namespace {

using namespace test;

ModelSpec full_model() {
  auto m = small_model(3);
  m.order = SubLayerOrder::macaron;
  m.own_halves = true;
  m.kappa_per_channel = true;
  m.features = 4;
  m.tokens = 12;
  m.classes = 5;
  return m;
}

TEST(InitialiseStandard, matrices_are_uniform_with_the_variance_of_xavier) {
  auto m = small_model(2);
  m.width = 48;
  m.ffn = 192;
  m.attention.heads = 4;
  m.features = 16;
  m.tokens = 49;
  m.classes = 10;
  Parameters p(m);
  initialise_standard(p, 11, 0.25, 0.5, 2);
  for (const auto& view : p.layout.views()) {
    const auto w = p.view(view.path());
    const auto n = static_cast<double>(w.size());
    const double mean = std::accumulate(w.begin(), w.end(), 0.0) / n;
    double variance = 0, largest = 0;
    for (const double x : w)
      variance += (x - mean) * (x - mean) / n, largest = std::max(largest, std::abs(x));
    if (view.shape.size() == 2 && view.name != "position") {
      const double bound = std::sqrt(6.0 / (view.shape[0] + view.shape[1]));
      EXPECT_LT(largest, bound) << view.path();
      // five standard errors: of the mean bound/sqrt(3n), of the variance of a uniform number bound^2
      // sqrt(4/45/n)
      EXPECT_LT(std::abs(mean), 5 * bound / std::sqrt(3 * n)) << view.path();
      EXPECT_LT(std::abs(variance - bound * bound / 3), 5 * bound * bound * std::sqrt(4.0 / 45 / n))
          << view.path();
    } else if (view.name == "position") {
      EXPECT_NEAR(std::sqrt(variance), 0.02, 5 * 0.02 / std::sqrt(2 * n));
    } else if (view.name.ends_with("gain")) {
      EXPECT_EQ(largest, 1) << view.path();
      EXPECT_EQ(variance, 0) << view.path();
    } else if (view.group != "equation" && view.name != "kappa") {
      EXPECT_EQ(largest, 0) << view.path();
    }
  }
  EXPECT_EQ(p.view("layers/2/kappa")[0], 0.25);
  EXPECT_EQ(p.view("equation/alpha")[0], 0.5);
  EXPECT_EQ(p.view("equation/rho")[0], 2);
}

TEST(InitialiseStandard, numbers_depend_on_seed_array_and_index_alone) {
  Parameters a(full_model()), b(full_model()), c(full_model());
  b.values.assign(b.values.size(), 42);  // previous values do not matter
  initialise_standard(a, 7, 0, 1, 1);
  initialise_standard(b, 7, 0, 1, 1);
  initialise_standard(c, 8, 0, 1, 1);
  EXPECT_EQ(a.values, b.values);
  EXPECT_NE(a.view("layers/1/W_Q")[0], c.view("layers/1/W_Q")[0]);
  std::set<double> firsts;  // no two arrays start with the same numbers
  int matrices = 0;
  for (const auto& view : a.layout.views())
    if (view.shape.size() == 2) {
      firsts.insert(a.view(view.path())[0] * std::sqrt(view.shape[0] + view.shape[1]));
      ++matrices;
    }
  EXPECT_EQ(firsts.size(), static_cast<std::size_t>(matrices));
}

TEST(InitialiseScaledIdentity, makes_attention_of_identities_and_no_reaction) {
  Parameters p(small_model(1));
  initialise_scaled_identity(p, 1.5, -2);
  for (std::size_t j = 0; j < 36; ++j) {
    const double diagonal = j % 7 == 0 ? 1 : 0;
    EXPECT_EQ(p.view("layers/1/W_Q")[j], 1.5 * diagonal);
    EXPECT_EQ(p.view("layers/1/W_K")[j], 1.5 * diagonal);
    EXPECT_EQ(p.view("layers/1/W_V")[j], -2 * diagonal);
    EXPECT_EQ(p.view("layers/1/W_O")[j], diagonal);
  }
  EXPECT_EQ(p.view("equation/rho")[0], 0);
}

TEST(SetLinearReaction, reacts_in_proportion_to_the_state) {
  ProblemSpec spec;
  spec.model = small_model(1);
  spec.model.norm = Norm::none;
  spec.model.attention.layer_norm = false;
  spec.model.activation = Activation::relu;
  spec.mesh = small_mesh(1);
  Parameters narrow(spec.model);
  EXPECT_THROW(set_linear_reaction(narrow, 1), BadInput);  // 7 hidden units are not 12
  spec.model.ffn = 13;
  Parameters p(spec.model);
  initialise_scaled_identity(p, 1, 1);
  set_linear_reaction(p, -2.5);
  Problem problem(MPI_COMM_WORLD, spec, p);
  const auto u = random_vector(problem.context.size(), 3);
  Whole r(u.size(), 0.0), expected = u;
  for (double& x : expected) x *= -2.5;
  const auto part = FieldTermKind::reaction;
  problem.model->field({&part, 1}, {1, 0}, 1, u.data(), r.data(), nullptr);
  EXPECT_LT(relative_difference(r, expected), 1e-15);
}

}  // namespace
}  // namespace fluxformer
