#include "data/tokens/token_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

#include "data/make_dataset.hpp"
#include "data/text/baselines.hpp"
#include "tests/unit/data/images/idx_writer.hpp"
#include "tests/unit/data/tokens/token_writer.hpp"

namespace fluxformer::test {
namespace {

using data::TokenFile;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Ints = std::vector<int>;
using Words = std::vector<std::string>;

/// Three samples of four tokens out of six words.
TokenArrays words() {
  return {{"ids", {{3, 4}, Ints{5, 0, 1, 0, 2, 3, 0, 0, 4, 4, 4, 4}}},
          {"lengths", {{3}, Ints{3, 2, 4}}},
          {"labels", {{3}, Ints{1, 0, 2}}},
          {"words", {{6}, Words{"the", "ő", "a", "[UNK]", "", "of"}}}};
}

/// Two samples of three tokens of two numbers.
TokenArrays features() {
  return {{"features", {{2, 3, 2}, std::vector<float>{0, 0, 1.5F, -2, 3, 4, 0, 0, 5, 6, 7, 8}}}};
}

TokenArrays with(TokenArrays arrays, const std::string& name, TokenArray array) {
  arrays[name] = std::move(array);
  return arrays;
}

TokenArrays without(TokenArrays arrays, const std::string& name) {
  arrays.erase(name);
  return arrays;
}

std::vector<double> tokens_of(const data::Dataset& set, std::size_t index) {
  std::vector<double> out(static_cast<std::size_t>(set.tokens_x() * set.tokens_y() * set.features()));
  set.tokens(index, out.data());
  return out;
}

class TokenFiles : public testing::Test {
 protected:
  /// Specification of a data set in a new file with these arrays.
  data::DatasetSpec spec(const TokenArrays& arrays) {
    const auto path = folder_ / ("tokens" + std::to_string(files_++) + ".h5");
    write_tokens(path, arrays);
    return {.name = "tokens", .file = path.string()};
  }
  TokenFile open(const TokenArrays& arrays) { return TokenFile(spec(arrays)); }
  std::string refusal(const TokenArrays& arrays) {
    const auto asked = spec(arrays);
    return complaint([&] { const TokenFile opened(asked); });
  }
  /// The array in messages.
  static std::string called(const std::string& name) { return "/" + name; }

 private:
  TemporaryFolder folder_;
  int files_ = 0;
};
TEST_F(TokenFiles, of_words_are_read_as_they_are) {
  const auto set = data::make_dataset(spec(words()));
  EXPECT_EQ(set->name(), "tokens");
  EXPECT_EQ(set->size(), 3U);
  EXPECT_EQ(set->tokens_x() * set->tokens_y(), 4);
  EXPECT_EQ(set->features(), 1);
  EXPECT_EQ(set->vocabulary(), 6);
  EXPECT_EQ(set->segments(), 0);
  EXPECT_EQ(set->classes(), 3);
  EXPECT_EQ(set->words(), std::get<Words>(words().at("words").values));
  EXPECT_THAT(tokens_of(*set, 0), ElementsAre(5, 0, 1, 0));
  EXPECT_THAT(tokens_of(*set, 1), ElementsAre(2, 3, 0, 0));
  EXPECT_EQ(set->length(0), 3);
  EXPECT_EQ(set->length(1), 2);
  EXPECT_EQ(set->label(2), 2);
  EXPECT_TRUE(set->padded());
  EXPECT_THROW(set->label(3), std::out_of_range);
}

TEST_F(TokenFiles, need_nothing_but_ids) {
  const auto set = open({{"ids", {{2, 2}, Ints{0, 7, 1, 0}}}});
  EXPECT_EQ(set.vocabulary(), 8);
  EXPECT_EQ(set.classes(), 1);
  EXPECT_EQ(set.label(1), -1);  // never invented
  EXPECT_EQ(set.length(1), 2);
  EXPECT_FALSE(set.padded());
  EXPECT_THAT(set.words(), IsEmpty());
  EXPECT_EQ(set.unknown_word(), -1);
}

TEST_F(TokenFiles, hold_whole_numbers_of_any_type) {
  for (const TokenArray& ids : {TokenArray{{1, 2}, std::vector<std::int8_t>{1, 100}},
                                {{1, 2}, std::vector<std::uint16_t>{1, 100}},
                                {{1, 2}, std::vector<std::int64_t>{1, 100}},
                                {{1, 2}, std::vector<std::uint64_t>{1, 100}}})
    EXPECT_THAT(tokens_of(open({{"ids", ids}}), 0), ElementsAre(1, 100));
}

TEST_F(TokenFiles, of_words_with_segments_have_two_numbers_per_token) {
  const auto set = open(with(words(), "segments", {{3, 4}, Ints{0, 1, 0, 0, 1, 1, 0, 0, 0, 2, 0, 0}}));
  EXPECT_EQ(set.features(), 2);
  EXPECT_EQ(set.segments(), 3);
  EXPECT_THAT(tokens_of(set, 0), ElementsAre(5, 0, 0, 1, 1, 0, 0, 0));
  EXPECT_THAT(tokens_of(set, 2), ElementsAre(4, 0, 4, 2, 4, 0, 4, 0));
}

TEST_F(TokenFiles, of_features_are_as_precise_as_the_file) {
  const auto set = open(features());
  EXPECT_EQ(set.features(), 2);
  EXPECT_EQ(set.vocabulary(), 0);
  EXPECT_EQ(set.tokens_x(), 3);
  EXPECT_THAT(tokens_of(set, 0), ElementsAre(0, 0, 1.5, -2, 3, 4));
  EXPECT_FALSE(set.padded());
  const auto lengths = open(with(features(), "lengths", {{2}, Ints{3, 1}}));
  EXPECT_TRUE(lengths.padded());
  EXPECT_EQ(lengths.length(1), 1);
  EXPECT_THAT(tokens_of(open({{"features", {{1, 1, 2}, std::vector<double>{1.0 / 3, 1e300}}}}), 0),
              ElementsAre(1.0 / 3, 1e300));
}

TEST_F(TokenFiles, are_cut_where_that_is_asked_for) {
  auto asked = spec(words());
  asked.cut = 2;
  const TokenFile cut(asked);
  EXPECT_EQ(cut.tokens_x(), 2);
  EXPECT_THAT(tokens_of(cut, 1), ElementsAre(2, 3));
  EXPECT_EQ(cut.length(0), 2);
  EXPECT_EQ(cut.vocabulary(), 6);
  asked.cut = 5;
  EXPECT_THAT(complaint([&] { const TokenFile opened(asked); }),
              AllOf(HasSubstr("data.length = 5"), HasSubstr("samples of 4 tokens")));
  asked.cut = 0;
  asked.at_most = 2;
  EXPECT_EQ(TokenFile(asked).size(), 2U);
}

TEST_F(TokenFiles, have_samples_without_labels_only_in_a_test_split) {
  const TokenArrays both{{"train/ids", {{2, 1}, Ints{1, 2}}},
                         {"train/labels", {{2}, Ints{0, 1}}},
                         {"test/ids", {{2, 1}, Ints{3, 2}}},
                         {"test/labels", {{2}, Ints{-1, 2}}},
                         {"specials", {{2}, Ints{3, 9}}}};
  auto asked = spec(both);
  asked.split = "test";
  const TokenFile test(asked);
  EXPECT_EQ(test.label(0), -1);
  EXPECT_EQ(test.label(1), 2);
  EXPECT_EQ(test.classes(), 3);
  EXPECT_FALSE(test.one_split());
  EXPECT_THAT(test.placeholders(), ElementsAre(3));  // 9 is no word of the data
  EXPECT_THAT(refusal(with(both, "train/labels", {{2}, Ints{0, -1}})),
              HasSubstr(called("train/labels") + " holds -1 (sample 1)"));
  EXPECT_THAT(refusal({{"ids", {{2, 1}, Ints{1, 2}}}, {"labels", {{2}, Ints{-1, 0}}}}),
              HasSubstr(called("labels") + " holds -1 (sample 0)"));
  EXPECT_TRUE(open({{"ids", {{2, 1}, Ints{1, 2}}}}).one_split());
}

TEST_F(TokenFiles, have_two_splits_if_there_are_groups_of_these_names) {
  const TokenArrays both{{"train/ids", {{2, 2}, Ints{1, 2, 3, 9}}},
                         {"test/ids", {{1, 2}, Ints{4, 5}}},
                         {"train/labels", {{2}, Ints{0, 4}}}};
  auto asked = spec(both);
  const TokenFile train(asked);
  asked.split = "test";
  const TokenFile test(asked);
  EXPECT_EQ(train.size(), 2U);
  EXPECT_EQ(test.size(), 1U);
  EXPECT_THAT(tokens_of(test, 0), ElementsAre(4, 5));
  EXPECT_EQ(test.vocabulary(), 10);  // of both splits
  EXPECT_EQ(test.classes(), 5);
  EXPECT_THAT(refusal(without(without(both, "train/ids"), "train/labels")),
              HasSubstr("no " + called("train")));
  EXPECT_THAT(refusal(with(both, "test/ids", {{1, 3}, Ints{4, 5, 6}})),
              HasSubstr("splits differ in tokens: 2 and 3"));
  const TokenFile zeros(spec(with(both, "test/segments", {{1, 2}, Ints{1, 1}})));  // of the other split
  EXPECT_THAT(tokens_of(zeros, 0), ElementsAre(1, 0, 2, 0));
  // Without groups both splits are the same.
  auto whole = spec(words());
  whole.split = "test";
  EXPECT_EQ(TokenFile(whole).size(), 3U);
}

TEST_F(TokenFiles, take_the_sizes_of_a_model) {
  auto asked = spec(without(words(), "words"));
  asked.model = {.vocabulary = 50, .segments = 2, .tokens = 8, .classes = 7};
  const TokenFile set(asked);
  EXPECT_EQ(set.vocabulary(), 50);
  EXPECT_EQ(set.classes(), 7);
  EXPECT_EQ(set.tokens_x(), 4);
  const auto message = [&](data::ModelSizes sizes, Words model_words = {}) {
    auto other = asked;
    other.model = sizes;
    other.words = std::move(model_words);
    return complaint([&] { const TokenFile opened(other); });
  };
  EXPECT_THAT(message({.vocabulary = 5}), AllOf(HasSubstr(called("ids") + " holds 5 (sample 0, token 0)"),
                                                HasSubstr("0 to 4"), HasSubstr("of the model")));
  EXPECT_THAT(message({.tokens = 3}), AllOf(HasSubstr("has 4 tokens"), HasSubstr("data.length = 3")));
  EXPECT_THAT(message({.vocabulary = 6}, {"a", "b"}), HasSubstr("the vocabulary of the model has 2"));
  EXPECT_EQ(message({.vocabulary = 6}, {"a", "b", "c", "d", "e", "f"}), "");
  asked.cut = 3;
  EXPECT_EQ(message({.tokens = 3}), "");

  asked = spec(words());
  EXPECT_THAT(message({.vocabulary = 7}), AllOf(HasSubstr("has 6 words"), HasSubstr("a table of 7")));
  EXPECT_THAT(message({}, {"a", "b", "c", "d", "e", "f"}), HasSubstr("its words are not those of the model"));
  // A model that has guessed masked words has one more.
  Words with_mask{"the", "ő", "a", "[UNK]", "", "of", "<mask>"};
  asked.model = {.vocabulary = 7};
  asked.words = with_mask;
  EXPECT_EQ(TokenFile(asked).words(), with_mask);
  with_mask.back() = "mask";
  EXPECT_THAT(message({.vocabulary = 7}, with_mask), HasSubstr("has 6 words, the model has a table of 7"));
  // A word table that is padded has names for the rows behind the last word.
  Words padded{"the", "ő", "a", "[UNK]", "", "of", "<row 6>", "<<row 7>>"};
  asked.model = {.vocabulary = 8};
  asked.words = padded;
  EXPECT_EQ(TokenFile(asked).words(), padded);
  asked.words.back() = padded.back() = "<mask>";
  EXPECT_EQ(TokenFile(asked).words(), padded);
  padded.back() = "row 7";
  EXPECT_THAT(message({.vocabulary = 8}, padded), HasSubstr("has 6 words, the model has a table of 8"));
  asked = spec(with(words(), "segments", {{3, 4}, Ints{0, 1, 0, 0, 1, 1, 0, 0, 0, 2, 0, 0}}));
  EXPECT_THAT(message({.segments = 2}), AllOf(HasSubstr("3 segments"), HasSubstr("a table of 2")));
  asked.model = {.segments = 5};
  EXPECT_EQ(TokenFile(asked).segments(), 5);
}

TEST_F(TokenFiles, have_variants_if_there_is_a_word_for_unknown_ones) {
  const auto set = open(with(words(), "segments", {{3, 4}, Ints(12, 1)}));
  ASSERT_EQ(set.unknown_word(), 3);
  EXPECT_EQ(set.why_no_variants(), "");
  std::vector<double> out(8);
  set.variant(0, RandomStream(1, "variants"), 1, out.data());
  EXPECT_THAT(out, ElementsAre(3, 1, 3, 1, 3, 1, 0, 1));  // not the padding, not the segments
  set.variant(0, RandomStream(1, "variants"), 0, out.data());
  EXPECT_EQ(out, tokens_of(set, 0));
  const auto nameless = open(without(words(), "words"));
  EXPECT_THAT(nameless.why_no_variants(), HasSubstr("has no word <unk> or [UNK]"));
  EXPECT_THAT(complaint([&] { nameless.variant(0, RandomStream(1, "variants"), 1, out.data()); }),
              HasSubstr("<unk>"));
  EXPECT_THAT(open(features()).why_no_variants(), HasSubstr("features"));
}

/// Every word but [UNK] counts, the first two, too.
TEST_F(TokenFiles, show_naive_bayes_their_first_words) {
  const auto set = open({{"ids", {{4, 1}, Ints{0, 1, 0, 1}}}, {"labels", {{4}, Ints{0, 1, 0, 1}}}});
  data::NaiveBayes bayes(1);
  bayes.fit(set);
  EXPECT_EQ(bayes.accuracy(set), 1);
  // Segments would mislead.
  const auto with_segments = open({{"ids", {{4, 2}, Ints{0, 0, 1, 1, 0, 0, 1, 1}}},
                                   {"segments", {{4, 2}, Ints{1, 1, 0, 0, 1, 1, 0, 0}}},
                                   {"labels", {{4}, Ints{0, 1, 0, 1}}}});
  bayes.fit(with_segments);
  EXPECT_EQ(bayes.accuracy(with_segments), 1);
}

TEST_F(TokenFiles, that_are_not_as_they_should_be_are_refused_by_the_name_of_the_array) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::string ids = called("ids");
  const auto with_ids = [](TokenArray array) { return with(words(), "ids", std::move(array)); };
  const std::tuple<const char*, TokenArrays, std::string> cases[] = {
      {"neither", without(words(), "ids"), "neither " + ids + " nor " + called("features")},
      {"both", with(words(), "features", features().at("features")),
       "both " + ids + " and " + called("features")},
      {"a line of ids", with_ids({{12}, Ints(12)}), ids + " is 12, expected samples x tokens"},
      {"a block of ids", with_ids({{3, 2, 2}, Ints(12)}), ids + " is 3 x 2 x 2"},
      {"no samples", with_ids({{0, 4}, Ints()}), ids + " is 0 x 4: it is empty"},
      {"no tokens", with_ids({{3, 0}, Ints()}), ids + " is 3 x 0: it is empty"},
      {"real ids", with_ids({{3, 4}, std::vector<float>(12)}), "where whole numbers are expected"},
      {"texts", with_ids({{1, 2}, Words{"a", "b"}}), "where whole numbers are expected"},
      {"negative", with_ids({{3, 4}, Ints{0, 0, 0, 0, 0, 0, -1, 0, 0, 0, 0, 0}}),
       ids + " holds -1 (sample 1, token 2)"},
      {"too large", with_ids({{3, 4}, Ints{0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0}}),
       ids + " holds 6 (sample 1, token 2)"},
      {"no int",
       {{"ids", {{1, 1}, std::vector<std::int64_t>{std::int64_t{1} << 40}}}},
       ids + " holds 2147483647 or more"},
      {"no long",
       {{"ids", {{1, 1}, std::vector<std::uint64_t>{~std::uint64_t{0}}}}},
       ids + " holds 2147483647 or more"},
      {"a length of 0", with(words(), "lengths", {{3}, Ints{3, 0, 4}}),
       called("lengths") + " holds 0 (sample 1): must be 1 to 4"},
      {"a length of 5", with(words(), "lengths", {{3}, Ints{3, 5, 4}}),
       called("lengths") + " holds 5 (sample 1)"},
      {"few lengths", with(words(), "lengths", {{2}, Ints{3, 4}}), called("lengths") + " is 2, expected 3"},
      {"a negative label", with(words(), "labels", {{3}, Ints{0, 0, -7}}),
       called("labels") + " holds -7 (sample 2)"},
      {"many labels", with(words(), "labels", {{4}, Ints(4)}), called("labels") + " is 4, expected 3"},
      {"real labels", with(words(), "labels", {{3}, std::vector<double>(3)}), called("labels") + " holds"},
      {"few segments", with(words(), "segments", {{3, 3}, Ints(9)}),
       called("segments") + " is 3 x 3, expected 3 x 4"},
      {"a negative segment", with(words(), "segments", {{3, 4}, Ints(12, -1)}),
       called("segments") + " holds -1"},
      {"segments of features", with(features(), "segments", {{2, 3}, Ints(6)}),
       called("segments") + " needs " + ids},
      {"a table of features",
       {{"features", {{2, 3}, std::vector<float>(6)}}},
       "expected samples x tokens x inputs"},
      {"whole features", {{"features", {{1, 2, 1}, Ints(2)}}}, "where real numbers are expected"},
      {"not finite",
       {{"features", {{1, 2, 1}, std::vector<double>{0, nan}}}},
       "holds nan (sample 0, token 1, number 0)"},
      {"numbers for words", with(words(), "words", {{6}, Ints(6)}),
       called("words") + " is not a list of words"},
      {"a table of words", with(words(), "words", {{2, 3}, Words(6, "a")}),
       called("words") + " is not a list of words"},
      {"few words", with(words(), "words", {{3}, Words{"a", "b", "c"}}),
       ids + " holds 5 (sample 0, token 0): must be 0 to 2"},
      {"no words", with(words(), "words", {{0}, Words()}), called("words") + " holds no words"},
      {"no UTF-8", with(words(), "words", {{6}, Words{"a", "b", "\xff", "d", "e", "f"}}),
       "word 2 is not in UTF-8"}};
  for (const auto& [claim, arrays, part] : cases)
    EXPECT_THAT(refusal(arrays), AllOf(HasSubstr("data.file = "), HasSubstr(part))) << claim;
}

/// A word for padding at an end of a sample is refused where it would count as a word.
TEST_F(TokenFiles, with_padding_that_nobody_speaks_of_are_refused) {
  const auto padded = [](const std::string& pad, Ints ids) {
    return TokenArrays{{"ids", {{2, 3}, std::move(ids)}}, {"words", {{3}, Words{pad, "a", "b"}}}};
  };
  for (const std::string pad : {"[PAD]", "<pad>", "<|endoftext|>", "</s>"}) {
    EXPECT_THAT(refusal(padded(pad, {1, 2, 1, 2, 0, 0})),
                AllOf(HasSubstr("sample 1 of /ids ends with '" + pad), HasSubstr("no array lengths")));
    EXPECT_THAT(refusal(padded(pad, {1, 2, 1, 2, 1, 0})), HasSubstr("sample 1 of /ids ends"));
    EXPECT_EQ(open(with(padded(pad, {1, 2, 1, 2, 0, 0}), "lengths", {{2}, Ints{3, 1}})).length(1), 1);
  }
  EXPECT_THAT(refusal(with(padded("[PAD]", {1, 2, 1, 0, 0, 2}), "lengths", {{2}, Ints{3, 3}})),
              AllOf(HasSubstr("sample 1 of /ids begins with '[PAD]'"), HasSubstr("on the left")));
  EXPECT_THAT(refusal(padded("<|endoftext|>", {1, 2, 1, 0, 0, 2})), HasSubstr("sample 1 of /ids begins"));
  // Each text ends with its own mark, marks stand between texts, and a text of nothing has a length of 1.
  EXPECT_EQ(open(padded("<|endoftext|>", {1, 2, 0, 2, 1, 0})).size(), 2U);
  EXPECT_EQ(open(padded("<|endoftext|>", {1, 0, 2, 2, 1, 0})).size(), 2U);
  EXPECT_EQ(open(with(padded("[PAD]", {1, 2, 1, 0, 0, 0}), "lengths", {{2}, Ints{3, 1}})).size(), 2U);
  // What is cut off is no padding.
  auto cut = spec(padded("[PAD]", {1, 2, 1, 2, 1, 0}));
  cut.cut = 2;
  EXPECT_EQ(TokenFile(cut).tokens_x(), 2);
  // The words may be those of a model.
  auto nameless = spec(without(padded("[PAD]", {1, 2, 1, 2, 1, 0}), "words"));
  nameless.model.vocabulary = 3;
  nameless.words = {"[PAD]", "a", "b"};
  EXPECT_THAT(complaint([&] { const TokenFile opened(nameless); }), HasSubstr("ends with '[PAD]'"));
  EXPECT_THAT(refusal(with(without(words(), "lengths"), "attention_mask", {{3, 4}, Ints(12, 1)})),
              HasSubstr("has /attention_mask, which is not read, and no /lengths"));
  EXPECT_THAT(refusal({{"input_ids", {{3, 4}, Ints(12, 1)}}}),
              HasSubstr("has /input_ids, which is not read"));
}

TEST(TokenFile, says_the_size_of_its_vocabulary_in_an_attribute) {
  const TemporaryFolder folder;
  const auto path = folder / "tokens.h5";
  const auto open_with = [&](const io::AttributeValue& value) {
    write_tokens(path, {{"ids", {{1, 2}, Ints{3, 4}}}});
    {
      const io::FileHandle file(H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT));
      io::write_attribute(io::open_dataset(file, "/ids"), "vocabulary", value);
    }
    return TokenFile({.name = "tokens", .file = path.string()}).vocabulary();
  };
  EXPECT_EQ(open_with(40L), 40);
  EXPECT_THAT(complaint([&] { open_with(4L); }),
              HasSubstr("/ids holds 4 (sample 0, token 1): must be 0 to 3"));
  EXPECT_THAT(complaint([&] { open_with(0L); }), HasSubstr("vocabulary of /ids = 0"));
  EXPECT_THAT(complaint([&] { open_with(1L << 40); }), HasSubstr("vocabulary of /ids = 1099511627776"));
  EXPECT_THAT(complaint([&] { open_with(4.0); }), HasSubstr("vocabulary of /ids is not a whole number"));
}

TEST(TokenFile, that_is_not_what_its_name_says_is_refused) {
  const TemporaryFolder folder;
  const auto message = [&](const std::string& name) {
    return complaint([&] {
      data::make_dataset({.name = "tokens", .file = name.empty() ? "" : (folder / name).string()});
    });
  };
  write(folder / "zip.h5", {'P', 'K', 3, 4, 0, 0});
  EXPECT_THAT(message(""), HasSubstr("data.set = tokens needs data.file"));
  EXPECT_THAT(message("none.h5"), AllOf(HasSubstr("data.file = "), HasSubstr("none.h5: no such file")));
  EXPECT_THAT(message("zip.h5"), HasSubstr("it lacks the HDF5 signature"));
  const std::string numpy = (folder / "of numpy.npz").string();
  EXPECT_THAT(message("of numpy.npz"), HasSubstr("fluxformer tokens '" + numpy + "' --output '" +
                                                 (folder / "of numpy.h5").string() + "'"));
}

}  // namespace
}  // namespace fluxformer::test
