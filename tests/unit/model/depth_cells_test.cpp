// Depth cells: where they are, and which are refused.

#include "model/depth_cells.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "base/error.hpp"

namespace fluxformer {
namespace {

using Edges = std::vector<double>;

TEST(DepthCells, that_are_equal_lie_at_multiples_of_their_length) {
  const DepthCells cells{3, 6};
  EXPECT_TRUE(cells.equal());
  for (int row = 0; row <= 6; ++row) EXPECT_EQ(cells.depth(row), row * 0.5);
  EXPECT_EQ(cells.length(4), 0.5);
  EXPECT_EQ(cells.shortest(), cells.longest());
  EXPECT_EQ(cells.entry(4).s, 1.5);
  EXPECT_EQ(cells.entry(4).layer, 2);
  EXPECT_EQ(cells.exit(4).s, 2);
  EXPECT_EQ(cells.exit(4).layer, 2);
}

TEST(DepthCells, between_edges_have_their_depths_bit_for_bit) {
  const Edges edges{0, 0.1, 0.7, 1, 3};
  const auto cells = DepthCells::between(3, edges);
  EXPECT_FALSE(cells.equal());
  EXPECT_EQ(cells.cells, 4);
  for (int cell = 1; cell <= 4; ++cell) {
    EXPECT_EQ(cells.entry(cell).s, edges[cell - 1]);
    EXPECT_EQ(cells.exit(cell).s, edges[cell]);
    EXPECT_EQ(cells.length(cell), edges[cell] - edges[cell - 1]);
    EXPECT_EQ(cells.entry(cell).layer, cell < 4 ? 1 : 2);
    EXPECT_EQ(cells.exit(cell).layer, cells.entry(cell).layer);
  }
  EXPECT_EQ(cells.at(4, 0.25).s, 1.5);
  EXPECT_EQ(cells.shortest(), 0.1);
  EXPECT_EQ(cells.longest(), 2);
}

TEST(DepthCells, between_edges_of_equal_cells_are_equal) {
  // 0, 1/3, 2/3, 1 in decimals of 16 digits
  const auto cells = DepthCells::between(1, {0, 0.3333333333333333, 0.6666666666666667, 1});
  EXPECT_EQ(cells, (DepthCells{1, 3}));
  EXPECT_NE(DepthCells::between(1, {0, 0.33333333, 0.66666667, 1}), (DepthCells{1, 3}));
}

TEST(DepthCells, that_are_divided_keep_their_edges) {
  EXPECT_EQ((DepthCells{2, 3}.divided(4)), (DepthCells{2, 12}));
  const auto cells = DepthCells::between(2, {0, 0.5, 2}).divided(2);
  EXPECT_EQ(cells.edges, (Edges{0, 0.25, 0.5, 1.25, 2}));
  EXPECT_EQ(cells.cells, 4);
}

TEST(DepthCells, know_the_rows_at_which_layers_end) {
  EXPECT_EQ((DepthCells{3, 6}.layer_rows("here")), (std::vector<int>{0, 2, 4, 6}));
  const auto rows = DepthCells::between(3, {0, 0.25, 1, 2, 2.5, 2.75, 3}).layer_rows("here");
  EXPECT_EQ(rows, (std::vector<int>{0, 2, 3, 6}));
  EXPECT_EQ(layer_ending_at(2, rows), 1);
  EXPECT_EQ(layer_ending_at(4, rows), -1);
  EXPECT_EQ(layer_ending_at(7, rows), -1);
}

template <class Make>
std::string refusal_of(const Make& make) {
  try {
    make();
  } catch (const BadInput& e) {
    return e.what();
  }
  return "";
}

TEST(DepthCells, are_refused_with_the_depth_that_is_wrong) {
  const auto refusal = [](const Edges& edges) { return refusal_of([&] { DepthCells::between(2, edges); }); };
  EXPECT_EQ(refusal({0, 2}), "");
  EXPECT_NE(refusal({0}).find("at least two"), std::string::npos);
  EXPECT_NE(refusal({0, 1}).find("not from 0 to 1"), std::string::npos);
  EXPECT_NE(refusal({0.5, 2}).find("not from 0.5 to 2"), std::string::npos);
  EXPECT_NE(refusal({0, 1.5, 1, 2}).find("1 after 1.5"), std::string::npos);
  EXPECT_NE(refusal({0, 1, 1, 2}).find("1 after 1"), std::string::npos);
  EXPECT_NE(refusal({0, 1, 1 + 5e-7, 2}).find("shorter than 1e-6"), std::string::npos);
  EXPECT_NE(refusal({0, std::nan(""), 2}).find("must increase"), std::string::npos);
  const auto rows = [](const DepthCells& cells) { return refusal_of([&] { cells.layer_rows("here"); }); };
  EXPECT_EQ(rows(DepthCells::between(3, {0, 1, 2.5, 3})),
            "the edges of the depth cells (mesh.edges) lack 2, where a layer ends, which is needed here");
  EXPECT_EQ(rows({4, 6}), "mesh.cells = 6: must be a multiple of mesh.layers = 4 here");
}

}  // namespace
}  // namespace fluxformer
