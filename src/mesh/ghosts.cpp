#include "mesh/ghosts.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/phases.hpp"

namespace fluxformer {

DepthGhosts::DepthGhosts(const Mesh& mesh, int below, int above) : mesh_(mesh), below_(below) {
  const std::vector<int>& starts = mesh.cell_starts();
  const int me = owner(mesh.first_cell());
  // Every rank works out the ghosts of all ranks, so that no messages are needed to ask for them.
  for (int rank = 0; rank + 1 < std::ssize(starts); ++rank) {
    // Notes that `rank` needs `cell` as its ghost number `ghost`: on that rank as a slab to receive, on the
    // owner of the cell as a slab to send.
    const auto visit = [&](int ghost, int cell) {
      if (cell < 0 || cell > mesh.total_cells()) return;
      if (rank == me) ghosts_[ghost].cell = cell;
      const int holder = owner(std::max(cell, 1));  // cell 0 is kept by the owner of cell 1
      if (holder == rank) return;
      if (rank == me) wanted_.push_back({holder, ghost, cell});
      if (holder == me) lent_.push_back({rank, ghost, cell});
    };
    for (int k = 0; k < below; ++k) visit(k, starts[rank] - 1 - k);
    if (above > 0) visit(above_ghost, starts[rank + 1]);
  }
  for (Ghost& ghost : ghosts_) {
    if (ghost.cell < 0) continue;  // the stencil reaches beyond the mesh
    if (ghost.cell > 0) ghost.value.assign(mesh.slab_size(), 0.0);
    ghost.bar.assign(mesh.slab_size(), 0.0);
  }
}

int DepthGhosts::owner(int cell) const {
  const std::vector<int>& starts = mesh_.cell_starts();
  // starts[rank] <= cell < starts[rank + 1]; the last entry, M + 1, starts no rank.
  return std::upper_bound(starts.begin(), starts.end() - 1, cell) - starts.begin() - 1;
}

void DepthGhosts::begin(Vec u) {
  const InPhase phase(Phase::ghosts);
  sent_.emplace(u);
  const int count = mesh_.slab_size();
  for (const Link& link : wanted_) {
    if (link.cell == 0) continue;  // set_inflow gives the inflow to every rank that reaches it
    check_mpi(MPI_Irecv(ghosts_[link.ghost].value.data(), count, MPI_DOUBLE, link.rank, link.ghost,
                        mesh_.depth_line(), &requests_.emplace_back()));
  }
  for (const Link& link : lent_) {
    if (link.cell == 0) continue;
    // Tagged with the receiver's number of the ghost: two of its ghosts may come from the same rank.
    check_mpi(MPI_Isend(owned_slab(sent_->values, link.cell), count, MPI_DOUBLE, link.rank, link.ghost,
                        mesh_.depth_line(), &requests_.emplace_back()));
    count_message(count * sizeof(double));
  }
}

void DepthGhosts::end() {
  wait();
  sent_.reset();
}

void DepthGhosts::wait() {
  const InPhase phase(Phase::ghosts);
  check_mpi(MPI_Waitall(requests_.size(), requests_.data(), MPI_STATUSES_IGNORE));
  requests_.clear();
}

const double* DepthGhosts::below(int k) const {
  const Ghost& ghost = ghosts_[k];
  if (ghost.cell == 0) return inflow_;
  return ghost.cell > 0 ? ghost.value.data() : nullptr;
}

const double* DepthGhosts::above() const {
  return ghosts_[above_ghost].cell > 0 ? ghosts_[above_ghost].value.data() : nullptr;
}

void DepthGhosts::clear_bars() {
  for (Ghost& ghost : ghosts_) std::fill(ghost.bar.begin(), ghost.bar.end(), 0.0);
}

double* DepthGhosts::bar(int ghost) {
  Ghost& g = ghosts_[ghost];
  return g.cell < 0 ? nullptr : g.bar.data();
}

double* DepthGhosts::below_bar(int k) {
  return bar(k);
}
double* DepthGhosts::above_bar() {
  return bar(above_ghost);
}

void DepthGhosts::add_to_owners(Vec u_bar) {
  const Index slab = mesh_.slab_size();
  const int count = slab;
  // As in begin() with the directions reversed: what was received there is sent here.
  std::vector<double> received(lent_.size() * slab);
  for (Index i = 0; i < std::ssize(lent_); ++i)
    check_mpi(MPI_Irecv(received.data() + i * slab, count, MPI_DOUBLE, lent_[i].rank, lent_[i].ghost,
                        mesh_.depth_line(), &requests_.emplace_back()));
  for (const Link& link : wanted_) {
    const InPhase phase(Phase::ghosts);
    check_mpi(MPI_Isend(bar(link.ghost), count, MPI_DOUBLE, link.rank, link.ghost, mesh_.depth_line(),
                        &requests_.emplace_back()));
    count_message(count * sizeof(double));
  }
  wait();

  const WriteArray owned(u_bar);
  // u_bar[cell] += sum over the ranks that reach the cell; always in this order, so that every run gives the
  // same bits.
  for (Index i = 0; i < std::ssize(lent_); ++i) {
    const int cell = lent_[i].cell;
    double* to = cell == 0 ? bar(0) : owned_slab(owned.values, cell);
    const double* from = received.data() + i * slab;
    for (Index j = 0; j < slab; ++j) to[j] += from[j];
  }
}

}  // namespace fluxformer
