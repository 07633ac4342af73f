#include "mesh/mesh.hpp"

#include <petscdmda.h>

#include <limits>
#include <string>

#include "base/memory.hpp"
#include "base/mpi.hpp"

namespace fluxformer {
namespace {

Communicator duplicate(MPI_Comm comm) {
  MPI_Comm copy = MPI_COMM_NULL;
  check_mpi(MPI_Comm_dup(comm, &copy));
  return Communicator(copy);
}

/// All is checked before PETSc's DMSetUp, whose message would be about partitions.
ProcessGrid checked_grid(const Communicator& comm, const MeshSpec& spec) {
  if (spec.samples < 1)
    throw BadInput("inflow.samples=" + std::to_string(spec.samples) + ": must be at least 1");
  if (spec.width < 1) throw BadInput("model.width=" + std::to_string(spec.width) + ": must be at least 1");
  const ProcessGrid grid = choose_process_grid(mpi::size(comm), {spec.cells, spec.tokens_x, spec.tokens_y},
                                               spec.ranks_depth, spec.ranks_token);
  const double numbers =
      static_cast<double>(spec.cells) * spec.tokens_x * spec.tokens_y * spec.samples * spec.width;
  if (numbers > static_cast<double>(std::numeric_limits<PetscInt>::max()))
    throw BadInput("cells * tokens * samples * width = " + std::to_string(numbers) +
                   " numbers are more than this PETSc can index (" +
                   std::to_string(std::numeric_limits<PetscInt>::max()) +
                   "): reduce mesh.cells, mesh.tokens_x, mesh.tokens_y, inflow.samples or model.width");
  // At least the state, its rate and one stage; what one depth cell needs more is small beside them.
  require_memory(comm, 3 * numbers * sizeof(double) / mpi::size(comm),
                 "mesh.cells, mesh.tokens_x, mesh.tokens_y, inflow.samples and model.width");
  return grid;
}

DMHandle create_dmda(MPI_Comm comm, const MeshSpec& spec, const ProcessGrid& grid) {
  const auto boundary = [&](int tokens) {
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

/// The ranks of `comm` with the same `colour`, ordered by `key`. Not by DMDAGetProcessorSubsets, whose
/// direction means the ranks that share a coordinate along it.
Communicator split(MPI_Comm comm, PetscInt colour, PetscInt key) {
  MPI_Comm part = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split(comm, static_cast<int>(colour), static_cast<int>(key), &part));
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
  const Corners c = corners(dm_);
  depth_line_ = split(comm_, c.y * spec.tokens_x + c.x, c.z);
  first_cell_ = static_cast<int>(c.z) + 1;
  cells_ = static_cast<int>(c.nz);
  const PetscInt *columns = nullptr, *rows = nullptr, *cells = nullptr;
  check(DMDAGetOwnershipRanges(dm_, &columns, &rows, &cells));
  cell_starts_.push_back(1);
  for (int r = 0; r < grid_.depth; ++r)
    cell_starts_.push_back(cell_starts_.back() + static_cast<int>(cells[r]));
}

std::size_t Mesh::slab_size() const {
  return static_cast<std::size_t>(line_.block().count()) * static_cast<std::size_t>(spec_.samples) *
         static_cast<std::size_t>(spec_.width);
}

VecHandle Mesh::create_vector() const {
  VecHandle vector;
  check(DMCreateGlobalVector(dm_, vector.out()));
  check(VecSet(vector, 0));
  return vector;
}

}  // namespace fluxformer
