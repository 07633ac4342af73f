#include "data/text/newsgroups.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace fluxformer::test {
namespace {

using testing::ElementsAre;

std::vector<std::string> words_of(std::string_view text, std::size_t most = 1000) {
  std::vector<std::string> words;
  data::for_each_word(text, [&](std::string_view word) {
    words.emplace_back(word);
    return words.size() < most;
  });
  return words;
}

TEST(Words, are_runs_of_letters_or_digits_in_lower_case) {
  EXPECT_THAT(words_of("The 386SX, at $1,999.95!"), ElementsAre("the", "386", "sx", "at", "1", "999", "95"));
  EXPECT_THAT(words_of("Foo_Bar@cs.umd.EDU don't"),
              ElementsAre("foo", "bar", "cs", "umd", "edu", "don", "t"));
  EXPECT_THAT(words_of("x\x7F\x1Fy"), ElementsAre("x", "y"));
  EXPECT_THAT(words_of(std::string_view("\0x\0", 3)), ElementsAre("x"));
  EXPECT_THAT(words_of(" \n\t--- >>> "), ElementsAre());
  EXPECT_THAT(words_of(""), ElementsAre());
}

/// ISO 8859-1, table of the standard: C9 and E9 are E acute, DF is sharp s, EF is i diaeresis, FF is y
/// diaeresis, AA and BA the ordinal indicators, B5 micro; D7, F7 and B0 (times, divided by, degree) are
/// signs.
TEST(Words, read_bytes_as_latin_1_and_come_in_utf_8) {
  EXPECT_THAT(words_of("\xC9T\xC9 na\xEFve Stra\xDF"
                       "e \xFF"),
              ElementsAre("été", "naïve", "straße", "ÿ"));
  EXPECT_THAT(words_of("a\xD7"
                       "b\xF7"
                       "c\xB0"
                       "d\xA0"
                       "e"),
              ElementsAre("a", "b", "c", "d", "e"));
  EXPECT_THAT(words_of("\xAA \xBA \xB5m \xDE\xD8"), ElementsAre("ª", "º", "µm", "þø"));
}

TEST(Words, stop_when_told) {
  EXPECT_THAT(words_of("one two three", 2), ElementsAre("one", "two"));
}

TEST(Header, ends_at_the_first_blank_line) {
  EXPECT_EQ(data::without_header("From: a\nSubject: b\n\nbody\n\nmore\n"), "body\n\nmore\n");
  EXPECT_EQ(data::without_header("From: a\r\n\r\nbody\r\n"), "body\r\n");
  EXPECT_EQ(data::without_header("From: a\n \t\nbody"), "body");
  EXPECT_EQ(data::without_header("\nbody"), "body");
  EXPECT_EQ(data::without_header("From: a\nSubject: b\n"), "");
  EXPECT_EQ(data::without_header("From: a\n\n"), "");
  EXPECT_EQ(data::without_header(""), "");
}

TEST(Quotes, lines_that_repeat_another_post_go) {
  EXPECT_EQ(data::without_quotes("In article <1@x> a@b writes:\n> no\n  > no\n>> no\n| no\nyes\n"), "yes\n");
  EXPECT_EQ(data::without_quotes("Jane Doe wrote:\nyes\nas Joe says:\nJoe said:\nJoe writes in <2@x>:\n"),
            "yes\n");
  EXPECT_EQ(data::without_quotes("x > y | z\nthe article in\nshe writes\n"),
            "x > y | z\nthe article in\nshe writes\n");
  EXPECT_EQ(data::without_quotes("a\n\n> b"), "a\n\n");
  EXPECT_EQ(data::without_quotes(""), "");
}

TEST(Footer, is_what_follows_the_last_blank_or_dashed_line) {
  EXPECT_EQ(data::without_footer("text\n\nmore\n\n-- \nJoe\n"), "text\n\nmore\n\n");
  EXPECT_EQ(data::without_footer("text\n-----\nJoe\nhis town\n\n\n"), "text\n");
  EXPECT_EQ(data::without_footer("text\n\nJoe"), "text\n");
  EXPECT_EQ(data::without_footer("text\r\n\r\nJoe\r\n"), "text\r\n");
  // A single paragraph is the text itself, regardless of surrounding blank lines; dashes within a line do not
  // separate.
  EXPECT_EQ(data::without_footer("\n\ntext\nall - of it\n\n"), "\n\ntext\nall - of it\n\n");
  EXPECT_EQ(data::without_footer("\n \n"), "\n \n");
  EXPECT_EQ(data::without_footer(""), "");
}

TEST(KeptText, takes_away_what_is_not_kept_and_nothing_else) {
  const std::string post = "From: a\nSubject: In article 1\n\n> quoted\nbody\n\n> signed\nJoe\n";
  EXPECT_EQ(data::kept_text(post, true, true, true), post);
  EXPECT_EQ(data::kept_text(post, false, true, true), "> quoted\nbody\n\n> signed\nJoe\n");
  EXPECT_EQ(data::kept_text(post, true, false, true), "From: a\nSubject: In article 1\n\nbody\n\nJoe\n");
  EXPECT_EQ(data::kept_text(post, true, true, false), "From: a\nSubject: In article 1\n\n> quoted\nbody\n");
  EXPECT_EQ(data::kept_text(post, false, false, false), "body\n");
  EXPECT_EQ(data::kept_text("From: a\n\nthe only paragraph\n", true, true, false),
            "From: a\n\nthe only paragraph\n");
}

}  // namespace
}  // namespace fluxformer::test
