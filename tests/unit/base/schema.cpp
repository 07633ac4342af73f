#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <stdexcept>

#include "base/options.hpp"
#include "small_schema.hpp"

namespace fluxformer {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

TEST(Schema, refuses_wrong_declarations) {
  Schema schema = small_schema();
  EXPECT_THROW(schema.declare({.name = "mesh.layers", .fallback = 1L, .doc = ""}), std::logic_error);
  EXPECT_THROW(schema.declare({.name = "layers", .fallback = 1L, .doc = ""}), std::logic_error);
  EXPECT_THROW(schema.declare({.name = "petsc.x", .fallback = 1L, .doc = ""}), std::logic_error);
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
  std::string doc = "word0";
  for (int i = 1; i < 60; ++i) doc += " word" + std::to_string(i);
  schema.declare({.name = "a.short", .fallback = 1L, .doc = doc});
  schema.declare(
      {.name = "a.with_a_very_long_name_that_would_push_the_text_away", .fallback = 1L, .doc = doc});
  const std::string help = schema.help();
  std::istringstream lines(help);
  std::size_t widest = 0;
  for (std::string line; std::getline(lines, line);) {
    EXPECT_TRUE(line.empty() || line.back() != ' ') << line;
    widest = std::max(widest, line.size());
  }
  EXPECT_LE(widest, 100U);
  EXPECT_GE(widest, 94U);  // the next word has six letters: lines are filled
  std::istringstream words(help);
  int expected = 0;
  for (std::string word; words >> word;) {
    if (!word.starts_with("word")) continue;
    EXPECT_EQ(word, "word" + std::to_string(expected % 60));
    ++expected;
  }
  EXPECT_EQ(expected, 120);
}

}  // namespace
}  // namespace fluxformer
