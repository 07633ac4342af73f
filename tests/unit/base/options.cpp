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
  Options options(declare_small);
  EXPECT_EQ(options.all().size(), 7U);
  EXPECT_THROW(options.declare({.name = "a.b", .fallback = 1L, .doc = ""}), std::logic_error);  // too late
  EXPECT_THROW(Options([](Options& o) {
                 declare_small(o);
                 o.declare({.name = "mesh.layers", .fallback = 1L, .doc = ""});
               }),
               std::logic_error);
}

// Otherwise a condition on an unknown key would go unnoticed.
TEST(Options, refuse_wrong_conditions) {
  const auto complaint = [](const std::string& when) -> std::string {
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
  EXPECT_EQ(complaint("attention.kernel = l2"), "(accepted)");  // also if it is declared later
  EXPECT_EQ(complaint("attention.kernel = dot | l2 and attention.causal and mesh.layers != 3"), "(accepted)");
  EXPECT_EQ(complaint("mesh.depth = 3"),
            "option a.b: condition 'mesh.depth = 3': there is no option mesh.depth");
  EXPECT_THAT(complaint("attention.kernel = l3"), HasSubstr("attention.kernel = l3: must be one of dot, l2"));
  EXPECT_THAT(complaint("attention.kernel = dot | l3"), HasSubstr("attention.kernel = l3: must be one of"));
  EXPECT_THAT(complaint("mesh.layers = 0"), HasSubstr("mesh.layers = 0: must be >= 1"));
  EXPECT_THAT(complaint("mesh.layers"), HasSubstr("needs a value"));
  EXPECT_THAT(complaint("attention.kernel != dot | l2"), HasSubstr("!= takes one value"));
  EXPECT_THAT(complaint("attention.kernel=l2"), HasSubstr("there is no option attention.kernel=l2"));
  EXPECT_THAT(complaint("attention.kernel = l2, attention.causal"), HasSubstr("must be one of dot, l2"));
}

TEST(Options, declared_under_a_condition_count_only_with_it) {
  const Options options([](Options& o) {
    declare_small(o);
    o.declare_when("attention.causal", [](Options& inner) {
      inner.declare({.name = "a.plain", .fallback = 1L, .doc = ""});
      inner.declare_when("mesh.layers = 3", [](Options& innermost) {
        innermost.declare({.name = "a.both", .fallback = 1L, .doc = "", .when = "attention.kernel = l2"});
      });
    });
    o.declare({.name = "a.free", .fallback = 1L, .doc = ""});
  });
  EXPECT_EQ(condition_text(options.condition("a.plain")), "attention.causal");
  EXPECT_EQ(condition_text(options.condition("a.both")),
            "attention.causal and mesh.layers = 3 and attention.kernel = l2");
  EXPECT_TRUE(options.condition("a.free").empty());
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

TEST(OptionsHelp, says_when_an_option_counts) {
  const Options options([](Options& o) {
    o.declare({.name = "a.set", .fallback = "x", .doc = "Set.", .choices = {"x", "y", "z"}});
    o.declare({.name = "a.b", .fallback = 1L, .doc = "Number.", .unit = "m", .when = "a.set = x | y | z"});
    o.declare({.name = "a.c", .fallback = 1L, .doc = "Another.", .when = "a.set != x and a.b = 2"});
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
