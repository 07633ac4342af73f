#include "mesh/token_line.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <string>

#include "base/error.hpp"
#include "base/phases.hpp"

namespace fluxformer {
namespace {

// x grows to the east and y to the south, as columns and rows of an image do.
enum Side { west, east, north, south };
constexpr std::array<Side, 4> sides = {west, east, north, south};
constexpr std::array<std::array<int, 2>, 4> step = {{{-1, 0}, {1, 0}, {0, -1}, {0, 1}}};  // along x, y
constexpr std::array<Side, 4> opposite = {east, west, south, north};

/// Rows of the halo on one side.
template <class Halo>
auto& part(Halo& halo, Side side) {
  switch (side) {
    case west:
      return halo.west;
    case east:
      return halo.east;
    case north:
      return halo.north;
    default:
      return halo.south;
  }
}

/// Local number y * nx + x of token `k` on the block's edge at `side`.
int edge_token(const TokenBlock& block, Side side, int k) {
  switch (side) {
    case west:
      return k * block.nx;
    case east:
      return k * block.nx + block.nx - 1;
    case north:
      return k;
    default:
      return (block.ny - 1) * block.nx + k;
  }
}

int edge_length(const TokenBlock& block, Side side) {
  return side == west || side == east ? block.ny : block.nx;
}

/// Sizes of parts that differ by at most one, the larger ones first, as DMDA splits.
std::vector<int> even_parts(int total, int parts) {
  std::vector<int> sizes(parts, total / parts);
  std::fill_n(sizes.begin(), total % parts, total / parts + 1);
  return sizes;
}

void require_full(const std::vector<int>& parts, const char* axis) {
  if (parts.empty() || std::any_of(parts.begin(), parts.end(), [](int n) { return n < 1; }))
    throw BadInput(
        std::string("the ") + axis + " of the token lattice are spread over " + std::to_string(parts.size()) +
        " ranks, but there are only " + std::to_string(std::accumulate(parts.begin(), parts.end(), 0)) +
        " of them: use fewer ranks (mesh.ranks_token) or more tokens (mesh.tokens_x, mesh.tokens_y)");
}

}  // namespace

TokenLine::TokenLine(MPI_Comm comm, std::vector<int> columns, std::vector<int> rows, bool periodic)
    : rank_(0),
      px_(std::ssize(columns)),
      py_(std::ssize(rows)),
      tokens_x_(std::accumulate(columns.begin(), columns.end(), 0)),
      tokens_y_(std::accumulate(rows.begin(), rows.end(), 0)),
      periodic_(periodic) {
  require_full(columns, "columns");
  require_full(rows, "rows");
  int size = 0;
  check_mpi(MPI_Comm_size(comm, &size));
  if (px_ * py_ != size)
    throw BadInput("a " + std::to_string(px_) + " x " + std::to_string(py_) + " grid of token ranks on " +
                   std::to_string(size) + " ranks");
  MPI_Comm own = MPI_COMM_NULL;  // has its own tags, and its errors return
  check_mpi(MPI_Comm_dup(comm, &own));
  comm_ = Communicator(own);
  check_mpi(MPI_Comm_rank(comm_, &rank_));

  // Blocks in the order of the ranks, rank = ry * px + rx.
  int y = 0;
  for (const int ny : rows) {
    int x = 0;
    for (const int nx : columns) {
      blocks_.push_back({x, nx, y, ny});
      x += nx;
    }
    y += ny;
  }
}

TokenLine TokenLine::even(MPI_Comm comm, int tokens_x, int tokens_y, int px, int py, bool periodic) {
  if (px < 1 || py < 1) throw BadInput("a grid of token ranks needs at least one rank along each axis");
  return {comm, even_parts(tokens_x, px), even_parts(tokens_y, py), periodic};
}

TokenLine TokenLine::stretch(MPI_Comm comm, int tokens, int count) {
  if (count > tokens)
    throw BadInput(std::to_string(count) + " tokens of a line of " + std::to_string(tokens));
  TokenLine line(comm, std::vector{count}, std::vector{1}, false);
  line.tokens_x_ = tokens;
  return line;
}

int TokenLine::global_index(int rank, int local) const {
  const TokenBlock& b = block(rank);  // local = y * nx + x within the block
  return (b.y0 + local / b.nx) * tokens_x_ + b.x0 + local % b.nx;
}

int TokenLine::neighbour(int dx, int dy) const {
  // The place of the neighbouring part along one axis of the process grid, -1 if there is none.
  const auto along = [this](int place, int move, int parts, int tokens) {
    const int there = place + move;
    if (there >= 0 && there < parts) return there;
    // A single token on a periodic axis would be its own neighbour: no flux passes, so it has none.
    return periodic_ && tokens > 1 ? (there + parts) % parts : -1;
  };
  const int rx = along(rank_ % px_, dx, px_, tokens_x_);
  const int ry = along(rank_ / px_, dy, py_, tokens_y_);
  return rx < 0 || ry < 0 ? -1 : ry * px_ + rx;
}

void TokenLine::begin_halo(const double* slab, Index row, TokenHalo& halo) const {
  const InPhase phase(Phase::ghosts);
  requests_.clear();
  for (const Side side : sides) {
    const int other = neighbour(step[side][0], step[side][1]);
    auto& received = part(halo, side);
    if (other < 0) {
      received.clear();
      continue;
    }
    // Neighbours on one side have edges of the same length, since the lattice is cut by straight lines.
    const int length = edge_length(block(), side);
    received.resize(length * row);
    std::vector<double>& packed = edge_[side];
    packed.resize(received.size());
    for (int k = 0; k < length; ++k)
      std::copy_n(slab + edge_token(block(), side, k) * row, row, packed.data() + k * row);
    const int count = received.size();
    // Tags name the receiver's side: one rank may be the neighbour on both sides.
    requests_.resize(requests_.size() + 2);
    check_mpi(MPI_Irecv(received.data(), count, MPI_DOUBLE, other, side, comm_, &requests_.end()[-2]));
    check_mpi(
        MPI_Isend(packed.data(), count, MPI_DOUBLE, other, opposite[side], comm_, &requests_.end()[-1]));
    count_message(packed.size() * sizeof(double));
  }
}

void TokenLine::end_halo() const {
  const InPhase phase(Phase::ghosts);
  check_mpi(MPI_Waitall(requests_.size(), requests_.data(), MPI_STATUSES_IGNORE));
  requests_.clear();
}

TokenHalo TokenLine::zero_halo(Index row) const {
  TokenHalo halo;
  for (const Side side : sides)
    if (neighbour(step[side][0], step[side][1]) >= 0)
      part(halo, side).assign(edge_length(block(), side) * row, 0);
  return halo;
}

void TokenLine::add_halo_to_owners(const TokenHalo& halo, Index row, double* slab) const {
  const InPhase phase(Phase::ghosts);
  requests_.clear();
  // As in begin_halo with the directions reversed: a halo is sent back to the rank whose tokens it holds.
  for (const Side side : sides) {
    const int other = neighbour(step[side][0], step[side][1]);
    if (other < 0) continue;
    const auto& given = part(halo, side);
    edge_[side].resize(given.size());
    const int count = given.size();
    requests_.resize(requests_.size() + 2);
    check_mpi(MPI_Irecv(edge_[side].data(), count, MPI_DOUBLE, other, side, comm_, &requests_.end()[-2]));
    check_mpi(MPI_Isend(given.data(), count, MPI_DOUBLE, other, opposite[side], comm_, &requests_.end()[-1]));
    count_message(given.size() * sizeof(double));
  }
  end_halo();
  // slab[edge token] += what the neighbour on that side found for it; always in this order: the same bits in
  // every run.
  for (const Side side : sides) {
    if (neighbour(step[side][0], step[side][1]) < 0) continue;
    for (int k = 0; k < edge_length(block(), side); ++k) {
      const double* from = edge_[side].data() + k * row;
      double* to = slab + edge_token(block(), side, k) * row;
      for (Index j = 0; j < row; ++j) to[j] += from[j];
    }
  }
}

}  // namespace fluxformer
