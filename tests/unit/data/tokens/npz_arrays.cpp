#include "data/tokens/npz_arrays.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "data/text/utf8.hpp"
#include "tests/unit/data/images/idx_writer.hpp"
#include "tests/unit/data/tokens/token_writer.hpp"

namespace fluxformer::test {
namespace {

using data::NpzArrays;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

/// Bytes of a .npy file: a head of this type and shape, then these bytes.
std::string npy(const std::string& type, const std::vector<hsize_t>& shape, const std::string& bytes) {
  return npy_head(npy_dictionary(type, shape)) + bytes;
}

class Npz : public testing::Test {
 protected:
  /// An archive with one array "x".
  NpzArrays holding(const std::string& bytes) {
    write_archive(folder_ / "x.npz", {{"x.npy", bytes}});
    return NpzArrays((folder_ / "x.npz").string());
  }
  std::string refusal(const std::string& bytes) {
    const auto arrays = holding(bytes);
    return complaint([&] {
      arrays.info("x");
      arrays.whole_numbers("x");
    });
  }
  TemporaryFolder folder_;
};

TEST_F(Npz, numbers_of_both_byte_orders_are_read) {
  EXPECT_THAT(holding(npy("<i2", {2}, std::string("\1\2\xff\xff", 4))).whole_numbers("x"),
              ElementsAre(513, -1));
  EXPECT_THAT(holding(npy(">i2", {2}, std::string("\1\2\xff\xff", 4))).whole_numbers("x"),
              ElementsAre(258, -1));
  EXPECT_THAT(holding(npy("|u1", {2}, std::string("\1\xff", 2))).whole_numbers("x"), ElementsAre(1, 255));
  EXPECT_THAT(holding(npy(">f8", {1}, std::string("\x3f\xf8\0\0\0\0\0\0", 8))).doubles("x"),
              ElementsAre(1.5));
}

// Values by hand from IEEE 754: sign, 5 bits of exponent with a bias of 15, 10 bits of fraction.
TEST_F(Npz, numbers_of_half_precision_are_read) {
  const auto values =
      holding(npy("<f2", {7}, std::string("\0\x3c\0\xc0\xff\x7b\1\0\0\4\0\x7c\1\x7c", 14))).singles("x");
  EXPECT_EQ(values[0], 1);
  EXPECT_EQ(values[1], -2);
  EXPECT_EQ(values[2], 65504);
  EXPECT_EQ(values[3], std::ldexp(1.0F, -24));
  EXPECT_EQ(values[4], std::ldexp(1.0F, -14));
  EXPECT_EQ(values[5], std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(values[6]));
}

TEST_F(Npz, words_of_both_kinds_are_read) {
  const std::string letters("a\0\0\0\x51\1\0\0\0\xf6\1\0\xac\x20\0\0", 16);  // a ő, an emoji, €
  EXPECT_THAT(holding(npy("<U2", {2}, letters)).words("x"), ElementsAre("aő", "\xf0\x9f\x98\x80€"));
  EXPECT_THAT(holding(npy("|S2", {3}, std::string("ab\0\0c\0", 6))).words("x"), ElementsAre("ab", "", "c"));
  const auto wrong = holding(npy("<U1", {1}, std::string("\0\0\x11\0", 4)));
  EXPECT_THAT(complaint([&] { wrong.words("x"); }), HasSubstr("x holds 1114112, which is no letter"));
  const auto none = holding(npy("<U0", {3}, ""));
  EXPECT_THAT(complaint([&] { none.words("x"); }), HasSubstr("texts without letters"));
}

TEST_F(Npz, heads_of_all_versions_are_read) {
  const std::string dictionary = npy_dictionary("<i4", {1}) + "\n", number("\5\0\0\0", 4);
  std::string head = "\x93NUMPY";
  head += std::string("\2\0", 2);
  head += std::string{static_cast<char>(dictionary.size()), 0, 0, 0};
  for (const char version : {'\2', '\3'}) {
    head[6] = version;
    EXPECT_THAT(holding(head + dictionary + number).whole_numbers("x"), ElementsAre(5));
  }
  head[6] = '\4';
  EXPECT_THAT(refusal(head + dictionary + number), HasSubstr("x is not an array of numpy: version 4"));
}

TEST_F(Npz, heads_in_other_words_mean_the_same) {
  for (const char* text : {"{'shape':(2,1),'descr':'<i4','fortran_order':False}",
                           "{ \"shape\" : ( 2 , 1 , ) , \"descr\" : \"<i4\" , \"fortran_order\" : False , }"})
    EXPECT_THAT(holding(npy_head(text) + std::string("\1\0\0\0\2\0\0\0", 8)).whole_numbers("x"),
                ElementsAre(1, 2))
        << text;
}

TEST_F(Npz, arrays_that_are_none_are_refused) {
  const std::string four(4, '\0');
  const auto shaped = [](const char* shape) {
    return npy_head(std::string("{'descr': '<i4', 'fortran_order': False, 'shape': ") + shape + "}");
  };
  const std::tuple<const char*, std::string, const char*> cases[] = {
      {"nothing", "", "ends within its header"},
      {"half a head", npy("<i4", {1}, four).substr(0, 40), "ends within its header"},
      {"a text", "some text, no array", "does not begin as one"},
      {"a long head", std::string("\x93NUMPY\2\0\0\0\1\1", 12) + std::string(100, ' '),
       "a header of 16842752 bytes"},
      {"objects", npy("|O", {1}, four), "objects of Python"},
      {"structures", npy_head("{'descr': [('a', '<i4')], 'fortran_order': False, 'shape': (1,)}") + four,
       "structures"},
      {"columns", npy_head("{'descr': '<i4', 'fortran_order': True, 'shape': (1, 1)}") + four,
       "Fortran order"},
      {"no order", npy_head("{'descr': '<i4', 'shape': (1,)}") + four, "no fortran_order"},
      {"a strange order", npy_head("{'descr': '<i4', 'fortran_order': Maybe, 'shape': (1,)}") + four,
       "no True or False"},
      {"twice", npy_head("{'descr': '<i4', 'descr': '<i4'}"), "descr twice"},
      {"a strange key", npy_head("{'colour': 'red'}"), "unknown key 'colour'"},
      {"more", npy_head("{'descr': '<i4', 'fortran_order': False, 'shape': (1,)} more") + four,
       "after the dictionary"},
      {"no end", npy_head("{'descr': '<i4"), "is cut"},
      {"no brace", npy_head("{'descr': '<i4'"), "lacks a '}'"},
      {"a minus", shaped("(-1,)") + four, "without numbers"},
      {"an overflow", shaped("(4294967296, 4294967296)") + four, "more than any file can hold"},
      {"digits", shaped("(99999999999999999999,)") + four, "more than any file can hold"},
      {"a terabyte", shaped("(1099511627776,)") + four, "announces 4398"},
      {"cut", npy("<i4", {2}, four), "x is truncated: it announces 8 bytes"},
      {"too much", npy("<i4", {1}, four + four), "x goes on after the 4 bytes"}};
  for (const auto& [claim, bytes, part] : cases) EXPECT_THAT(refusal(bytes), HasSubstr(part)) << claim;
  for (const char* type : {"|b1", "<c16", "<M8", "<f16", "<i3"})
    EXPECT_EQ(holding(npy(type, {1}, std::string(16, '\0'))).info("x").kind, data::ItemKind::other) << type;
}

TEST_F(Npz, an_array_is_there_once) {
  write_archive(folder_ / "twice.npz", {{"x.npy", npy("|u1", {1}, "1")}, {"x.npy", npy("|u1", {1}, "2")}});
  EXPECT_THAT(complaint([&] { NpzArrays((folder_ / "twice.npz").string()); }),
              HasSubstr("holds 'x.npy' twice"));
  const auto arrays = holding(npy("|u1", {1}, "1"));
  EXPECT_FALSE(arrays.has("y"));
  EXPECT_FALSE(arrays.has_group("x"));
  EXPECT_THAT(complaint([&] { arrays.info("y"); }), HasSubstr("no y"));
}

TEST(Utf8, is_told_from_other_bytes) {
  for (const char* text : {"", "plain", "ő€", "\xf0\x9f\x98\x80", "\xf4\x8f\xbf\xbf"})
    EXPECT_TRUE(data::is_utf8(text)) << text;
  // Alone, cut, in more bytes than needed, a half of a pair, beyond Unicode.
  for (const char* text : {"\x80", "\xff", "a\xc3", "\xe2\x82", "\xc0\x80", "\xe0\x80\x80", "\xed\xa0\x80",
                           "\xf4\x90\x80\x80", "\xc3("})
    EXPECT_FALSE(data::is_utf8(text)) << text;
}

}  // namespace
}  // namespace fluxformer::test
