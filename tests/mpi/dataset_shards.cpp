// Samples are keyed by global index: they do not depend on the rank, and the shards together contain every
// sample once.

#include <gtest/gtest.h>
#include <mpi.h>

#include <vector>

#include "data/make_dataset.hpp"

namespace fluxformer::test::dataset_shards {
namespace {

struct Ranks {
  Ranks() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
  }
  int rank = 0, size = 1;
};

TEST(DatasetShards, hold_every_sample_exactly_once) {
  const Ranks ranks;
  for (const std::size_t samples : {0U, 1U, 3U, 97U}) {  // fewer samples than ranks, and a prime
    const auto set = data::make_dataset({.split = "train", .seed = 11, .at_most = samples});
    const data::Shard mine = set->shard(ranks.rank, ranks.size);
    std::vector<int> owners(samples + 1, 0);
    for (std::size_t i = mine.first; i < mine.first + mine.count; ++i) ++owners.at(i);
    MPI_Allreduce(MPI_IN_PLACE, owners.data(), static_cast<int>(samples), MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    for (std::size_t i = 0; i < samples; ++i) EXPECT_EQ(owners[i], 1) << "sample " << i << " of " << samples;
  }
}

TEST(DatasetShards, put_together_are_bit_for_bit_the_set_one_rank_sees) {
  const Ranks ranks;
  constexpr std::size_t samples = 23, numbers = 784;
  const auto set = data::make_dataset({.split = "test", .seed = 11, .at_most = samples});
  const data::Shard mine = set->shard(ranks.rank, ranks.size);
  std::vector<double> together(samples * (numbers + 1), 0.0), whole = together;
  const auto fill = [&](std::size_t i, std::vector<double>& out) {
    set->tokens(i, out.data() + i * (numbers + 1));
    out[i * (numbers + 1) + numbers] = set->label(i);
  };
  for (std::size_t i = mine.first; i < mine.first + mine.count; ++i) fill(i, together);
  // Only one term per sample is non-zero, so the sum is exact.
  MPI_Allreduce(MPI_IN_PLACE, together.data(), static_cast<int>(together.size()), MPI_DOUBLE, MPI_SUM,
                MPI_COMM_WORLD);
  for (std::size_t i = 0; i < samples; ++i) fill(i, whole);
  EXPECT_EQ(together, whole);
}

}  // namespace
}  // namespace fluxformer::test::dataset_shards
