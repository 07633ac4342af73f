#include "model/depth_cells.hpp"

#include <algorithm>
#include <cmath>
#include <sstream>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "base/index.hpp"

namespace fluxformer {
namespace {

constexpr double least_length = 1e-6, round_off = 1e-12;

[[noreturn]] void refuse(const std::string& why) {
  throw BadInput("mesh.edges: " + why);
}

std::string short_text(double s) {
  std::ostringstream text;
  text.precision(17);
  text << s;
  return text.str();
}

}  // namespace

DepthCells DepthCells::between(int layers, std::vector<double> edges) {
  if (edges.size() < 2) refuse("needs at least two depths, 0 and that of the last layer");
  if (edges.front() != 0 || edges.back() != layers)
    refuse("must go from 0 to mesh.layers = " + std::to_string(layers) + ", not from " +
           short_text(edges.front()) + " to " + short_text(edges.back()));
  DepthCells found{layers, static_cast<int>(edges.size()) - 1, {}};
  bool equal = true;
  for (int row = 1; row <= found.cells; ++row) {
    const double here = edges[row], before = edges[row - 1];
    if (!(here > before)) refuse(short_text(here) + " after " + short_text(before) + ": must increase");
    if (here - before < least_length)
      refuse("the cell from " + short_text(before) + " to " + short_text(here) + " is shorter than 1e-6");
    equal = equal && std::abs(here - found.depth(row)) <= round_off * layers;
  }
  if (!equal) found.edges = std::move(edges);
  return found;
}

double DepthCells::shortest() const {
  double least = length(1);
  for (int cell = 2; cell <= cells; ++cell) least = std::min(least, length(cell));
  return least;
}

double DepthCells::longest() const {
  double most = length(1);
  for (int cell = 2; cell <= cells; ++cell) most = std::max(most, length(cell));
  return most;
}

DepthCells DepthCells::divided(int parts) const {
  DepthCells found{layers, cells * parts, {}};
  if (equal()) return found;
  found.edges = {0};
  for (int cell = 1; cell <= cells; ++cell)
    for (int part = 1; part <= parts; ++part)
      found.edges.push_back(at(cell, static_cast<double>(part) / parts).s);
  return found;
}

std::vector<int> DepthCells::layer_rows(const char* why) const {
  std::vector<int> rows;
  for (int row = 0; row <= cells; ++row)
    if (depth(row) == std::ssize(rows)) rows.push_back(row);
  if (std::ssize(rows) == layers + 1) return rows;
  if (equal())
    throw BadInput("mesh.cells = " + std::to_string(cells) +
                   ": must be a multiple of mesh.layers = " + std::to_string(layers) + " " + why);
  throw BadInput("the edges of the depth cells (mesh.edges) lack " + std::to_string(rows.size()) +
                 ", where a layer ends, which is needed " + why);
}

int layer_ending_at(int row, const std::vector<int>& layer_rows) {
  const auto found = std::ranges::lower_bound(layer_rows, row);
  return found != layer_rows.end() && *found == row ? static_cast<int>(found - layer_rows.begin()) : -1;
}

}  // namespace fluxformer
