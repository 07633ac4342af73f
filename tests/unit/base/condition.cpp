#include "base/condition.hpp"

#include <gtest/gtest.h>

#include "tests/unit/base/small_options.hpp"

namespace fluxformer {
namespace {

bool holds(const std::string& text, const OptionValue& value) {
  return parse_condition(text, *small_options()).at(0).holds(value);
}

TEST(Condition, compares_values_of_the_type_of_the_key) {
  EXPECT_TRUE(holds("mesh.layers = 3", 3L));
  EXPECT_FALSE(holds("mesh.layers = 3", 4L));
  EXPECT_TRUE(holds("equation.c = 1e0", 1.0));
  EXPECT_TRUE(holds("attention.kernel = dot | l2", "l2"));
  EXPECT_FALSE(holds("attention.kernel = dot", "l2"));
  EXPECT_TRUE(holds("attention.kernel != dot", "l2"));
  EXPECT_FALSE(holds("attention.kernel != dot", "dot"));
  EXPECT_TRUE(holds("attention.causal = false", false));
}

TEST(Condition, of_a_key_alone_wants_a_word_or_a_raised_flag) {
  EXPECT_TRUE(holds("output.file", "a.h5"));
  EXPECT_FALSE(holds("output.file", ""));
  EXPECT_TRUE(holds("attention.causal", true));
  EXPECT_FALSE(holds("attention.causal", false));
}

TEST(Condition, has_clauses_that_must_all_hold) {
  const auto condition =
      parse_condition("attention.kernel = dot | l2 and output.file and mesh.layers != 3", *small_options());
  ASSERT_EQ(condition.size(), 3U);
  EXPECT_EQ(condition[0].key, "attention.kernel");
  EXPECT_EQ(condition[1].key, "output.file");
  EXPECT_EQ(condition[2].key, "mesh.layers");
  EXPECT_EQ(condition_text(condition), "attention.kernel = dot or l2 and output.file and mesh.layers != 3");
  EXPECT_TRUE(parse_condition("", *small_options()).empty());
}

}  // namespace
}  // namespace fluxformer
