// Initial weights; models with other heads: what is kept, what is new.

#include "model/initialise.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "base/error.hpp"
#include "tests/support/linear_reaction.hpp"
#include "tests/support/small_problem.hpp"
#include "tests/support/small_word_models.hpp"
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

TEST(InitialiseStandard, draws_the_same_matrices_with_transport_and_without) {
  auto drifting = full_model();
  drifting.transport = true;
  Parameters without(full_model()), with(drifting);
  initialise_standard(without, 7, 0, 1, 1);
  initialise_standard(with, 7, 0, 1, 1, 0.25);
  for (const auto& view : without.layout.views())
    EXPECT_TRUE(std::ranges::equal(without.view(view.path()), with.view(view.path()))) << view.path();
  for (const char* nu : {"layers/1/nu", "layers/3/nu"}) EXPECT_EQ(with.view(nu)[0], 0.25);
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

SmallClassifier named(const std::string& name) {
  auto all = small_word_models();
  for (auto& c : small_classifiers()) all.push_back(std::move(c));
  return *std::ranges::find(all, name, &SmallClassifier::name);
}

bool equal(const Parameters& a, const Parameters& b, const std::string& path) {
  return std::ranges::equal(a.view(path), b.view(path));
}

/// Every array of `made` is that of `from`, but for those of the groups `fresh`, which are the initial ones
/// of this seed.
void expect_kept_but_for(const std::vector<std::string>& fresh, const Parameters& made,
                         const Parameters& from, std::uint64_t seed) {
  Parameters initial(made.spec);
  initialise_standard(initial, seed, 0, 1, 1);
  for (const auto& view : made.layout.views()) {
    const auto path = view.path();
    const bool is_new = std::ranges::find(fresh, view.group) != fresh.end();
    EXPECT_TRUE(equal(made, is_new ? initial : from, path)) << path;
  }
}

TEST(WithHeads, a_model_of_masked_words_becomes_a_classifier) {
  const auto from = named("own").parameters();
  const auto made = with_heads(from, 4, {}, 9);
  EXPECT_EQ(made.report, "kept: embedding, final_norm, layers; new: head; left out: word_head");
  const auto& to = made.parameters;
  EXPECT_EQ(to.spec.classes, 4);
  EXPECT_FALSE(to.spec.word_head.present);
  EXPECT_FALSE(to.layout.has("word_head/b"));
  EXPECT_EQ(to.layout.at("head/W").shape, (std::vector<int>{4, to.spec.width}));
  expect_kept_but_for({"head"}, to, from, 9);
  // Initial numbers are not all zero, those of the biases are.
  EXPECT_NE(to.view("head/W")[0], 0);
  EXPECT_EQ(to.view("head/b")[3], 0);
}

TEST(WithHeads, a_classifier_becomes_a_model_of_masked_words) {
  const auto from = named("words").parameters();
  for (const bool own : {false, true}) {
    const auto made = with_heads(from, 0, {.present = true, .own_matrix = own}, 9);
    EXPECT_EQ(made.report, "kept: embedding, final_norm, layers; new: word_head; left out: head");
    EXPECT_EQ(made.parameters.layout.has("word_head/W"), own);
    EXPECT_FALSE(made.parameters.layout.has("head/W"));
    expect_kept_but_for({"word_head"}, made.parameters, from, 9);
  }
}

TEST(WithHeads, new_numbers_depend_on_the_seed_alone) {
  const auto from = named("own").parameters();
  auto other = from;
  for (double& value : other.values) value += 1;
  const auto made = with_heads(from, 3, {}, 9).parameters, again = with_heads(other, 3, {}, 9).parameters,
             reseeded = with_heads(from, 3, {}, 10).parameters;
  EXPECT_TRUE(equal(again, made, "head/W"));
  EXPECT_FALSE(equal(reseeded, made, "head/W"));
  EXPECT_FALSE(equal(again, made, "layers/1/W_Q"));
}

TEST(WithHeads, a_model_that_has_the_heads_is_kept_as_it_is) {
  for (const auto& name : {"pre", "post", "words", "pde", "bert", "gpt", "vit", "tied", "own"}) {
    const auto from = named(name).parameters();
    const auto made = with_heads(from, from.spec.classes, from.spec.word_head, 9);
    EXPECT_EQ(made.report, "") << name;
    EXPECT_EQ(made.parameters.values, from.values) << name;
    EXPECT_EQ(made.parameters.layout.size(), from.layout.size()) << name;
  }
}

TEST(WithHeads, a_word_head_that_is_there_keeps_its_matrix_and_what_is_in_front_of_it) {
  const auto tied = named("tied").parameters(), own = named("own").parameters();
  const auto as_it_was = with_heads(tied, 0, {.present = true, .own_matrix = true}, 9);
  EXPECT_EQ(as_it_was.report, "");
  EXPECT_EQ(as_it_was.parameters.values, tied.values);
  EXPECT_TRUE(as_it_was.parameters.layout.has("word_head/transform_W"));
  EXPECT_EQ(with_heads(own, 0, {.present = true}, 9).parameters.values, own.values);
}

TEST(WithHeads, another_number_of_classes_keeps_what_is_in_front_of_the_head) {
  const auto from = named("bert").parameters();
  const auto made = with_heads(from, from.spec.classes + 2, {}, 9);
  EXPECT_EQ(made.report, "kept: embedding, head/transform_W, head/transform_b, layers; new: head/W (" +
                             std::to_string(from.spec.classes + 2) + " x " + std::to_string(from.spec.width) +
                             " instead of " + std::to_string(from.spec.classes) + " x " +
                             std::to_string(from.spec.width) + "), head/b (" +
                             std::to_string(from.spec.classes + 2) + " instead of " +
                             std::to_string(from.spec.classes) + "); left out: nothing");
  EXPECT_TRUE(equal(made.parameters, from, "head/transform_W"));
  Parameters initial(made.parameters.spec);
  initialise_standard(initial, 9, 0, 1, 1);
  EXPECT_TRUE(equal(made.parameters, initial, "head/W"));
  EXPECT_EQ(made.parameters.spec.pooling, Pooling::first);
}

TEST(WithHeads, the_final_norm_stays_where_a_model_has_no_head_any_more) {
  for (const auto& name : {"pre", "own", "pde"}) {
    const auto from = named(name).parameters();
    const auto made = with_heads(from, 0, {}, 9).parameters;
    EXPECT_TRUE(made.spec.has_final_norm()) << name;
    EXPECT_TRUE(equal(made, from, "final_norm/gain")) << name;
    EXPECT_TRUE(equal(made, from, "final_norm/bias")) << name;
    // And comes back with a head.
    EXPECT_TRUE(equal(with_heads(made, 3, {}, 9).parameters, from, "final_norm/gain")) << name;
  }
  EXPECT_FALSE(with_heads(named("post").parameters(), 0, {}, 9).parameters.spec.has_final_norm());
}

TEST(WithHeads, what_is_in_front_of_a_head_goes_with_it) {
  const auto made = with_heads(named("bert").parameters(), 0, {.present = true}, 9).parameters;
  EXPECT_FALSE(made.spec.head_transform.present);
  EXPECT_FALSE(with_heads(made, 3, {}, 9).parameters.layout.has("head/transform_W"));
}

TEST(WithHeads, the_coefficients_of_a_pde_are_kept) {
  const auto c = named("pde");
  const auto from = c.parameters();
  const auto made = with_heads(from, 2, {}, 9).parameters;
  EXPECT_EQ(made.view("equation/alpha")[0], from.view("equation/alpha")[0]);
  EXPECT_EQ(made.view("equation/rho")[0], from.view("equation/rho")[0]);
  EXPECT_EQ(made.view("layers/2/kappa")[0], from.view("layers/2/kappa")[0]);
  EXPECT_NE(made.view("layers/2/kappa")[0], 0);
  EXPECT_EQ(made.spec.knots, from.spec.knots);
}

}  // namespace
}  // namespace fluxformer
