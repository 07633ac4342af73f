#include "data/text/vocabulary.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/data/images/idx_writer.hpp"

namespace fluxformer::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

data::Lexicon lexicon_of(const std::vector<std::vector<std::string>>& documents) {
  data::Lexicon lexicon;
  for (const auto& document : documents) {
    std::vector<std::uint32_t> numbers;
    for (const auto& word : document) numbers.push_back(lexicon.number(word));
    lexicon.count(numbers);
  }
  return lexicon;
}

TEST(Lexicon, ranks_words_by_the_documents_they_occur_in_and_ties_by_the_alphabet) {
  // "z" occurs most often, but in one document.
  const data::Lexicon lexicon = lexicon_of({{"z", "z", "z", "z", "b", "c"}, {"c", "a"}, {"c", "b", "a"}});
  EXPECT_THAT(lexicon.vocabulary(100, 1).words(), ElementsAre("<pad>", "<unk>", "c", "a", "b", "z"));
  EXPECT_THAT(lexicon.vocabulary(4, 1).words(), ElementsAre("<pad>", "<unk>", "c", "a"));
  EXPECT_THAT(lexicon.vocabulary(100, 3).words(), ElementsAre("<pad>", "<unk>", "c"));
  EXPECT_THAT(complaint([&] { lexicon.vocabulary(100, 4); }), HasSubstr("data.least_count = 4"));
  // Numbers in the order of appearance: z b c a.
  EXPECT_THAT(lexicon.indices(lexicon.vocabulary(4, 1)), ElementsAre(1U, 1U, 2U, 3U));
}

TEST(Vocabulary, knows_its_words_and_no_other) {
  const data::Vocabulary vocabulary({"<pad>", "<unk>", "été", "a"});
  EXPECT_EQ(vocabulary.size(), 4);
  EXPECT_EQ(vocabulary.index("été"), 2U);
  EXPECT_EQ(vocabulary.index("a"), 3U);
  EXPECT_EQ(vocabulary.index("ete"), 1U);
  EXPECT_EQ(vocabulary.index(""), 1U);
}

TEST(Vocabulary, refuses_lists_that_are_none) {
  const auto refusal = [](const std::vector<std::string>& words) {
    return complaint([&] { data::Vocabulary{words}; });
  };
  EXPECT_THAT(refusal({"<pad>", "<unk>"}), HasSubstr("has 2 words"));
  EXPECT_THAT(refusal({"<unk>", "<pad>", "a"}), HasSubstr("must begin with <pad> and <unk>"));
  EXPECT_THAT(refusal({"<pad>", "<unk>", "a", "b", "a"}), HasSubstr("contains the word 'a' twice"));
}

TEST(SameButForMask, lets_a_model_have_a_mask_behind_the_words_and_nothing_else) {
  const std::vector<std::string> words{"<pad>", "<unk>", "a"};
  const auto same = [&](const std::vector<std::string>& known) {
    return data::same_but_for_added(known, words);
  };
  EXPECT_TRUE(same(words));
  EXPECT_TRUE(same({"<pad>", "<unk>", "a", "<mask>"}));
  EXPECT_FALSE(same({"<pad>", "<unk>", "a", "b"}));
  EXPECT_FALSE(same({"<pad>", "<unk>", "<mask>", "a"}));
  EXPECT_FALSE(same({"<pad>", "<unk>", "b", "<mask>"}));
  EXPECT_FALSE(same({"<pad>", "<unk>", "<mask>"}));
  EXPECT_FALSE(same({"<pad>", "<unk>", "a", "<mask>", "<mask>"}));
  EXPECT_FALSE(same({}));
}

}  // namespace
}  // namespace fluxformer::test
