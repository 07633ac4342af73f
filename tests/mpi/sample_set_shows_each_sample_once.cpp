// The samples of a set are distributed over token lines of ranks: each appears once, with its key and weight.
// Ranks: 1 2 3 4.

#include <gtest/gtest.h>

#include <string>

#include "base/error.hpp"
#include "model/sample_set.hpp"
#include "tests/support/every_rank.hpp"
#include "tests/support/listed_samples.hpp"

namespace fluxformer::test::sample_set_shows_each_sample_once {
namespace {

constexpr int tokens = 6, features = 2, numbers = tokens * features;

const ListedSamples& data() {
  static const auto samples = random_samples(23, tokens, 1, features, 4, 7);
  return samples;
}

/// The ranks of the world in token lines of `ranks` each.
struct Lines {
  explicit Lines(int ranks) : comm(split(ranks)), line(token_line(comm, data())) {}
  static Communicator split(int ranks) {
    MPI_Comm part = MPI_COMM_NULL;
    check_mpi(MPI_Comm_split(MPI_COMM_WORLD, replica_of(MPI_COMM_WORLD, ranks).index, rank_in(MPI_COMM_WORLD),
                             &part));
    return Communicator(part);
  }
  Communicator comm;
  TokenLine line;
};

std::vector<int> every_line_length() {
  std::vector<int> lengths;
  for (int ranks = 1; ranks <= size_of(MPI_COMM_WORLD); ++ranks)
    if (size_of(MPI_COMM_WORLD) % ranks == 0) lengths.push_back(ranks);
  return lengths;
}

/// Number of slots that do not hold the sample they claim to.
double wrong_slots(const SampleSet& samples, const Batch& batch) {
  double wrong = 0;
  for (std::size_t slot = 0; slot < batch.label.size(); ++slot) {
    const auto index = samples.member(batch.key[slot]);
    std::vector<double> expected(numbers);
    data().tokens(index, expected.data());
    const auto* const found = batch.input.data() + slot * numbers;
    const bool same = std::equal(expected.begin(), expected.end(), found) &&
                      batch.label[slot] == data().label(index) && batch.length[slot] == data().length(index);
    if (!same) wrong += 1;
  }
  return wrong;
}

TEST(SampleSet, is_shown_once_whatever_the_replicas) {
  for (const int ranks : every_line_length()) {
    const Lines lines(ranks);
    for (const std::vector<std::size_t>& members :
         {std::vector<std::size_t>{0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22}, {7, 3}, {}})
      for (const int capacity : {1, 4, 20}) {
        const SampleSet samples(MPI_COMM_WORLD, lines.line, data(), members, capacity);
        std::vector<double> weights(members.size(), 0.0), times = weights;
        double wrong = 0;
        samples.for_batches([&](const Batch& batch) {
          if (static_cast<int>(batch.label.size()) != capacity) wrong += 1;
          wrong += wrong_slots(samples, batch);  // fillers are real samples too: their loss is finite
          for (std::size_t slot = 0; slot < batch.label.size(); ++slot) {
            if (batch.weight[slot] == 0 || lines.line.rank() > 0) continue;
            weights[static_cast<std::size_t>(batch.key[slot])] += batch.weight[slot];
            times[static_cast<std::size_t>(batch.key[slot])] += 1;
          }
        });
        const std::string where = std::to_string(ranks) + " ranks a line, " + std::to_string(capacity);
        EXPECT_EQ(sum_over(MPI_COMM_WORLD, wrong), 0) << where;
        EXPECT_EQ(sum_over(MPI_COMM_WORLD, times), std::vector<double>(members.size(), 1.0)) << where;
        EXPECT_EQ(sum_over(MPI_COMM_WORLD, weights),
                  std::vector<double>(members.size(), 1.0 / static_cast<double>(members.size())))
            << where;
      }
  }
}

TEST(SampleSet, takes_the_first_samples_no_more_at_a_time_than_a_replica_has) {
  const Lines lines(1);
  const SampleSet all(MPI_COMM_WORLD, lines.line, data(), all_of(data()), 5);
  const auto some = all.first(7);
  const int share = (7 + size_of(MPI_COMM_WORLD) - 1) / size_of(MPI_COMM_WORLD);
  EXPECT_EQ(some.members(), (std::vector<std::size_t>{0, 1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(some.capacity(), std::min(5, share));
  EXPECT_EQ(some.with({9}, 3).members(), std::vector<std::size_t>{9});
  EXPECT_EQ(some.shape().features, features);
  EXPECT_EQ(some.shape().tokens, tokens);
  EXPECT_EQ(some.shape().classes, 4);
}

TEST(SampleSet, lets_all_ranks_throw_what_one_of_them_did) {
  const Lines lines(1);
  const SampleSet samples(MPI_COMM_WORLD, lines.line, data(), all_of(data()), 2);
  double wrong = 1;
  try {
    samples.for_batches([&](const Batch& batch) {
      if (batch.key.front() == 0) throw NumericalFailure("the first sample");
    });
  } catch (const NumericalFailure& e) {
    wrong = std::string(e.what()) == "the first sample" ? 0 : 1;
  } catch (const Error& e) {
    wrong = e.code() == ExitCode::numerical && std::string(e.what()) == "the first sample" ? 0 : 1;
  }
  EXPECT_EQ(sum_over(MPI_COMM_WORLD, wrong), 0);
}

TEST(Replicas, divide_the_ranks_and_no_replica_has_more_than_the_largest_share) {
  EXPECT_THROW(replica_of(MPI_COMM_WORLD, size_of(MPI_COMM_WORLD) + 1), std::invalid_argument);
  EXPECT_THROW(replica_of(MPI_COMM_WORLD, 0), std::invalid_argument);
  EXPECT_EQ(replica_of(MPI_COMM_WORLD, 1).index, rank_in(MPI_COMM_WORLD));
  EXPECT_EQ((Replica{0, 4}.largest_share(7)), 2);
  EXPECT_EQ((Replica{3, 4}.largest_share(8)), 2);
  EXPECT_EQ((Replica{0, 4}.largest_share(0)), 0);
}

}  // namespace
}  // namespace fluxformer::test::sample_set_shows_each_sample_once
