#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <stdexcept>

#include "base/options.hpp"
#include "tests/unit/base/small_schema.hpp"

namespace fluxformer {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

TEST(Schema, refuses_wrong_declarations) {
  Schema schema = small_schema();
  EXPECT_THROW(schema.declare({.name = "mesh.layers", .fallback = 1L, .doc = ""}), std::logic_error);
  EXPECT_THROW(schema.declare({.name = "layers", .fallback = 1L, .doc = ""}), std::logic_error);
  EXPECT_THROW(schema.declare({.name = "petsc.x", .fallback = 1L, .doc = ""}), std::logic_error);
  EXPECT_THROW(schema.declare({.name = "a.b", .fallback = "#", .doc = ""}), std::logic_error);
  EXPECT_THROW(schema.declare({.name = "a.b", .fallback = 0L, .doc = "", .minimum = 1}), std::logic_error);
  EXPECT_THROW(schema.declare({.name = "a.b", .fallback = "x", .doc = "", .choices = {"y"}}),
               std::logic_error);
  EXPECT_EQ(schema.options().size(), 7U);
}

TEST(Schema, help_teaches_every_key_in_aligned_columns) {
  const std::string help = small_schema().help();
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

TEST(Schema, help_wraps_at_a_hundred_columns_and_keeps_every_word) {
  Schema schema;
  std::string doc;
  for (int i = 0; i < 300; ++i) doc += std::string(i == 0 ? 0 : 1, ' ') + std::string(1 + i * i % 7, 'w');
  schema.declare({.name = "a.short", .fallback = 1L, .doc = doc});
  schema.declare(
      {.name = "a.with_a_very_long_name_that_would_push_the_text_away", .fallback = 1L, .doc = doc});
  const std::string help = schema.help();

  const std::size_t column = std::string("  a.short = 1  ").size();
  std::istringstream lines(help);
  std::string kept;
  std::size_t before = 0;  // width of the line that this one goes on from
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(line.size(), 100U) << line;
    if (line.size() <= column || line.starts_with("  a.with")) continue;
    EXPECT_EQ(line[column - 1], ' ') << line;
    const std::string text = line.substr(column);
    // Lines are full: the first word of this one would not have fitted into the one before.
    EXPECT_TRUE(before == 0 || before + 1 + text.find(' ') > 100) << line;
    before = text.ends_with(')') ? 0 : line.size();
    kept += (kept.empty() ? "" : " ") + text;
  }
  EXPECT_EQ(kept, doc + " (whole number) " + doc + " (whole number)");
}

}  // namespace
}  // namespace fluxformer
