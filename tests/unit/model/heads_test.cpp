// Models with other heads: what is kept, what is new.

#include "model/heads.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/small_word_models.hpp"

namespace fluxformer {
namespace {

using namespace test;

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
