#include "data/text/newsgroups.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "data/make_dataset.hpp"
#include "tests/unit/data/files/archive_writer.hpp"
#include "tests/unit/data/images/idx_writer.hpp"

namespace fluxformer::test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

const std::string train_folder = "20news-bydate-train/", test_folder = "20news-bydate-test/";

/// One post in each group of both splits, numbered 100: "Subject: <letter>", "common", and a word of the
/// split.
Members base() {
  Members members;
  for (const auto& [folder, word] : {std::pair{test_folder, "later"}, std::pair{train_folder, "earlier"}}) {
    for (std::size_t g = 0; g < data::newsgroup_names.size(); ++g) {
      members.emplace_back(
          folder + std::string(data::newsgroup_names[g]) + "/100",
          "Subject: " + std::string(1, static_cast<char>('a' + g)) + "\n\ncommon " + word + "\n");
    }
  }
  return members;
}

Members with(const Members& more) {
  Members members = base();
  members.insert(members.end(), more.begin(), more.end());
  return members;
}

/// The archive, in a folder 20news of `folder`.
fs::path packed(const TemporaryFolder& folder) {
  return folder / "20news" / "20news-bydate.tar.gz";
}

data::DatasetSpec spec(const fs::path& directory, const char* split = "train") {
  return {.name = "20news", .directory = directory.string(), .split = split, .length = 10, .least_count = 1};
}

std::string refusal(const data::DatasetSpec& asked) {
  return complaint([&] { data::make_dataset(asked); });
}

/// The words of a sample, with its padding.
std::vector<std::string> words_of(const data::Dataset& set, std::size_t index) {
  std::vector<double> tokens(static_cast<std::size_t>(set.tokens_x()));
  set.tokens(index, tokens.data());
  std::vector<std::string> words;
  for (const double token : tokens) words.push_back(set.words().at(static_cast<std::size_t>(token)));
  return words;
}

TEST(Newsgroups, are_ordered_by_group_then_by_number) {
  const TemporaryFolder folder;
  write_archive(packed(folder), with({{train_folder + "sci.med/1000", "Subject: q\n\nsecond"},
                                      {train_folder + "sci.med/9", "Subject: q\n\nfirst"},
                                      {train_folder + "alt.atheism/7", "Subject: q\n\nzeroth"},
                                      {train_folder + "sci.med/index", "Subject: not a post\n\nno"},
                                      {train_folder + "sci.med/.9", "Subject: not a post\n\nno"}}));
  const auto set = data::make_dataset(spec(folder.path()));
  EXPECT_EQ(set->name(), "20news");
  EXPECT_EQ(set->classes(), 20);
  ASSERT_EQ(set->size(), 23U);
  EXPECT_EQ(words_of(*set, 0)[2], "zeroth");
  EXPECT_EQ(words_of(*set, 1)[1], "a");
  EXPECT_EQ(set->label(1), 0);
  EXPECT_EQ(words_of(*set, 2)[1], "b");
  EXPECT_EQ(set->label(2), 1);
  // sci.med is the 14th group: after 13 posts and zeroth.
  EXPECT_EQ(words_of(*set, 14)[2], "first");
  EXPECT_EQ(words_of(*set, 15)[1], "n");
  EXPECT_EQ(words_of(*set, 16)[2], "second");
  EXPECT_EQ(set->label(16), 13);
  EXPECT_EQ(set->label(22), 19);
  EXPECT_THROW(set->label(23), std::out_of_range);
}

TEST(Newsgroups, tokens_are_word_indices_followed_by_padding) {
  const TemporaryFolder folder;
  write_archive(packed(folder),
                with({{train_folder + "alt.atheism/1", "Subject: x\n\n1 2 3 4 5 6 7 8 9 10 11 12"},
                      {train_folder + "alt.atheism/2", ""},
                      {train_folder + "alt.atheism/3", "From: \xC9T\xC9\n\n"}}));
  const auto set = data::make_dataset(spec(folder.path()));
  EXPECT_EQ(set->tokens_x(), 10);
  EXPECT_EQ(set->tokens_y(), 1);
  EXPECT_EQ(set->features(), 1);
  EXPECT_EQ(set->vocabulary(), static_cast<int>(set->words().size()));
  EXPECT_THAT(words_of(*set, 0), ElementsAre("subject", "x", "1", "2", "3", "4", "5", "6", "7", "8"));
  EXPECT_EQ(set->length(0), 10);
  EXPECT_EQ(set->length(1), 1);
  EXPECT_EQ(words_of(*set, 1)[0], "<unk>");  // an empty post
  EXPECT_EQ(words_of(*set, 1)[1], "<pad>");
  EXPECT_EQ(set->length(2), 2);
  EXPECT_EQ(words_of(*set, 2)[1], "été");
  EXPECT_EQ(words_of(*set, 2)[2], "<pad>");
  EXPECT_EQ(set->length(3), 4);
}

TEST(Newsgroups, the_vocabulary_is_that_of_the_training_posts) {
  const TemporaryFolder folder;
  write_archive(packed(folder), base());
  const auto train = data::make_dataset(spec(folder.path())),
             test = data::make_dataset(spec(folder.path(), "test"));
  EXPECT_EQ(train->words(), test->words());
  // In 20 posts each: common, earlier, subject; then a to t in one each.
  EXPECT_THAT(std::vector<std::string>(train->words()).at(2), "common");
  EXPECT_EQ(train->words().at(4), "subject");
  EXPECT_EQ(train->words().at(5), "a");
  EXPECT_EQ(train->vocabulary(), 25);
  EXPECT_EQ(words_of(*train, 3)[3], "earlier");
  EXPECT_EQ(words_of(*test, 3)[3], "<unk>");  // "later" occurs in test posts only

  data::DatasetSpec asked = spec(folder.path());
  asked.least_count = 2;
  EXPECT_THAT(data::make_dataset(asked)->words(),
              ElementsAre("<pad>", "<unk>", "common", "earlier", "subject"));
  asked.vocabulary = 4;
  EXPECT_THAT(data::make_dataset(asked)->words(), ElementsAre("<pad>", "<unk>", "common", "earlier"));
}

TEST(Newsgroups, a_given_vocabulary_is_used_as_it_is) {
  const TemporaryFolder folder;
  write_archive(packed(folder), base());
  for (const char* split : {"train", "test"}) {
    data::DatasetSpec asked = spec(folder.path(), split);
    asked.words = {"<pad>", "<unk>", "later", "subject"};
    const auto set = data::make_dataset(asked);
    EXPECT_EQ(set->words(), asked.words);
    EXPECT_EQ(set->vocabulary(), 4);
    EXPECT_EQ(words_of(*set, 0)[0], "subject");
    EXPECT_EQ(words_of(*set, 0)[1], "<unk>");
    EXPECT_EQ(words_of(*set, 0)[3], split == std::string("test") ? "later" : "<unk>");
    asked.words = {"later", "subject"};
    EXPECT_THAT(refusal(asked), HasSubstr("must begin with <pad> and <unk>"));
  }
}

TEST(Newsgroups, parts_of_a_post_are_left_out_where_asked) {
  const TemporaryFolder folder;
  write_archive(packed(folder),
                with({{train_folder + "alt.atheism/1", "From: x\n\n> quoted\nbody\n\nsigned\n"}}));
  data::DatasetSpec asked = spec(folder.path());
  asked.keep_headers = asked.keep_quotes = asked.keep_footers = false;
  EXPECT_THAT(words_of(*data::make_dataset(asked), 0)[0], "body");
  EXPECT_EQ(data::make_dataset(asked)->length(0), 1);
  asked.keep_quotes = true;
  EXPECT_EQ(data::make_dataset(asked)->length(0), 2);
}

TEST(Newsgroups, the_unpacked_tree_gives_what_the_archive_gives) {
  const TemporaryFolder archive, tree;
  const Members posts = with({{train_folder + "sci.med/9", "Subject: q\n\nfirst"},
                              {train_folder + "sci.med/index", "Subject: not a post\n\nno"}});
  write_archive(packed(archive), posts);
  write_tree(tree.path(), posts);
  for (const char* split : {"train", "test"}) {
    const auto one = data::make_dataset(spec(archive.path(), split)),
               other = data::make_dataset(spec(tree.path(), split));
    EXPECT_EQ(one->words(), other->words());
    ASSERT_EQ(one->size(), other->size());
    for (std::size_t i = 0; i < one->size(); ++i) {
      EXPECT_EQ(words_of(*one, i), words_of(*other, i));
      EXPECT_EQ(one->label(i), other->label(i));
    }
  }
  EXPECT_EQ(data::make_dataset(spec(archive / "20news"))->size(), 21U);  // the archive's own folder
  fs::remove_all(tree / "20news-bydate-test" / "sci.space");
  EXPECT_THAT(refusal(spec(tree.path(), "test")), HasSubstr("holds no posts of the group sci.space"));
  fs::remove_all(tree / "20news-bydate-test");
  EXPECT_THAT(refusal(spec(tree.path(), "test")), HasSubstr("20news-bydate-test is not a folder"));
  EXPECT_EQ(refusal(spec(tree.path())), "");
}

TEST(Newsgroups, at_most_takes_posts_at_equal_distances) {
  const TemporaryFolder folder;
  write_archive(packed(folder), base());
  data::DatasetSpec asked = spec(folder.path());
  asked.at_most = 4;
  const auto set = data::make_dataset(asked);
  ASSERT_EQ(set->size(), 4U);
  EXPECT_EQ(set->vocabulary(), 25);  // of all training posts
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(set->label(i), static_cast<int>(5 * i));
  asked.at_most = 0;
  EXPECT_EQ(data::make_dataset(asked)->size(), 0U);
}

TEST(NewsgroupFiles, missing_ones_are_named_with_what_was_looked_for) {
  const TemporaryFolder folder;
  EXPECT_THAT(refusal(spec("")), HasSubstr("data.set = 20news needs data.directory"));
  EXPECT_THAT(refusal(spec(folder / "nowhere")), AllOf(HasSubstr("nowhere is not a folder"),
                                                       HasSubstr("looked there for 20news-bydate.tar.gz")));
  EXPECT_THAT(refusal(spec(folder.path())),
              AllOf(HasSubstr(folder.path().string()), HasSubstr("does not hold the 20 newsgroups"),
                    HasSubstr("20news-bydate.tar.gz"), HasSubstr("in its folder 20news")));
}

TEST(NewsgroupFiles, groups_are_those_of_the_collection) {
  const TemporaryFolder folder;
  write_archive(packed(folder), with({{train_folder + "comp.lang.c/1", "Subject: x\n\ny"}}));
  EXPECT_THAT(refusal(spec(folder.path())),
              AllOf(HasSubstr("20news-bydate.tar.gz"), HasSubstr("'comp.lang.c'")));
  Members lacking = base();
  lacking.erase(lacking.begin() + 2);  // a test post
  write_archive(packed(folder), lacking);
  EXPECT_EQ(refusal(spec(folder.path())), "");
  EXPECT_THAT(refusal(spec(folder.path(), "test")),
              HasSubstr("holds no posts of the group comp.os.ms-windows.misc"));
}

/// Wherever the archive is truncated or a byte is changed, it is refused, even if only the other split is
/// affected.
TEST(NewsgroupFiles, a_damaged_archive_is_refused) {
  const TemporaryFolder folder;
  const fs::path path = packed(folder);
  write_archive(path, base());
  const Bytes good = contents(path);
  ASSERT_GT(good.size(), 400U);
  const auto is_refused = [&](const Bytes& bytes, const std::string& what) {
    write(path, bytes);
    EXPECT_THAT(refusal(spec(folder.path())), AllOf(HasSubstr(path.string()), HasSubstr(what)));
  };
  for (std::size_t kept = 1; kept < good.size(); kept += kept + 40 < good.size() ? 37 : 1) {
    is_refused(Bytes(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(kept)), "is ");
  }
  is_refused(Bytes(good.begin(), good.end() - 9), "truncated");
  is_refused({}, "is empty");
  for (std::size_t place = 12; place < good.size(); place += 17) {
    Bytes bad = good;
    bad[place] ^= 0x10U;
    is_refused(bad, "is ");
  }
  Bytes sum = good;
  sum[good.size() - 6] ^= 1U;
  is_refused(sum, "damaged");
  write_gzip(path, ramp(5000));
  EXPECT_THAT(refusal(spec(folder.path())), HasSubstr("20news-bydate.tar.gz is not a tar.gz archive"));
  is_refused(ramp(5000), "not a tar.gz archive");
  fs::remove(path);
  fs::create_directory(path);
  EXPECT_THAT(refusal(spec(folder.path())), HasSubstr("20news-bydate.tar.gz is not a file"));
}

/// Anything after the last post is covered by the checksum too.
TEST(NewsgroupFiles, the_check_sum_is_compared_at_the_very_end) {
  const TemporaryFolder folder;
  const fs::path path = packed(folder);
  write_archive(folder / "posts.tar", base());
  Bytes tar = contents(folder / "posts.tar");
  fs::create_directories(path.parent_path());
  tar.resize(tar.size() + 1000000);
  write_gzip(path, tar);
  EXPECT_EQ(refusal(spec(folder.path())), "");
  Bytes bad = contents(path);
  bad[bad.size() - 6] ^= 1U;
  write(path, bad);
  EXPECT_THAT(refusal(spec(folder.path())), HasSubstr("is damaged"));
}

TEST(Newsgroups, numbers_out_of_range_are_refused) {
  data::DatasetSpec asked = spec("/nowhere");
  asked.length = 0;
  EXPECT_THAT(refusal(asked), HasSubstr("data.length = 0"));
  asked = spec("/nowhere");
  asked.vocabulary = 2;
  EXPECT_THAT(refusal(asked), HasSubstr("data.vocabulary = 2"));
  asked = spec("/nowhere");
  asked.least_count = 0;
  EXPECT_THAT(refusal(asked), HasSubstr("data.least_count = 0"));
}

/// The real posts: $FLUXFORMER_DATA/20news. Numbers of posts are those of the published collection.
TEST(RealNewsgroups, hold_the_known_number_of_posts_of_each_group) {
  const char* given = std::getenv("FLUXFORMER_DATA");
  if (given == nullptr || !fs::is_directory(fs::path(given) / "20news")) {
    GTEST_SKIP() << "no newsgroups: set FLUXFORMER_DATA to the folder that holds 20news/";
  }
  const auto counts = [](const data::Dataset& set) {
    std::vector<int> count(20);
    for (std::size_t i = 0; i < set.size(); ++i) ++count[set.label(i)];
    return count;
  };
  data::DatasetSpec asked{.name = "20news", .directory = given};
  const auto train = data::make_dataset(asked);
  EXPECT_THAT(counts(*train), ElementsAre(480, 584, 591, 590, 578, 593, 585, 594, 598, 597, 600, 595, 591,
                                          594, 593, 599, 546, 564, 465, 377));
  asked.split = "test";
  asked.words = train->words();
  const auto test = data::make_dataset(asked);
  EXPECT_THAT(counts(*test), ElementsAre(319, 389, 394, 392, 385, 395, 390, 396, 398, 397, 399, 396, 393, 396,
                                         394, 398, 364, 376, 310, 251));
  EXPECT_EQ(train->vocabulary(), 20000);
  // Every post has the header lines "From:" and "Subject:".
  EXPECT_THAT(train->words(), testing::Contains("subject"));
}

}  // namespace
}  // namespace fluxformer::test
