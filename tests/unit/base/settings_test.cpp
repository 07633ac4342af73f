#include "base/settings.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <limits>
#include <stdexcept>

#include "base/error.hpp"
#include "base/random.hpp"
#include "tests/unit/base/small_options.hpp"

namespace fluxformer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;
using testing::StartsWith;

Settings read(const std::string& deck, const std::vector<std::string>& overrides = {}) {
  return {small_options(), deck, overrides};
}

std::string complaint(const std::string& deck, const std::vector<std::string>& overrides = {}) {
  try {
    read(deck, overrides);
  } catch (const BadInput& e) {
    EXPECT_EQ(e.code(), ExitCode::bad_input);
    return e.what();
  }
  return "(accepted)";
}

TEST(Settings, hold_the_defaults_where_nothing_was_given) {
  const Settings settings = read("");
  EXPECT_EQ(settings.integer("mesh.layers"), 12);
  EXPECT_EQ(settings.real("equation.c"), 1.0);
  EXPECT_EQ(settings.word("attention.kernel"), "dot");
  EXPECT_FALSE(settings.flag("attention.causal"));
  EXPECT_EQ(settings.word("output.file"), "");
  EXPECT_FALSE(settings.given("mesh.layers"));
}

TEST(Settings, read_a_deck_and_let_the_command_line_win) {
  const Settings settings = read(
      "\xEF\xBB\xBF# a deck\n[mesh] # tokens and layers\r\nlayers=7\r\n\n[equation]\n  kappa = 2.5e-1\n"
      "[attention]\nkernel = l2\n[equation]\nc = +3",
      {"mesh.layers=8", "mesh.layers=9", "output.file=a b=c.h5", "attention.causal"});
  EXPECT_EQ(settings.integer("mesh.layers"), 9);
  EXPECT_EQ(settings.real("equation.kappa"), 0.25);
  EXPECT_EQ(settings.real("equation.c"), 3.0);
  EXPECT_EQ(settings.word("attention.kernel"), "l2");
  EXPECT_EQ(settings.word("output.file"), "a b=c.h5");
  EXPECT_TRUE(settings.flag("attention.causal"));
  EXPECT_TRUE(settings.given("mesh.layers"));
  EXPECT_TRUE(settings.given("equation.c"));
  EXPECT_FALSE(settings.given("run.seed"));
}

TEST(Settings, take_the_full_name_of_a_key_outside_of_sections) {
  EXPECT_EQ(read("mesh.layers = 3").integer("mesh.layers"), 3);
}

TEST(Settings, end_at_the_comment_and_without_outer_blanks) {
  EXPECT_EQ(read("[mesh]\nlayers = 7 # fewer\n").integer("mesh.layers"), 7);
  EXPECT_EQ(read("[output]\nfile = # none\n").word("output.file"), "");
  EXPECT_EQ(read("[output]\nfile = a \"b\";c.h5\t#d\n").word("output.file"), "a \"b\";c.h5");
}

// Otherwise the settings in an output file could not reproduce its run.
TEST(Settings, hold_nothing_from_the_command_line_that_no_deck_can) {
  const std::string why = ": must not hold #, a line break, or blanks around it (a deck could not repeat it)";
  for (const std::string key : {"output.file", "petsc.prefix"})
    for (const std::string value : {"#", "a#b", "a\nb", " a", "a\t", "\ra", " "})
      EXPECT_EQ(complaint("", {key + "=" + value}), key + " = " + value + why);
}

TEST(Settings, refuse_what_only_a_shell_would_take_away) {
  const std::string quoted = "a value is written without quotation marks, also if it holds blanks";
  const std::string tilde =
      "~ is not replaced by a folder here; write the whole path (./~ for a name that begins with ~)";
  for (const std::string key : {"output.file", "mesh.layers", "petsc.prefix"}) {
    for (const std::string value : {"\"a b.h5\"", "'a.h5'", "\"a.h5", "a.h5\"", "\u201Ca.h5\u201D"}) {
      EXPECT_EQ(complaint(key + " = " + value), key + " = " + value + " (deck): " + quoted);
      EXPECT_EQ(complaint("", {key + "=" + value}), key + " = " + value + " (command line): " + quoted);
    }
    for (const std::string value : {"~", "~/a.h5", "~somebody/a.h5"})
      EXPECT_EQ(complaint(key + " = " + value), key + " = " + value + " (deck): " + tilde);
  }
  for (const std::string value : {"./~/it's a \"b\".h5", "students'", "./'a'"})
    EXPECT_EQ(read("output.file = " + value).word("output.file"), value);
  // Files of earlier versions may hold such settings.
  const Settings stored(small_options(), "output.file = \"a.h5\"", {}, "a.h5", Origin::stored);
  EXPECT_EQ(stored.word("output.file"), "\"a.h5\"");
}

TEST(Settings, read_every_way_to_write_a_flag) {
  for (const std::string text : {"true", "on", "1", "yes"})
    EXPECT_TRUE(read("", {"attention.causal=" + text}).flag("attention.causal")) << text;
  for (const std::string text : {"false", "off", "0", "no"})
    EXPECT_FALSE(read("attention.causal=1", {"attention.causal=" + text}).flag("attention.causal")) << text;
  EXPECT_EQ(complaint("attention.causal = maybe"),
            "attention.causal = maybe: must be true or false (or on, off, yes, no, 1, 0)");
}

TEST(Settings, name_an_unknown_key_who_gave_it_and_the_nearest_known_one) {
  EXPECT_EQ(complaint("[mesh]\n\nlayres = 3\n"),
            "mesh.layres: unknown key (deck); did you mean mesh.layers?");
  EXPECT_EQ(complaint("", {"equation.kapa=1"}),
            "equation.kapa: unknown key (command line); did you mean equation.kappa?");
  EXPECT_EQ(complaint("[model]\nkernel = l2\n"),
            "model.kernel: unknown key (deck); did you mean attention.kernel?");
  EXPECT_EQ(complaint("[zebra]\nstripes = 3\n"), "zebra.stripes: unknown key (deck)");
  try {
    Settings(small_options(), "x = 1", {}, "input/a.ini");
    ADD_FAILURE() << "accepted";
  } catch (const BadInput& e) {
    EXPECT_STREQ(e.what(), "x: unknown key (input/a.ini)");
  }
}

TEST(Settings, count_only_what_an_int_can) {
  const auto options = std::make_shared<const Options>(
      [](Options& o) { o.declare({.name = "mesh.layers", .fallback = 7L, .doc = "Number of layers."}); });
  EXPECT_EQ(Settings(options, "", {}).count("mesh.layers"), 7);
  const Settings many(options, "", {"mesh.layers=4294967297"});
  try {
    many.count("mesh.layers");
    ADD_FAILURE() << "2^32 + 1 became an int";
  } catch (const BadInput& e) {
    EXPECT_THAT(e.what(), HasSubstr("mesh.layers = 4294967297: must be at most 2147483647"));
  }
}

TEST(Settings, say_what_a_number_must_be) {
  EXPECT_EQ(complaint("[mesh]\nlayers = 3.5\n"), "mesh.layers = 3.5: must be a whole number");
  EXPECT_EQ(complaint("[mesh]\nlayers = many\n"), "mesh.layers = many: must be a whole number");
  EXPECT_EQ(complaint("[mesh]\nlayers =\n"), "mesh.layers = : must be a whole number");
  EXPECT_EQ(complaint("[mesh]\nlayers = 12abc\n"), "mesh.layers = 12abc: must be a whole number");
  EXPECT_EQ(complaint("run.seed = 1e300"), "run.seed = 1e300: must be a whole number of at most 53 bits");
  EXPECT_EQ(complaint("[mesh]\nlayers = 0\n"), "mesh.layers = 0: must be >= 1 and <= 1000");
  EXPECT_EQ(complaint("[mesh]\nlayers = 1001\n"), "mesh.layers = 1001: must be >= 1 and <= 1000");
  EXPECT_EQ(complaint("[equation]\nkappa = -1\n"),
            "equation.kappa = -1: must be >= 0 (token spacings^2 per unit time)");
  EXPECT_EQ(complaint("[equation]\nc = 0\n"), "equation.c = 0: must be > 0 and <= 10");
  EXPECT_EQ(complaint("[equation]\nc = 10\nkappa = 0\n"), "(accepted)");
  EXPECT_EQ(complaint("[mesh]\nlayers = 1\n"), "(accepted)");
  EXPECT_EQ(complaint("[mesh]\nlayers = 1e3\n"), "(accepted)");
}

TEST(Settings, hold_lists) {
  const auto options = std::make_shared<const Options>([](Options& o) {
    o.declare({.name = "a.seeds", .fallback = std::vector<long>{1}, .doc = ""});
    o.declare({.name = "a.sizes", .fallback = std::vector<double>{0.5}, .doc = ""});
    o.declare({.name = "a.parts", .fallback = std::vector<std::string>{"x"}, .doc = ""});
  });
  const Settings settings(options, "a.seeds = 3,1", {"a.parts=y z"});
  EXPECT_THAT(settings.integers("a.seeds"), ElementsAre(3, 1));
  EXPECT_THAT(settings.reals("a.sizes"), ElementsAre(0.5));
  EXPECT_THAT(settings.words("a.parts"), ElementsAre("y", "z"));
  EXPECT_EQ(settings.resolved(), "[a]\nparts = y, z\nseeds = 3, 1\nsizes = 0.5\n");
  EXPECT_EQ(settings.with({{"a.sizes", std::vector<double>{}}}).reals("a.sizes").size(), 0U);
  EXPECT_EQ(Settings(options, "a.seeds = 3 1", {}).difference(settings),
            "a.parts = x: deck was made with y, z");
}

TEST(Settings, differ_where_a_default_was_given_instead_of_what_another_file_decides) {
  const auto options = std::make_shared<const Options>([](Options& o) {
    o.declare({.name = "train.loss", .fallback = std::string("cross_entropy"), .doc = ""});
    o.declare({.name = "train.rate", .fallback = 0.5, .doc = ""});
  });
  const auto made = [&](const std::string& deck) {
    Settings settings(options, deck, {});
    settings.leave_to_file("train.loss");
    return settings;
  };
  const auto left_out = made("train.rate = 0.5"), given = made("train.loss = cross_entropy");
  const auto stored = [&](const Settings& of) {
    return Settings(options, of.resolved(), {}, "file", Origin::stored);
  };
  EXPECT_EQ(left_out.difference(stored(left_out)), "");
  EXPECT_EQ(given.difference(stored(given)), "");
  EXPECT_EQ(given.difference(stored(left_out)), "train.loss = cross_entropy: file was made with (left out)");
  EXPECT_EQ(left_out.difference(stored(given)), "train.loss = (left out): file was made with cross_entropy");
}

TEST(Settings, refuse_numbers_that_are_not_finite) {
  for (const std::string text : {"nan", "inf", "-inf", "NaN", "Infinity", "1e999", "1,5", "0x10", "+-1", ""})
    EXPECT_EQ(complaint("equation.kappa = " + text),
              "equation.kappa = " + text + ": must be a finite number");
}

TEST(Settings, say_which_words_are_allowed_and_which_was_meant) {
  EXPECT_EQ(complaint("[attention]\nkernel = dto\n"),
            "attention.kernel = dto: must be one of dot, l2; did you mean dot?");
  EXPECT_EQ(complaint("[attention]\nkernel = gauss\n"), "attention.kernel = gauss: must be one of dot, l2");
}

TEST(Settings, want_a_value_for_all_but_flags) {
  EXPECT_EQ(complaint("", {"mesh.layers"}),
            "mesh.layers: needs a value (command line), as in mesh.layers=12");
}

TEST(Deck, refuses_a_key_given_twice) {
  EXPECT_EQ(complaint("[mesh]\nlayers = 3\n[output]\n[mesh]\nlayers = 3\n"),
            "deck: mesh.layers is given twice");
  EXPECT_EQ(complaint("[petsc]\nts_type = rk\nts_type = ssp\n"), "deck: petsc.ts_type is given twice");
}

TEST(Deck, refuses_what_is_no_deck_and_shows_the_line) {
  EXPECT_THAT(complaint("[mesh]\n layers # 3\n"), StartsWith("deck: \"layers\": expected [section], key = "));
  EXPECT_THAT(complaint("; note\n[mesh]\n"), StartsWith("deck: \"; note\": expected"));
  EXPECT_THAT(complaint("\n[mesh\nlayers = 3\n"), StartsWith("deck: \"[mesh\": expected"));
  EXPECT_THAT(complaint("[petsc]\nts_monitor\n"), HasSubstr("(key = alone for a flag of PETSc)"));
  EXPECT_EQ(complaint("[mesh]\nlay ers = 3\n"),
            "mesh.lay ers: unknown key (deck); did you mean mesh.layers?");
  const std::string foreign = "\x89HDF\r\x01\x1a" + std::string(200, 'x');
  EXPECT_THAT(complaint(foreign), StartsWith("deck: is not a text: line 1 has a byte"));
  EXPECT_THAT(complaint(std::string("[mesh]\nlay\0ers = 2\n", 20)), HasSubstr("line 2 has a byte"));
  EXPECT_LT(complaint(foreign).size(), 200U);
}

TEST(PetscKeys, are_kept_apart_and_overridden_by_the_command_line) {
  const Settings settings = read("[petsc]\nts_type = rk\nts_monitor =\nsnes_rtol = 1e-9 # tight\n",
                                 {"petsc.ts_type=ssp", "petsc.log_view"});
  EXPECT_THAT(settings.petsc(), ElementsAre(Pair("ts_type", "ssp"), Pair("ts_monitor", ""),
                                            Pair("snes_rtol", "1e-9"), Pair("log_view", "")));
}

// A value is read back bit for bit from the deck written by `resolved`: random bit patterns, extremes, and
// words with special characters.
TEST(Settings, resolve_to_a_deck_that_gives_the_same_bits) {
  std::vector<Option> list;
  const RandomStream stream(1, "options test");
  const auto declare = [&](const OptionValue& fallback) {
    list.push_back({.name = "any.key" + std::to_string(list.size()), .fallback = fallback, .doc = ""});
  };
  for (const double x : {0.1, -0.0, 1. / 3, 1e300, std::numeric_limits<double>::denorm_min(),
                         std::numeric_limits<double>::max()})
    declare(x);
  for (std::uint64_t i = 0; i < 200; ++i) {
    const double x = std::bit_cast<double>(stream.below(i, ~std::uint64_t{0}));
    if (x - x == 0) declare(x);
  }
  declare(std::numeric_limits<long>::min());
  declare(std::numeric_limits<long>::max());
  declare(true);
  declare(false);
  declare(std::vector<long>{3, -1, std::numeric_limits<long>::max()});
  declare(std::vector<double>{0.1, 1. / 3, 1e300, std::numeric_limits<double>::denorm_min()});
  declare(std::vector<std::string>{"a", "\"b\"", "c=d"});
  for (const char* word :
       {"", "a b", "\"quoted\"", "a\\nb", "a\rb", "; \" \\ \t;", "a=b", "=", "[x]", "\xEF\xBB\xBF"})
    declare(word);

  const auto declare_all = [&](Options& options) {
    for (const Option& option : list) options.declare(option);
  };
  // The same keys with different defaults, so that every value comes from the deck.
  const auto declare_zeros = [&](Options& options) {
    for (Option option : list) {
      std::visit([](auto& value) { value = {}; }, option.fallback);
      options.declare(option);
    }
  };
  const Settings settings(std::make_shared<const Options>(declare_all), "",
                          {"petsc.ts_monitor", "petsc.ts_prefix=[a = b]"});
  const Settings again(std::make_shared<const Options>(declare_zeros), settings.resolved(), {}, "stored",
                       Origin::stored);
  EXPECT_EQ(again.resolved(), settings.resolved());
  EXPECT_EQ(again.petsc(), settings.petsc());
  for (const Option& option : list) {
    EXPECT_TRUE(again.given(option.name));
    if (const auto* x = std::get_if<double>(&option.fallback))
      EXPECT_EQ(std::bit_cast<std::uint64_t>(again.real(option.name)), std::bit_cast<std::uint64_t>(*x))
          << *x;
    else if (const auto* n = std::get_if<long>(&option.fallback))
      EXPECT_EQ(again.integer(option.name), *n);
    else if (const auto* flag = std::get_if<bool>(&option.fallback))
      EXPECT_EQ(again.flag(option.name), *flag);
    else
      EXPECT_EQ(again.value(option.name), option.fallback);
  }
}

TEST(Settings, resolve_section_by_section) {
  EXPECT_EQ(
      read("run.seed = 5").resolved(),
      "[attention]\ncausal = false\nkernel = dot\n\n[equation]\nc = 1\nkappa = 0\n\n[mesh]\nlayers = 12\n\n"
      "[output]\nfile = \n\n[run]\nseed = 5\n");
}

TEST(Settings, asked_for_what_was_not_declared_blame_the_program) {
  const Settings settings = read("");
  EXPECT_THROW(settings.integer("mesh.tokens"), std::logic_error);
  EXPECT_THROW(settings.integer("equation.c"), std::logic_error);
  EXPECT_THROW(settings.word("mesh.layers"), std::logic_error);
  EXPECT_THROW(settings.integers("mesh.layers"), std::logic_error);
}

}  // namespace
}  // namespace fluxformer
