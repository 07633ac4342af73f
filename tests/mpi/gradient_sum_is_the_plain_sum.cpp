// GradientSum: for any bucket size and order of the pieces, every rank ends up with the sum over all ranks,
// each number counted once.

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "base/random.hpp"
#include "tests/support/every_rank.hpp"
#include "training/trainer.hpp"

namespace fluxformer::gradient_sum_is_the_plain_sum {
namespace {

using namespace test;

constexpr std::size_t size = 1009;

struct Piece {
  std::size_t first, count;
};

/// Whole numbers: sums are exact in any order.
std::vector<double> share(int rank, int round) {
  std::vector<double> values(size);
  for (std::size_t j = 0; j < size; ++j)
    values[j] = static_cast<double>((j * 37 + static_cast<std::size_t>(rank) * 101) % 1000) + round;
  return values;
}

std::vector<double> plain_sum(int round) {
  std::vector<double> sum(size, 0.0);
  for (int rank = 0; rank < size_of(MPI_COMM_WORLD); ++rank) {
    const auto values = share(rank, round);
    for (std::size_t j = 0; j < size; ++j) sum[j] += values[j];
  }
  return sum;
}

/// Cuts at irregular places, pieces from the end to the beginning, some of them empty.
std::vector<Piece> descending(std::uint64_t seed) {
  const RandomStream random(seed, "pieces");
  std::vector<Piece> pieces;
  std::size_t end = size;
  for (std::uint64_t k = 0; end > 0; ++k) {
    const auto count = std::min<std::size_t>(end, random.below(k, 90));
    end -= count;
    pieces.push_back({end, count});
  }
  return pieces;
}

void expect_sum(const std::vector<Piece>& pieces, std::size_t bucket, const char* what) {
  GradientSum sum(MPI_COMM_WORLD, bucket);
  for (int round = 0; round < 3; ++round) {  // reused from step to step
    auto gradient = share(rank_in(MPI_COMM_WORLD), round);
    for (const auto& piece : pieces) sum.add(gradient, piece.first, piece.count);
    sum.finish();
    EXPECT_EQ(gradient, plain_sum(round)) << what << ", bucket " << bucket << ", round " << round;
  }
}

constexpr std::size_t buckets[] = {1, 7, 64, 333, 1008, 1009, 1010, 1u << 20};

TEST(GradientSum, is_the_plain_sum_with_any_bucket) {
  for (const auto bucket : buckets)
    for (const std::uint64_t seed : {1u, 2u, 3u}) expect_sum(descending(seed), bucket, "descending");
}

TEST(GradientSum, takes_pieces_in_any_order) {
  for (const auto bucket : buckets) {
    auto pieces = descending(4);
    const RandomStream random(5, "order");
    for (std::size_t left = pieces.size(); left > 1; --left)
      std::swap(pieces[left - 1], pieces[random.below(left, left)]);
    expect_sum(pieces, bucket, "any order");
    std::sort(pieces.begin(), pieces.end(), [](Piece a, Piece b) { return a.first < b.first; });
    expect_sum(pieces, bucket, "ascending");
    // In the order of GradientEvaluator: final norm and head, blocks from the last, alpha and rho, embedding.
    expect_sum({{900, 107}, {600, 300}, {300, 300}, {120, 180}, {1007, 2}, {0, 120}}, bucket, "as told");
  }
}

TEST(GradientSum, leaves_alone_what_it_was_not_given) {
  GradientSum sum(MPI_COMM_WORLD, 10);
  const auto before = share(rank_in(MPI_COMM_WORLD), 0);
  const auto all = plain_sum(0);
  auto gradient = before;
  sum.add(gradient, 100, 55);
  sum.finish();
  double wrong = 0;
  for (std::size_t j = 0; j < size; ++j)
    if (gradient[j] != (j >= 100 && j < 155 ? all : before)[j]) ++wrong;
  EXPECT_EQ(sum_over(MPI_COMM_WORLD, wrong), 0);
  sum.finish();  // nothing to do
  EXPECT_EQ(gradient[100], all[100]);
}

}  // namespace
}  // namespace fluxformer::gradient_sum_is_the_plain_sum
