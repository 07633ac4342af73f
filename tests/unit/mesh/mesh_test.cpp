#include "mesh/mesh.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"

namespace fluxformer {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string refusal(int ranks, const Lattice& lattice, int ranks_depth = 0, int ranks_token = 0) {
  try {
    choose_process_grid(ranks, lattice, ranks_depth, ranks_token);
  } catch (const BadInput& e) {
    return e.what();
  }
  return "not refused";
}

TEST(ProcessGrid, communication_is_slabs_and_travelling_keys_and_edges) {
  const Lattice lattice{12, 7, 7};
  EXPECT_EQ(communication(lattice, {1, 1, 1}), 0);
  EXPECT_EQ(communication(lattice, {1, 1, 2}), 49);      // one depth neighbour
  EXPECT_EQ(communication(lattice, {1, 1, 3}), 2 * 49);  // two
  // 4 cells of 4 x 4 tokens: two slabs; keys and values of 33 other tokens; four edges of 4.
  EXPECT_EQ(communication(lattice, {2, 2, 3}), 2 * 16 + 4 * (2 * 33 + 16));
}

TEST(ProcessGrid, splits_depth_alone_while_every_rank_gets_a_cell) {
  for (const auto& [x, y] : {std::pair{7, 7}, {1, 1}, {5, 1}, {3, 8}, {64, 64}})
    for (int cells = 1; cells <= 24; ++cells)
      for (int ranks = 1; ranks <= cells; ++ranks) {
        const ProcessGrid grid = choose_process_grid(ranks, {cells, x, y});
        EXPECT_EQ(grid.depth, ranks) << cells << " cells of " << x << " x " << y;
        EXPECT_EQ(grid.token(), 1);
      }
}

TEST(ProcessGrid, no_other_grid_communicates_less) {
  for (const Lattice lattice : {Lattice{4, 7, 5}, Lattice{1, 6, 6}, Lattice{3, 13, 1}, Lattice{6, 2, 9}})
    for (int ranks = 1; ranks <= 16; ++ranks) {
      double least = -1;
      for (int x = 1; x <= lattice.tokens_x; ++x)
        for (int y = 1; y <= lattice.tokens_y; ++y)
          for (int depth = 1; depth <= lattice.cells; ++depth)
            if (x * y * depth == ranks) {
              const double cost = communication(lattice, {x, y, depth});
              if (least < 0 || cost < least) least = cost;
            }
      if (least < 0) {
        EXPECT_THAT(refusal(ranks, lattice), HasSubstr("mesh.cells"));
        continue;
      }
      const ProcessGrid grid = choose_process_grid(ranks, lattice);
      EXPECT_EQ(grid.size(), ranks);
      EXPECT_LE(grid.x, lattice.tokens_x);
      EXPECT_LE(grid.y, lattice.tokens_y);
      EXPECT_LE(grid.depth, lattice.cells);
      EXPECT_EQ(communication(lattice, grid), least);
    }
}

TEST(ProcessGrid, keeps_what_was_asked_for) {
  const Lattice lattice{12, 7, 7};
  EXPECT_EQ(choose_process_grid(6, lattice, 2).token(), 3);
  EXPECT_EQ(choose_process_grid(6, lattice, 0, 6).depth, 1);
  EXPECT_EQ(choose_process_grid(6, lattice, 3, 2).depth, 3);
}

TEST(ProcessGrid, refusals_name_the_key_and_what_is_allowed) {
  const Lattice lattice{4, 5, 3};
  EXPECT_THAT(refusal(6, lattice, 6, 1), AllOf(HasSubstr("mesh.ranks_depth=6"), HasSubstr("mesh.cells=4")));
  EXPECT_THAT(refusal(6, lattice, 2, 2),
              AllOf(HasSubstr("mesh.ranks_depth=2"), HasSubstr("mesh.ranks_token=2"),
                    HasSubstr("number of ranks, 6")));
  EXPECT_THAT(refusal(6, lattice, 4), AllOf(HasSubstr("mesh.ranks_depth=4"), HasSubstr("divide")));
  EXPECT_THAT(refusal(6, lattice, 0, 5), AllOf(HasSubstr("mesh.ranks_token=5"), HasSubstr("divide")));
  EXPECT_THAT(refusal(6, lattice, -1), HasSubstr("negative"));
  // 7 token ranks: neither 7 x 1 nor 1 x 7 fits 5 x 3 tokens.
  EXPECT_THAT(refusal(7, lattice, 1, 7),
              AllOf(HasSubstr("mesh.ranks_token=7"), HasSubstr("px <= 5"), HasSubstr("py <= 3")));
  EXPECT_THAT(refusal(7, lattice, 1), HasSubstr("cannot be cut into 7"));
  // Few token ranks, so that depth runs out of cells.
  EXPECT_THAT(refusal(10, lattice, 0, 1),
              AllOf(HasSubstr("10 ranks"), HasSubstr("4 depth cells"), HasSubstr("is 4")));
  EXPECT_THAT(refusal(2, {0, 5, 3}), HasSubstr("mesh.cells=0"));
  EXPECT_THAT(refusal(2, {4, 5, -3}), HasSubstr("mesh.tokens_y=-3"));
}

TEST(ProcessGrid, more_ranks_than_can_be_used_are_refused_with_the_number_that_can) {
  const Lattice lattice{2, 3, 1};
  EXPECT_THAT(refusal(7, lattice), AllOf(HasSubstr("7 ranks"), HasSubstr("is 6")));
  EXPECT_THAT(refusal(5, lattice), HasSubstr("is 4"));  // 5 = 5 x 1 x 1 does not fit, 4 = 2 x 2 does
  EXPECT_EQ(choose_process_grid(6, lattice).token(), 3);
}

}  // namespace
}  // namespace fluxformer
