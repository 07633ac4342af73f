// Conditions and lists.

#include "base/option.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"

namespace fluxformer {
namespace {

TEST(Condition, compares_values_of_the_type_of_the_key) {
  EXPECT_TRUE((When{"mesh.layers", 3L}.holds(3L)));
  EXPECT_FALSE((When{"mesh.layers", 3L}.holds(4L)));
  EXPECT_TRUE((When{"equation.c", 1.0}.holds(1.0)));
  EXPECT_TRUE((When{"attention.kernel", {"dot", "l2"}}.holds("l2")));
  EXPECT_FALSE((When{"attention.kernel", "dot"}.holds("l2")));
  EXPECT_TRUE((When{"attention.kernel", fluxformer::Not{"dot"}}.holds("l2")));
  EXPECT_FALSE((When{"attention.kernel", fluxformer::Not{"dot"}}.holds("dot")));
  EXPECT_TRUE((When{"attention.causal", false}.holds(false)));
}

TEST(Condition, of_a_key_alone_wants_a_word_or_a_raised_flag) {
  EXPECT_TRUE(When{"output.file"}.holds("a.h5"));
  EXPECT_FALSE(When{"output.file"}.holds(""));
  EXPECT_TRUE(When{"attention.causal"}.holds(true));
  EXPECT_FALSE(When{"attention.causal"}.holds(false));
}

TEST(Condition, has_clauses_that_must_all_hold) {
  const Condition condition = When{"attention.kernel", {"dot", "l2"}} && When{"output.file"} &&
                              When{"mesh.layers", fluxformer::Not{3L}};
  ASSERT_EQ(condition.clauses.size(), 3U);
  EXPECT_EQ(condition.clauses[0].key, "attention.kernel");
  EXPECT_EQ(condition.clauses[1].key, "output.file");
  EXPECT_EQ(condition.clauses[2].key, "mesh.layers");
  EXPECT_EQ(condition.text(), "attention.kernel = dot or l2 and output.file and mesh.layers != 3");
  EXPECT_TRUE(Condition().clauses.empty());
  EXPECT_EQ(Condition().text(), "");
}

const Option seeds{
    .name = "a.seeds", .fallback = std::vector<long>{1, 2}, .doc = "", .minimum = 0, .maximum = 99};
const Option shares{.name = "a.shares",
                    .fallback = std::vector<double>{},
                    .doc = "",
                    .minimum = 0,
                    .maximum = 1,
                    .above_minimum = true};
const Option norms{.name = "a.norms",
                   .fallback = std::vector<std::string>{"none"},
                   .doc = "",
                   .choices = {"none", "pre", "post"},
                   .not_empty = true};

std::string complaint(const Option& option, const std::string& text) {
  try {
    parse_value(option, text);
  } catch (const BadInput& e) {
    EXPECT_EQ(e.code(), ExitCode::bad_input);
    return e.what();
  }
  return "(accepted)";
}

TEST(Lists, take_commas_and_blanks) {
  EXPECT_EQ(parse_value(seeds, "3, 1 2"), OptionValue(std::vector<long>{3, 1, 2}));
  EXPECT_EQ(parse_value(seeds, "1e1,+7"), OptionValue(std::vector<long>{10, 7}));
  EXPECT_EQ(parse_value(shares, "1,1e-2,\t.5"), OptionValue(std::vector<double>{1, 0.01, 0.5}));
  EXPECT_EQ(parse_value(norms, "post,none"), OptionValue(std::vector<std::string>{"post", "none"}));
  EXPECT_EQ(parse_value(seeds, ""), OptionValue(std::vector<long>{}));
  EXPECT_EQ(parse_value(seeds, " , "), OptionValue(std::vector<long>{}));
}

TEST(Lists, say_which_item_is_wrong_and_what_it_must_be) {
  EXPECT_EQ(complaint(seeds, "1, x"), "a.seeds = 1, x: 'x' must be a whole number");
  EXPECT_EQ(complaint(seeds, "1.5"), "a.seeds = 1.5: '1.5' must be a whole number");
  EXPECT_EQ(complaint(seeds, "2, -1"), "a.seeds = 2, -1: '-1' must be >= 0 and <= 99");
  EXPECT_EQ(complaint(seeds, "100"), "a.seeds = 100: '100' must be >= 0 and <= 99");
  EXPECT_EQ(complaint(shares, "0, 1"), "a.shares = 0, 1: '0' must be > 0 and <= 1");
  EXPECT_EQ(complaint(shares, "1.1"), "a.shares = 1.1: '1.1' must be > 0 and <= 1");
  EXPECT_EQ(complaint(shares, "0.1nm"), "a.shares = 0.1nm: '0.1nm' must be a finite number");
  EXPECT_EQ(complaint(shares, "nan"), "a.shares = nan: 'nan' must be a finite number");
  EXPECT_EQ(complaint(norms, "none, pots"),
            "a.norms = none, pots: 'pots' must be one of none, pre, post; did you mean post?");
}

TEST(Lists, hold_no_item_twice_and_one_where_they_must) {
  EXPECT_EQ(complaint(seeds, "1, 2, 1"), "a.seeds = 1, 2, 1: contains duplicates");
  EXPECT_EQ(complaint(shares, "0.5, 5e-1"), "a.shares = 0.5, 5e-1: contains duplicates");
  EXPECT_EQ(complaint(norms, "pre pre"), "a.norms = pre pre: contains duplicates");
  EXPECT_EQ(complaint(norms, ""), "a.norms = : must not be empty");
}

TEST(Lists, are_written_as_they_are_read) {
  for (const auto& [option, text] :
       {std::pair{seeds, "3, 1, 2"}, {shares, "0.1, 1"}, {norms, "post, pre"}, {seeds, ""}})
    EXPECT_EQ(value_text(parse_value(option, text)), text);
}

TEST(Lists, satisfy_a_condition_on_their_key_if_they_have_an_item) {
  EXPECT_TRUE(When{"a.seeds"}.holds(std::vector<long>{0}));
  EXPECT_FALSE(When{"a.seeds"}.holds(std::vector<long>{}));
}

}  // namespace
}  // namespace fluxformer
