#include "data/dataset.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

#include "data/make_dataset.hpp"
#include "tests/unit/data/images/idx_writer.hpp"

namespace fluxformer::test {
namespace {

TEST(Shards, cover_every_index_once_in_order_and_differ_by_at_most_one) {
  for (const std::size_t size : {0U, 1U, 5U, 6U, 7U, 97U, 60000U}) {
    for (const int ranks : {1, 2, 3, 4, 6, 7, 100}) {
      std::size_t next = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const data::Shard shard = data::balanced_shard(size, rank, ranks);
        EXPECT_EQ(shard.first, next) << size << " on " << rank << " of " << ranks;
        const std::size_t each = size / static_cast<std::size_t>(ranks);
        EXPECT_TRUE(shard.count == each || shard.count == each + 1);
        next += shard.count;
      }
      EXPECT_EQ(next, size);
    }
  }
}

TEST(Shards, refuse_ranks_that_do_not_exist) {
  EXPECT_THROW(data::balanced_shard(5, -1, 2), std::invalid_argument);
  EXPECT_THROW(data::balanced_shard(5, 2, 2), std::invalid_argument);
  EXPECT_THROW(data::balanced_shard(5, 0, 0), std::invalid_argument);
}

TEST(MakeDataset, unknown_words_are_refused_with_the_known_ones) {
  const auto message = [](const char* name, const char* split, const char* tokens) {
    return complaint([&] { data::make_dataset({.name = name, .split = split, .tokens = tokens}); });
  };
  EXPECT_EQ(message("cifar", "train", "rows"),
            "data.set = cifar is not known: digits, mnist, omniglot, omniglot_small1, omniglot_small2, "
            "omniglot_evaluation, 20news, topics or tokens");
  EXPECT_EQ(message("digits", "validation", "rows"),
            "split 'validation' of the data is not known: train or test");
  EXPECT_EQ(message("digits", "train", "words"),
            "data.tokens = words is not known: patches, rows, pixels or whole");
  EXPECT_EQ(message("digits", "train", "rows"), "");
}

}  // namespace
}  // namespace fluxformer::test
