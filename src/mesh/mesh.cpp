#include "mesh/mesh.hpp"

#include <petscdmda.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <string>

#include "base/error.hpp"
#include "base/memory.hpp"
#include "base/mpi.hpp"

namespace fluxformer {
namespace {

int ceil_div(int a, int b) {
  return (a + b - 1) / b;
}

std::string text(int n) {
  return std::to_string(n);
}

/// The grid of choose_process_grid; std::nullopt if no grid of `ranks` ranks gives each of them a cell and a
/// token.
std::optional<ProcessGrid> best_of(int ranks, const Lattice& lattice, int ranks_depth, int ranks_token) {
  std::optional<ProcessGrid> best;
  // Most ranks along depth first, then fewest along x: a later grid wins only if it communicates less.
  for (int depth = std::min(ranks, lattice.cells); depth >= 1; --depth) {
    if (ranks % depth != 0 || (ranks_depth != 0 && depth != ranks_depth)) continue;
    const int token = ranks / depth;
    if (ranks_token != 0 && token != ranks_token) continue;
    for (int x = 1; x <= std::min(token, lattice.tokens_x); ++x) {
      if (token % x != 0 || token / x > lattice.tokens_y) continue;
      const ProcessGrid grid{x, token / x, depth};
      if (!best || communication(lattice, grid) < communication(lattice, *best)) best = grid;
    }
  }
  return best;
}

/// The end of a message: the largest smaller number of ranks that would work, "" if there is none.
std::string advice(int ranks, const Lattice& lattice, int ranks_depth, int ranks_token) {
  // One rank always works if no number along an axis is asked for.
  for (int fewer = ranks - 1; fewer >= 1; --fewer)
    if (best_of(fewer, lattice, ranks_depth, ranks_token))
      return "; the next smaller number that works is " + text(fewer);
  return {};
}

void require_positive(const char* key, int value) {
  if (value < 1) throw BadInput(std::string(key) + "=" + text(value) + ": must be at least 1");
}

}  // namespace

double communication(const Lattice& lattice, const ProcessGrid& grid) {
  const int nx = ceil_div(lattice.tokens_x, grid.x), ny = ceil_div(lattice.tokens_y, grid.y);
  const double tokens = 1.0 * lattice.tokens_x * lattice.tokens_y;  // n
  const double mine = 1.0 * nx * ny;                                // t
  // ny tokens on the edges to the west and east, nx on those to the north and south; none to oneself.
  const double edges = (grid.x > 1 ? 2.0 * ny : 0.0) + (grid.y > 1 ? 2.0 * nx : 0.0);
  // min(2, depth - 1) t + m (2 (n - t) + edges), with m = ceil(M / depth)
  return std::min(2, grid.depth - 1) * mine +
         ceil_div(lattice.cells, grid.depth) * (2 * (tokens - mine) + edges);
}

ProcessGrid choose_process_grid(int ranks, const Lattice& lattice, int ranks_depth, int ranks_token) {
  require_positive("mesh.cells", lattice.cells);
  require_positive("mesh.tokens_x", lattice.tokens_x);
  require_positive("mesh.tokens_y", lattice.tokens_y);
  if (ranks_depth < 0 || ranks_token < 0)
    throw BadInput("mesh.ranks_depth=" + text(ranks_depth) + ", mesh.ranks_token=" + text(ranks_token) +
                   ": must not be negative (0: chosen)");
  if (ranks_depth > lattice.cells)
    throw BadInput("mesh.ranks_depth=" + text(ranks_depth) +
                   " is more than mesh.cells=" + text(lattice.cells) + ": every rank needs a cell, at most " +
                   text(lattice.cells) + " is allowed");
  if (ranks_depth > 0 && ranks_token > 0 && ranks_depth * ranks_token != ranks)
    throw BadInput("mesh.ranks_depth=" + text(ranks_depth) + " times mesh.ranks_token=" + text(ranks_token) +
                   " must be the number of ranks, " + text(ranks) + " (0: chosen)");
  if (ranks_depth > 0 && ranks % ranks_depth != 0)
    throw BadInput("mesh.ranks_depth=" + text(ranks_depth) + " must divide the number of ranks, " +
                   text(ranks));
  if (ranks_token > 0 && ranks % ranks_token != 0)
    throw BadInput("mesh.ranks_token=" + text(ranks_token) + " must divide the number of ranks, " +
                   text(ranks));
  if (const auto best = best_of(ranks, lattice, ranks_depth, ranks_token)) return *best;

  // There is no grid: say whether the tokens alone cannot be cut, or cells and tokens together are too few.
  const std::string grid =
      text(lattice.tokens_x) + " x " + text(lattice.tokens_y) + " tokens (mesh.tokens_x, mesh.tokens_y)";
  const int token = ranks_token > 0 ? ranks_token : ranks_depth > 0 ? ranks / ranks_depth : 0;
  if (token > 0 && ranks / token <= lattice.cells)
    throw BadInput("mesh.ranks_token=" + text(token) + ": " + grid + " cannot be cut into " + text(token) +
                   " rectangles px x py with px <= " + text(lattice.tokens_x) +
                   ", py <= " + text(lattice.tokens_y));
  throw BadInput(
      text(ranks) + " ranks cannot share " + text(lattice.cells) + " depth cells (mesh.cells) of " + grid +
      ": depth ranks x px x py must be the number of ranks, and every rank needs a cell and a token" +
      advice(ranks, lattice, ranks_depth, ranks_token));
}

namespace {

Communicator duplicate(MPI_Comm comm) {
  MPI_Comm copy = MPI_COMM_NULL;
  check_mpi(MPI_Comm_dup(comm, &copy));
  return Communicator(copy);
}

/// Chooses the process grid after it has checked all sizes: PETSc's DMSetUp would complain about partitions.
ProcessGrid checked_grid(const Communicator& comm, const MeshSpec& spec) {
  if (spec.samples < 1)
    throw BadInput("inflow.samples=" + std::to_string(spec.samples) + ": must be at least 1");
  if (spec.width < 1) throw BadInput("model.width=" + std::to_string(spec.width) + ": must be at least 1");
  const ProcessGrid grid = choose_process_grid(mpi::size(comm), {spec.cells, spec.tokens_x, spec.tokens_y},
                                               spec.ranks_depth, spec.ranks_token);
  const double numbers =  // in double, since the product may exceed any integer
      1.0 * spec.cells * spec.tokens_x * spec.tokens_y * spec.samples * spec.width;
  if (numbers > 1.0 * std::numeric_limits<PetscInt>::max())
    throw BadInput("cells * tokens * samples * width = " + std::to_string(numbers) +
                   " numbers are more than this PETSc can index (" +
                   std::to_string(std::numeric_limits<PetscInt>::max()) +
                   "): reduce mesh.cells, mesh.tokens_x, mesh.tokens_y, inflow.samples or model.width");
  // At least the state, its rate of change and one stage; the work space of one depth cell is small beside
  // them.
  require_memory(comm, 3 * numbers * sizeof(double) / mpi::size(comm),
                 "mesh.cells, mesh.tokens_x, mesh.tokens_y, inflow.samples and model.width");
  return grid;
}

DMHandle create_dmda(MPI_Comm comm, const MeshSpec& spec, const ProcessGrid& grid) {
  const auto boundary = [&](int tokens) {
    // On a periodic axis of one token there is no flux, and so no neighbour.
    return spec.periodic && tokens > 1 ? DM_BOUNDARY_PERIODIC : DM_BOUNDARY_NONE;
  };
  DMHandle dm;
  check(DMDACreate3d(comm, boundary(spec.tokens_x), boundary(spec.tokens_y), DM_BOUNDARY_NONE,
                     DMDA_STENCIL_STAR, spec.tokens_x, spec.tokens_y, spec.cells, grid.x, grid.y, grid.depth,
                     spec.samples * spec.width, 1, nullptr, nullptr, nullptr, dm.out()));
  check(DMSetUp(dm));
  return dm;
}

struct Corners {
  PetscInt x = 0, y = 0, z = 0, nx = 0, ny = 0, nz = 0;
};

Corners corners(DM dm) {
  Corners c;
  check(DMDAGetCorners(dm, &c.x, &c.y, &c.z, &c.nx, &c.ny, &c.nz));
  return c;
}

/// Communicator of the ranks of `comm` with the same `colour`, ordered by `key`. DMDAGetProcessorSubsets is
/// not used: for a direction it returns the ranks that share a coordinate along it, not a line of ranks in
/// that direction.
Communicator split(MPI_Comm comm, int colour, int key) {
  MPI_Comm part = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split(comm, colour, key, &part));
  return Communicator(part);
}

TokenLine token_line_of(MPI_Comm comm, DM dm, const MeshSpec& spec, const ProcessGrid& grid) {
  const PetscInt *columns = nullptr, *rows = nullptr, *cells = nullptr;
  check(DMDAGetOwnershipRanges(dm, &columns, &rows, &cells));
  const Corners c = corners(dm);
  const Communicator same_depth = split(comm, c.z, c.y * spec.tokens_x + c.x);
  return {same_depth, std::vector<int>(columns, columns + grid.x), std::vector<int>(rows, rows + grid.y),
          spec.periodic};
}

}  // namespace

Mesh::Mesh(MPI_Comm comm, const MeshSpec& spec)
    : spec_(spec),
      comm_(duplicate(comm)),
      grid_(checked_grid(comm_, spec)),
      dm_(create_dmda(comm_, spec, grid_)),
      line_(token_line_of(comm_, dm_, spec, grid_)) {
  // The first corner of a rank identifies its tokens, the cell its place in depth.
  const Corners c = corners(dm_);
  depth_line_ = split(comm_, c.y * spec.tokens_x + c.x, c.z);
  first_cell_ = c.z + 1;
  cells_ = c.nz;
  const PetscInt *columns = nullptr, *rows = nullptr, *cells = nullptr;
  check(DMDAGetOwnershipRanges(dm_, &columns, &rows, &cells));
  cell_starts_.push_back(1);
  for (int r = 0; r < grid_.depth; ++r) cell_starts_.push_back(cell_starts_.back() + cells[r]);
}

Index Mesh::slab_size() const {
  return Index{line_.block().count()} * spec_.samples * spec_.width;
}

VecHandle Mesh::create_vector() const {
  VecHandle vector;
  check(DMCreateGlobalVector(dm_, vector.out()));
  check(VecSet(vector, 0));
  return vector;
}

}  // namespace fluxformer
