#include "mesh/process_grid.hpp"

#include <algorithm>
#include <optional>

#include "base/error.hpp"

namespace fluxformer {
namespace {

int ceil_div(int a, int b) {
  return (a + b - 1) / b;
}

std::string text(int n) {
  return std::to_string(n);
}

/// The best x * y = `ranks` grid over tokens; none if the lattice cannot be split that way.
std::optional<ProcessGrid> best_of(int ranks, const Lattice& lattice, int ranks_depth, int ranks_token) {
  std::optional<ProcessGrid> best;
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

/// A sentence with a number of ranks that would work.
std::string advice(int ranks, const Lattice& lattice, int ranks_depth, int ranks_token) {
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
  const double tokens = static_cast<double>(lattice.tokens_x) * lattice.tokens_y;
  const double mine = static_cast<double>(nx) * ny;
  const double edges = (grid.x > 1 ? 2.0 * ny : 0.0) + (grid.y > 1 ? 2.0 * nx : 0.0);
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

}  // namespace fluxformer
