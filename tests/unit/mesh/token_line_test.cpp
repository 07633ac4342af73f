#include "mesh/token_line.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"

namespace fluxformer {
namespace {

TEST(TokenLine, numbers_tokens_row_by_row) {
  const TokenLine line = TokenLine::even(MPI_COMM_SELF, 5, 3);
  EXPECT_EQ(line.tokens(), 15);
  EXPECT_EQ(line.block().count(), 15);
  EXPECT_EQ(line.global_index(0, 0), 0);
  EXPECT_EQ(line.global_index(0, 7), 7);
  EXPECT_EQ(line.global_index(0, 14), 14);
}

TEST(TokenLine, has_no_neighbours_beyond_a_boundary) {
  const TokenLine line = TokenLine::even(MPI_COMM_SELF, 5, 3);
  const std::vector<double> slab(15, 1.0);
  TokenHalo halo;
  line.begin_halo(slab.data(), 1, halo);
  line.end_halo();
  for (const auto& [dx, dy] : {std::pair{-1, 0}, {1, 0}, {0, -1}, {0, 1}})
    EXPECT_EQ(line.neighbour(dx, dy), -1);
  EXPECT_TRUE(halo.west.empty() && halo.east.empty() && halo.north.empty() && halo.south.empty());
}

TEST(TokenLine, a_periodic_lattice_on_one_rank_is_its_own_neighbour) {
  const TokenLine line = TokenLine::even(MPI_COMM_SELF, 3, 2, 1, 1, true);
  const std::vector<double> slab = {0,  1,  2,  //
                                    10, 11, 12};
  TokenHalo halo;
  line.begin_halo(slab.data(), 1, halo);
  line.end_halo();
  EXPECT_EQ(halo.west, (std::vector<double>{2, 12}));
  EXPECT_EQ(halo.east, (std::vector<double>{0, 10}));
  EXPECT_EQ(halo.north, (std::vector<double>{10, 11, 12}));
  EXPECT_EQ(halo.south, (std::vector<double>{0, 1, 2}));
}

TEST(TokenLine, a_single_periodic_token_is_not_its_own_neighbour) {
  const TokenLine line = TokenLine::even(MPI_COMM_SELF, 4, 1, 1, 1, true);
  EXPECT_EQ(line.neighbour(-1, 0), 0);
  EXPECT_EQ(line.neighbour(0, -1), -1);
  EXPECT_EQ(line.neighbour(0, 1), -1);
}

TEST(TokenLine, a_stretch_counts_from_the_beginning_of_the_line) {
  auto line = TokenLine::stretch(MPI_COMM_SELF, 9, 3);
  EXPECT_EQ(line.tokens(), 9);
  EXPECT_EQ(line.block().count(), 3);
  EXPECT_EQ(line.global_index(0, 2), 2);
  line.move_to(6);
  EXPECT_EQ(line.global_index(0, 0), 6);
  EXPECT_EQ(line.global_index(0, 2), 8);
  EXPECT_THROW(TokenLine::stretch(MPI_COMM_SELF, 2, 3), BadInput);
}

TEST(TokenLine, refuses_ranks_without_tokens_and_grids_of_another_size) {
  EXPECT_THROW(TokenLine(MPI_COMM_SELF, {0}, {3}, false), BadInput);
  EXPECT_THROW(TokenLine(MPI_COMM_SELF, {}, {3}, false), BadInput);
  EXPECT_THROW(TokenLine(MPI_COMM_SELF, {2, 2}, {3}, false), BadInput);
  EXPECT_THROW(TokenLine::even(MPI_COMM_SELF, 5, 5, 2, 1), BadInput);
  EXPECT_THROW(TokenLine::even(MPI_COMM_SELF, 5, 5, 0, 1), BadInput);
}

}  // namespace
}  // namespace fluxformer
