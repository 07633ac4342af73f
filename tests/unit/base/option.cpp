// Conditions of options.

#include "base/option.hpp"

#include <gtest/gtest.h>

namespace fluxformer {
namespace {

TEST(Condition, compares_values_of_the_type_of_the_key) {
  EXPECT_TRUE((When{"mesh.layers", 3L}.holds(3L)));
  EXPECT_FALSE((When{"mesh.layers", 3L}.holds(4L)));
  EXPECT_TRUE((When{"equation.c", 1.0}.holds(1.0)));
  EXPECT_TRUE((When{"attention.kernel", {"dot", "l2"}}.holds("l2")));
  EXPECT_FALSE((When{"attention.kernel", "dot"}.holds("l2")));
  EXPECT_TRUE((When{"attention.kernel", Not{"dot"}}.holds("l2")));
  EXPECT_FALSE((When{"attention.kernel", Not{"dot"}}.holds("dot")));
  EXPECT_TRUE((When{"attention.causal", false}.holds(false)));
}

TEST(Condition, of_a_key_alone_wants_a_word_or_a_raised_flag) {
  EXPECT_TRUE(When{"output.file"}.holds("a.h5"));
  EXPECT_FALSE(When{"output.file"}.holds(""));
  EXPECT_TRUE(When{"attention.causal"}.holds(true));
  EXPECT_FALSE(When{"attention.causal"}.holds(false));
}

TEST(Condition, has_clauses_that_must_all_hold) {
  const Condition condition =
      When{"attention.kernel", {"dot", "l2"}} && When{"output.file"} && When{"mesh.layers", Not{3L}};
  ASSERT_EQ(condition.clauses.size(), 3U);
  EXPECT_EQ(condition.clauses[0].key, "attention.kernel");
  EXPECT_EQ(condition.clauses[1].key, "output.file");
  EXPECT_EQ(condition.clauses[2].key, "mesh.layers");
  EXPECT_EQ(condition.text(), "attention.kernel = dot or l2 and output.file and mesh.layers != 3");
  EXPECT_TRUE(Condition().clauses.empty());
  EXPECT_EQ(Condition().text(), "");
}

}  // namespace
}  // namespace fluxformer
