// The mesh on several ranks: its distribution, and the exchanges along tokens and depth.
// Ranks: 1 2 3 4.

#include <gtest/gtest.h>
#include <petscdmda.h>

#include <cmath>

#include "base/error.hpp"
#include "base/vector_arrays.hpp"
#include "mesh/ghosts.hpp"
#include "mesh/mesh.hpp"
#include "tests/support/every_rank.hpp"
#include "tests/support/lattices.hpp"

namespace fluxformer::mesh_layout {
namespace {

using test::every_split;
using test::max_over;
using test::sum_over;

/// Non-square, with primes where possible; six depth ranks hold one or two of the seven cells each.
MeshSpec lattice(int cells = 7, int tokens_x = 5, int tokens_y = 4, bool periodic = false) {
  return {.cells = cells,
          .tokens_x = tokens_x,
          .tokens_y = tokens_y,
          .samples = 2,
          .width = 3,
          .periodic = periodic};
}

double name_of(int cell, int y, int x, int component) {
  return ((cell * 100.0 + y) * 100 + x) * 100 + component;
}

/// Calls visit(cell, y, x, component, local index) along a rank's vector.
template <class Visit>
void for_each_number(const Mesh& mesh, Visit&& visit) {
  const TokenBlock& b = mesh.token_line().block();
  const int dof = mesh.spec().samples * mesh.spec().width;
  std::size_t index = 0;
  for (int cell = mesh.first_cell(); cell < mesh.first_cell() + mesh.cells(); ++cell)
    for (int y = b.y0; y < b.y0 + b.ny; ++y)
      for (int x = b.x0; x < b.x0 + b.nx; ++x)
        for (int k = 0; k < dof; ++k) visit(cell, y, x, k, index++);
}

template <class Value>
VecHandle filled(const Mesh& mesh, Value&& value) {
  VecHandle u = mesh.create_vector();
  {
    const WriteArray to(u);
    for_each_number(
        mesh, [&](int cell, int y, int x, int k, std::size_t i) { to.values[i] = value(cell, y, x, k); });
  }
  return u;
}

/// A number without pattern for each point, so that mix-ups do not cancel.
double noise(int cell, int y, int x, int k, double seed) {
  return std::sin(seed * (1.7 * cell + 2.9 * y + 4.3 * x + 7.1 * k) + seed);
}

double dot(Vec a, Vec b) {
  PetscScalar product = 0;
  check(VecDot(a, b, &product));
  return product;
}

TEST(Mesh, a_rank_holds_its_cells_one_after_the_other_each_row_by_row) {
  for (const MeshSpec& spec : every_split(MPI_COMM_WORLD, lattice())) {
    const Mesh mesh(MPI_COMM_WORLD, spec);
    const VecHandle u = filled(mesh, name_of);
    PetscInt size = 0;
    check(VecGetLocalSize(u, &size));
    EXPECT_EQ(static_cast<std::size_t>(size), mesh.slab_size() * static_cast<std::size_t>(mesh.cells()));
    double**** view = nullptr;  // PETSc's own ownership ranges
    check(DMDAVecGetArrayDOFRead(mesh.dm(), u, &view));
    int wrong = 0;
    for_each_number(mesh, [&](int cell, int y, int x, int k, std::size_t) {
      if (view[cell - 1][y][x][k] != name_of(cell, y, x, k)) ++wrong;
    });
    check(DMDAVecRestoreArrayDOFRead(mesh.dm(), u, &view));
    EXPECT_EQ(wrong, 0);
  }
}

TEST(Mesh, token_line_holds_the_same_cells_and_every_token_once) {
  for (const MeshSpec& spec : every_split(MPI_COMM_WORLD, lattice())) {
    const Mesh mesh(MPI_COMM_WORLD, spec);
    const TokenLine& line = mesh.token_line();
    EXPECT_EQ(line.size(), spec.ranks_token);
    EXPECT_EQ(max_over(line.comm(), mesh.first_cell()), mesh.first_cell());
    EXPECT_EQ(-max_over(line.comm(), -mesh.first_cell()), mesh.first_cell());
    // Each rank marks the tokens PETSc gave it with its rank in the line; all must agree with block() and
    // global_index.
    PetscInt x = 0, y = 0, nx = 0, ny = 0;
    check(DMDAGetCorners(mesh.dm(), &x, &y, nullptr, &nx, &ny, nullptr));
    std::vector<double> owner(static_cast<std::size_t>(line.tokens()), 0.0);
    for (PetscInt j = y; j < y + ny; ++j)
      for (PetscInt i = x; i < x + nx; ++i)
        owner[static_cast<std::size_t>(j * spec.tokens_x + i)] += line.rank() + 1;
    owner = sum_over(line.comm(), owner);
    int counted = 0;
    for (int r = 0; r < line.size(); ++r)
      for (int local = 0; local < line.block(r).count(); ++local, ++counted)
        EXPECT_EQ(owner[static_cast<std::size_t>(line.global_index(r, local))], r + 1);
    EXPECT_EQ(counted, line.tokens());
  }
}

TEST(Mesh, depth_line_holds_the_same_tokens_in_the_order_of_depth) {
  for (const MeshSpec& spec : every_split(MPI_COMM_WORLD, lattice())) {
    const Mesh mesh(MPI_COMM_WORLD, spec);
    const TokenBlock& b = mesh.token_line().block();
    EXPECT_EQ(test::size_of(mesh.depth_line()), spec.ranks_depth);
    const int corner = b.y0 * spec.tokens_x + b.x0;
    EXPECT_EQ(max_over(mesh.depth_line(), corner), corner);
    EXPECT_EQ(-max_over(mesh.depth_line(), -corner), corner);
    const auto rank = static_cast<std::size_t>(test::rank_in(mesh.depth_line()));
    EXPECT_EQ(mesh.cell_starts()[rank], mesh.first_cell());
    EXPECT_EQ(mesh.cell_starts()[rank + 1], mesh.first_cell() + mesh.cells());
    EXPECT_EQ(mesh.cell_starts().back(), mesh.total_cells() + 1);
    EXPECT_EQ(sum_over(mesh.depth_line(), mesh.cells()), mesh.total_cells());
  }
}

TEST(Mesh, what_cannot_be_shared_is_refused_on_every_rank) {
  const int size = test::size_of(MPI_COMM_WORLD);
  const auto refused = [](MeshSpec spec) {
    try {
      const Mesh mesh(MPI_COMM_WORLD, spec);
      return 0.0;
    } catch (const BadInput&) {
      return 1.0;
    }
  };
  MeshSpec spec = lattice();
  spec.ranks_depth = spec.cells + 1;
  EXPECT_EQ(sum_over(MPI_COMM_WORLD, refused(spec)), size);
  spec = lattice();
  spec.ranks_depth = 1, spec.ranks_token = size + 1;
  EXPECT_EQ(sum_over(MPI_COMM_WORLD, refused(spec)), size);
  spec = lattice(1, 1, 1);
  EXPECT_EQ(sum_over(MPI_COMM_WORLD, refused(spec)), size > 1 ? size : 0);
  spec = lattice();
  spec.width = 0;
  EXPECT_EQ(sum_over(MPI_COMM_WORLD, refused(spec)), size);
  spec = lattice();
  spec.cells = 1 << 20, spec.samples = 1 << 10;  // 20 tokens: more than 2^31 numbers
  EXPECT_EQ(sum_over(MPI_COMM_WORLD, refused(spec)), sizeof(PetscInt) == 4 ? size : 0);
}

TEST(TokenHalo, brings_the_neighbours_tokens) {
  for (const bool periodic : {false, true})
    for (const MeshSpec& spec : every_split(MPI_COMM_WORLD, lattice(7, 5, 4, periodic))) {
      const Mesh mesh(MPI_COMM_WORLD, spec);
      const TokenLine& line = mesh.token_line();
      const TokenBlock& b = line.block();
      const VecHandle u = filled(mesh, name_of);
      const ReadArray from(u);
      const std::size_t row = 6;
      TokenHalo halo;
      line.begin_halo(from.values, row, halo);
      line.end_halo();
      const auto expect_rows = [&](const std::vector<double>& rows, int x, int y, int dx, int dy,
                                   int length) {
        const bool inside = x >= 0 && x < spec.tokens_x && y >= 0 && y < spec.tokens_y;
        if (!inside && !periodic) {
          EXPECT_TRUE(rows.empty());
          return;
        }
        ASSERT_EQ(rows.size(), static_cast<std::size_t>(length) * row);
        for (int k = 0; k < length; ++k)
          for (int c = 0; c < 6; ++c)
            EXPECT_EQ(rows[static_cast<std::size_t>(k * 6 + c)],
                      name_of(mesh.first_cell(), (y + k * dy + spec.tokens_y) % spec.tokens_y,
                              (x + k * dx + spec.tokens_x) % spec.tokens_x, c));
      };
      expect_rows(halo.west, b.x0 - 1, b.y0, 0, 1, b.ny);
      expect_rows(halo.east, b.x0 + b.nx, b.y0, 0, 1, b.ny);
      expect_rows(halo.north, b.x0, b.y0 - 1, 1, 0, b.nx);
      expect_rows(halo.south, b.x0, b.y0 + b.ny, 1, 0, b.nx);
    }
}

TEST(TokenHalo, the_way_back_is_the_transpose) {
  for (const bool periodic : {false, true})
    for (const MeshSpec& spec : every_split(MPI_COMM_WORLD, lattice(7, 5, 4, periodic))) {
      const Mesh mesh(MPI_COMM_WORLD, spec);
      const TokenLine& line = mesh.token_line();
      const std::size_t row = 6;
      std::vector<double> v(mesh.slab_size()), v_bar(mesh.slab_size(), 0.0);
      for (std::size_t i = 0; i < v.size(); ++i)
        v[i] = std::sin(1.0 + static_cast<double>(i) + 31.0 * line.rank());
      TokenHalo halo, w = line.zero_halo(row);
      line.begin_halo(v.data(), row, halo);
      line.end_halo();
      double forward = 0, size = 0;  // <E v, w>
      double seed = 0.3 + line.rank();
      for (auto side : {&TokenHalo::west, &TokenHalo::east, &TokenHalo::north, &TokenHalo::south})
        for (std::size_t i = 0; i < (w.*side).size(); ++i) {
          (w.*side)[i] = std::cos(seed += 0.7);
          forward += (w.*side)[i] * (halo.*side)[i];
          size += std::abs((w.*side)[i] * (halo.*side)[i]);
        }
      line.add_halo_to_owners(w, row, v_bar.data());
      double back = 0;  // <v, E^T w>
      for (std::size_t i = 0; i < v.size(); ++i) back += v[i] * v_bar[i];
      // Sums of at most some hundred terms: round-off stays below 1e-13 of their absolute sum.
      EXPECT_NEAR(sum_over(line.comm(), forward), sum_over(line.comm(), back),
                  1e-13 * sum_over(line.comm(), size));
    }
}

/// One cell per rank if there are as many cells as ranks: the two upstream cells are on two ranks.
std::vector<MeshSpec> depth_splits() {
  std::vector<MeshSpec> specs;
  for (const int cells : {7, test::size_of(MPI_COMM_WORLD)})
    for (const MeshSpec& spec : every_split(MPI_COMM_WORLD, lattice(cells))) specs.push_back(spec);
  return specs;
}

TEST(DepthGhosts, bring_the_cells_a_stencil_reaches) {
  for (const MeshSpec& spec : depth_splits())
    for (int below = 0; below <= 2; ++below)
      for (int above = 0; above <= 1; ++above) {
        const Mesh mesh(MPI_COMM_WORLD, spec);
        const VecHandle u = filled(mesh, name_of);
        const std::vector<double> inflow(mesh.slab_size(), -1.0);
        DepthGhosts ghosts(mesh, below, above);
        EXPECT_EQ(ghosts.reaches_inflow(), mesh.first_cell() - below <= 0);
        ghosts.set_inflow(inflow.data());
        ghosts.begin(u);
        ghosts.end();
        const auto expect_slab = [&](const double* slab, int cell, bool wanted) {
          if (!wanted || cell < 0 || cell > spec.cells) {
            EXPECT_EQ(slab, nullptr);
            return;
          }
          ASSERT_NE(slab, nullptr);
          for_each_number(mesh, [&](int c, int y, int x, int k, std::size_t i) {
            if (c != mesh.first_cell()) return;
            EXPECT_EQ(slab[i], cell == 0 ? -1.0 : name_of(cell, y, x, k));
          });
        };
        expect_slab(ghosts.below(0), mesh.first_cell() - 1, below > 0);
        expect_slab(ghosts.below(1), mesh.first_cell() - 2, below > 1);
        expect_slab(ghosts.above(), mesh.first_cell() + mesh.cells(), above > 0);
      }
}

TEST(DepthGhosts, without_an_inflow_there_is_nothing_below_cell_1) {
  const Mesh mesh(MPI_COMM_WORLD, lattice());
  DepthGhosts ghosts(mesh, 1, 0);
  const VecHandle u = filled(mesh, name_of);
  ghosts.begin(u);
  ghosts.end();
  EXPECT_EQ(ghosts.below(0) == nullptr, mesh.first_cell() == 1);
}

TEST(DepthGhosts, the_way_back_is_the_transpose_inflow_included) {
  for (const MeshSpec& spec : depth_splits())
    for (int below = 0; below <= 2; ++below)
      for (int above = 0; above <= 1; ++above) {
        const Mesh mesh(MPI_COMM_WORLD, spec);
        const std::size_t slab = mesh.slab_size();
        const VecHandle v = filled(mesh, [](int c, int y, int x, int k) { return noise(c, y, x, k, 0.9); });
        std::vector<double> inflow;
        for_each_number(mesh, [&](int c, int y, int x, int k, std::size_t) {
          if (c == mesh.first_cell()) inflow.push_back(noise(0, y, x, k, 0.9));
        });
        DepthGhosts ghosts(mesh, below, above);
        ghosts.set_inflow(inflow.data());
        ghosts.begin(v);
        ghosts.end();

        double forward = 0;  // <E v, w>
        const VecHandle v_bar = mesh.create_vector();
        for (int round = 0; round < 2; ++round) {  // a second call must not see anything of the first
          check(VecSet(v_bar, 0));
          ghosts.clear_bars();
          forward = 0;
          const auto pair = [&](const double* ghost, double* bar, int kind) {
            EXPECT_EQ(ghost == nullptr, bar == nullptr);
            for (std::size_t i = 0; bar != nullptr && i < slab; ++i) {
              bar[i] += noise(mesh.first_cell(), kind, static_cast<int>(i), 0, 1.3);
              forward += ghost[i] * noise(mesh.first_cell(), kind, static_cast<int>(i), 0, 1.3);
            }
          };
          pair(ghosts.below(0), ghosts.below_bar(0), 0);
          pair(ghosts.below(1), ghosts.below_bar(1), 1);
          pair(ghosts.above(), ghosts.above_bar(), 2);
          ghosts.add_to_owners(v_bar);
        }
        double back = dot(v, v_bar);  // <v, E^T w>
        double at_inflow = 0;
        EXPECT_EQ(ghosts.inflow_bar() != nullptr, below > 0 && mesh.first_cell() == 1);
        for (std::size_t i = 0; ghosts.inflow_bar() != nullptr && i < slab; ++i)
          at_inflow += inflow[i] * ghosts.inflow_bar()[i];
        back += sum_over(MPI_COMM_WORLD, at_inflow);
        // Fewer than 2000 products of numbers below 1: round-off stays below 1e-12.
        EXPECT_NEAR(sum_over(MPI_COMM_WORLD, forward), back, 1e-12);
      }
}

}  // namespace
}  // namespace fluxformer::mesh_layout
