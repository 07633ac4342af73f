#include "base/options.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <stdexcept>

#include "tests/unit/base/small_options.hpp"

namespace fluxformer {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

Options one(const Option& option) {
  return Options([&](Options& options) { options.declare(option); });
}

TEST(Options, refuse_wrong_declarations) {
  EXPECT_THROW(one({.name = "layers", .fallback = 1L, .doc = ""}), std::logic_error);
  EXPECT_THROW(one({.name = "petsc.x", .fallback = 1L, .doc = ""}), std::logic_error);
  EXPECT_THROW(one({.name = "a.b", .fallback = "#", .doc = ""}), std::logic_error);
  EXPECT_THROW(one({.name = "a.b", .fallback = 0L, .doc = "", .minimum = 1}), std::logic_error);
  EXPECT_THROW(one({.name = "a.b", .fallback = "x", .doc = "", .choices = {"y"}}), std::logic_error);
  EXPECT_THROW(one({.name = "a.b", .fallback = std::vector<long>{1, 1}, .doc = ""}), std::logic_error);
  EXPECT_THROW(one({.name = "a.b", .fallback = std::vector<long>{}, .doc = "", .not_empty = true}),
               std::logic_error);
  EXPECT_THROW(one({.name = "a.b", .fallback = std::vector<std::string>{"y"}, .doc = "", .choices = {"x"}}),
               std::logic_error);
  // It would be read as two items.
  EXPECT_THROW(one({.name = "a.b", .fallback = std::vector<std::string>{"x y"}, .doc = ""}),
               std::logic_error);
  Options options(declare_small);
  EXPECT_EQ(options.all().size(), 7U);
  EXPECT_THROW(options.declare({.name = "a.b", .fallback = 1L, .doc = ""}), std::logic_error);  // too late
  EXPECT_THROW(Options([](Options& o) {
                 declare_small(o);
                 o.declare({.name = "mesh.layers", .fallback = 1L, .doc = ""});
               }),
               std::logic_error);
}

TEST(Options, are_declared_by_name_default_sentence_and_more) {
  const Options options([](Options& o) {
    o.declare("a.b", "x", "a word", {.choices = {"x", "y"}, .role = Role::free});
    EXPECT_THROW(o.declare("a.c", 0L, "a number", {.minimum = 1}), std::logic_error);
  });
  const auto& word = options.at("a.b");
  EXPECT_EQ(word.fallback, OptionValue("x"));
  EXPECT_EQ(word.doc, "a word");
  EXPECT_EQ(word.choices.size(), 2U);
  EXPECT_EQ(word.role, Role::free);
}

// Otherwise a condition on an unknown key would go unnoticed.
TEST(Options, refuse_wrong_conditions) {
  const auto complaint = [](const Condition& when) -> std::string {
    try {
      Options([&](Options& o) {
        o.declare({.name = "a.b", .fallback = 1L, .doc = "", .when = when});
        declare_small(o);
      });
    } catch (const std::logic_error& e) {
      return e.what();
    }
    return "(accepted)";
  };
  EXPECT_EQ(complaint(When{"attention.kernel", "l2"}), "(accepted)");  // also if it is declared later
  EXPECT_EQ(complaint(When{"attention.kernel", {"dot", "l2"}} && When{"attention.causal"} &&
                      When{"mesh.layers", fluxformer::Not{3L}}),
            "(accepted)");
  EXPECT_EQ(complaint(When{"mesh.depth", 3L}),
            "option a.b: condition 'mesh.depth = 3': there is no option mesh.depth");
  EXPECT_THAT(complaint(When{"attention.kernel", "l3"}),
              HasSubstr("attention.kernel = l3: must be one of dot, l2"));
  EXPECT_THAT(complaint(When{"attention.kernel", {"dot", "l3"}}),
              HasSubstr("attention.kernel = l3: must be one of"));
  EXPECT_THAT(complaint(When{"mesh.layers", 0L}), HasSubstr("mesh.layers = 0: must be >= 1"));
  EXPECT_THAT(complaint(When{"mesh.layers", "3"}), HasSubstr("not of the type"));
  EXPECT_THAT(complaint(When{"equation.c", 1L}), HasSubstr("not of the type"));
  EXPECT_THAT(complaint(When{"mesh.layers"}), HasSubstr("needs a value"));
}

TEST(Options, declared_under_a_condition_count_only_with_it) {
  const Options options([](Options& o) {
    declare_small(o);
    o.declare_when(When{"attention.causal"}, [](Options& inner) {
      inner.declare({.name = "a.plain", .fallback = 1L, .doc = ""});
      inner.declare_when(When{"mesh.layers", 3L}, [](Options& innermost) {
        innermost.declare(
            {.name = "a.both", .fallback = 1L, .doc = "", .when = When{"attention.kernel", "l2"}});
      });
    });
    o.declare({.name = "a.free", .fallback = 1L, .doc = ""});
  });
  EXPECT_EQ(options.at("a.plain").when.text(), "attention.causal");
  EXPECT_EQ(options.at("a.both").when.text(),
            "attention.causal and mesh.layers = 3 and attention.kernel = l2");
  EXPECT_TRUE(options.at("a.free").when.clauses.empty());
  EXPECT_THROW(options.at("a.none"), std::logic_error);
}

TEST(OptionsHelp, teaches_every_key_in_aligned_columns) {
  const std::string help = options_help(*small_options());
  EXPECT_THAT(help,
              StartsWith("[mesh]\n"
                         "  mesh.layers = 12          Number of layers. (whole number >= 1 and <= 1000)\n"
                         "\n[equation]\n"
                         "  equation.kappa = 0        Diffusion over tokens. (number >= 0; token spacings^2 "
                         "per unit time)\n"));
  EXPECT_THAT(help, HasSubstr("  attention.kernel = dot    How queries meet keys. (dot | l2)\n"));
  EXPECT_THAT(help, HasSubstr("  attention.causal = false  Hides later tokens. (true | false)\n"));
  EXPECT_THAT(help, HasSubstr("  output.file =             Where to write. (text)\n"));
}

TEST(OptionsHelp, says_what_the_items_of_a_list_may_be) {
  const std::string help = options_help(Options([](Options& o) {
    o.declare({.name = "a.seeds",
               .fallback = std::vector<long>{1, 2},
               .doc = "Seeds.",
               .minimum = 0,
               .not_empty = true});
    o.declare(
        {.name = "a.sizes", .fallback = std::vector<double>{}, .doc = "Sizes.", .unit = "m", .minimum = 0});
    o.declare({.name = "a.parts",
               .fallback = std::vector<std::string>{"x"},
               .doc = "Parts.",
               .choices = {"x", "y"}});
    o.declare({.name = "a.names", .fallback = std::vector<std::string>{}, .doc = "Names."});
  }));
  EXPECT_THAT(help, HasSubstr("  a.seeds = 1, 2  Seeds. (list of whole numbers >= 0; not empty)\n"));
  EXPECT_THAT(help, HasSubstr("  a.sizes =       Sizes. (list of numbers >= 0; m)\n"));
  EXPECT_THAT(help, HasSubstr("  a.parts = x     Parts. (list of x | y)\n"));
  EXPECT_THAT(help, HasSubstr("  a.names =       Names. (list of words)\n"));
}

TEST(OptionsHelp, says_when_an_option_counts) {
  const Options options([](Options& o) {
    o.declare({.name = "a.set", .fallback = "x", .doc = "Set.", .choices = {"x", "y", "z"}});
    o.declare({.name = "a.b",
               .fallback = 1L,
               .doc = "Number.",
               .unit = "m",
               .when = When{"a.set", {"x", "y", "z"}}});
    o.declare({.name = "a.c",
               .fallback = 1L,
               .doc = "Another.",
               .when = When{"a.set", fluxformer::Not{"x"}} && When{"a.b", 2L}});
  });
  const std::string help = options_help(options);
  EXPECT_THAT(help, HasSubstr("Number. (whole number; m; only with a.set = x, y or z)\n"));
  EXPECT_THAT(help, HasSubstr("Another. (whole number; only with a.set != x and a.b = 2)\n"));
}

TEST(OptionsHelp, wraps_at_a_hundred_columns_and_keeps_every_word) {
  std::string doc;
  for (int i = 0; i < 300; ++i) doc += std::string(i == 0 ? 0 : 1, ' ') + std::string(1 + i * i % 7, 'w');
  const std::string help = options_help(Options([&](Options& o) {
    o.declare({.name = "a.short", .fallback = 1L, .doc = doc});
    o.declare({.name = "a.with_a_very_long_name_that_would_push_the_text_away", .fallback = 1L, .doc = doc});
  }));

  const std::size_t column = std::string("  a.short = 1  ").size();
  std::istringstream lines(help);
  std::string kept;
  std::size_t before = 0;  // width of the preceding line
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(line.size(), 100U) << line;
    if (line.size() <= column || line.starts_with("  a.with")) continue;
    EXPECT_EQ(line[column - 1], ' ') << line;
    const std::string text = line.substr(column);
    // Lines are full: the first word of this one would not have fitted on the line before.
    EXPECT_TRUE(before == 0 || before + 1 + text.find(' ') > 100) << line;
    before = text.ends_with(')') ? 0 : line.size();
    kept += (kept.empty() ? "" : " ") + text;
  }
  EXPECT_EQ(kept, doc + " (whole number) " + doc + " (whole number)");
}

}  // namespace
}  // namespace fluxformer
