#include "tests/support/cell_term.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "operators/token_diffusion.hpp"

namespace fluxformer {
namespace {

/// A line of three tokens; cell i diffuses with kappa = i.
struct Cells {
  TokenLine line = TokenLine::even(MPI_COMM_SELF, 3, 1);
  SlabContext context = {.line = &line, .samples = 1, .width = 1};
  TokenDiffusion<double> diffusion{context};
  std::vector<double> kappa = {1, 2, 3, 4};
  std::vector<int> asked;

  CellWeights<double> weights() {
    return {[this](int cell) {
              LayerWeights<const double> w;
              w.diffusion.kappa = &kappa[cell - 1];
              return w;
            },
            [this](int cell, std::span<double> all) {
              asked.push_back(cell);
              LayerWeights<double> w;
              w.diffusion.kappa = &all[cell - 1];
              return w;
            }};
  }
};

TEST(CellTerm, each_cell_has_its_own_weights_and_only_the_cells_asked_for_change) {
  Cells cells;
  CellTerm<double> term(cells.diffusion, cells.weights());
  const std::vector<double> u = {1, 0, 0, 1, 0, 0, 1, 0, 0};  // cells 2, 3, 4
  std::vector<double> out(9, 0.0);
  const Column<const double> in{.first = 2, .count = 3, .slab = 3, .owned = u.data()};
  term.add_rhs(in, {3, 5}, {.first = 2, .count = 3, .slab = 3, .owned = out.data()});
  EXPECT_EQ(out, std::vector<double>({0, 0, 0, -3, 3, 0, -4, 4, 0}));
}

TEST(CellTerm, gradients_are_only_computed_where_there_is_room_for_them) {
  Cells cells;
  CellTerm<double> term(cells.diffusion, cells.weights());
  const std::vector<double> u = {1, 0, 0}, w = {1, 0, 0};
  std::vector<double> u_bar(3, 0.0), gradient(4, 0.0);
  const Column<const double> state{.first = 2, .count = 1, .slab = 3, .owned = u.data()};
  const Column<const double> weight{.first = 2, .count = 1, .slab = 3, .owned = w.data()};
  const Column<double> bar{.first = 2, .count = 1, .slab = 3, .owned = u_bar.data()};
  term.add_adjoint(state, weight, {2, 3}, bar, {});
  EXPECT_EQ(u_bar, std::vector<double>({-2, 2, 0}));
  EXPECT_TRUE(cells.asked.empty());
  term.add_adjoint(state, weight, {2, 3}, bar, gradient);
  EXPECT_EQ(cells.asked, std::vector<int>({2}));
  EXPECT_EQ(gradient, std::vector<double>({0, -1, 0, 0}));
}

}  // namespace
}  // namespace fluxformer
