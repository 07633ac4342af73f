#pragma once

// The cells that depth is divided into.

#include <vector>

namespace fluxformer {

/// A depth at which parameters are evaluated: by `layer` (1..S) for constant weights, by `s` for linear ones.
struct DepthPoint {
  int layer = 1;
  double s = 0;
};

/// The depth cells of a model: cell i of M covers (s_{i-1}, s_i], 0 = s_0 < s_1 < ... < s_M = S. They are equal,
/// s_i = i S/M, unless there are edges. Rows are the edges: row i is at the depth s_i.
struct DepthCells {
  int layers = 1;                  ///< number of layers S
  int cells = 1;                   ///< number of cells M
  std::vector<double> edges = {};  ///< s_0 .. s_M; empty: equal cells

  /// Cells between these edges. Edges within 1e-12 S of those of equal cells are taken for them. Throws
  /// BadInput naming mesh.edges unless there are at least two, from 0 to S, and no cell is shorter than 1e-6.
  static DepthCells between(int layers, std::vector<double> edges);

  bool equal() const { return edges.empty(); }
  /// The depth s_i of row i = 0 .. M, in layers.
  double depth(int row) const {
    return equal() ? static_cast<double>(row) * layers / cells : edges[static_cast<std::size_t>(row)];
  }
  /// The length h_i = s_i - s_{i-1} of cell i = 1 .. M, in layers.
  double length(int cell) const {
    return equal() ? static_cast<double>(layers) / cells : depth(cell) - depth(cell - 1);
  }
  bool operator==(const DepthCells& other) const = default;
  /// The length of the shortest cell, in layers.
  double shortest() const;
  /// The length of the longest cell, in layers.
  double longest() const;

  /// The depth at the entry s_{i-1} of cell i, where `shift` reads the weights. Its layer is that of the
  /// cell, floor(s_{i-1}) + 1 (constant weights need cells that end where layers do).
  DepthPoint entry(int cell) const { return at(cell, 0); }
  /// The depth at the exit s_i of cell i, where `upwind` and `upwind2` read the weights. Its layer is that of
  /// the cell.
  DepthPoint exit(int cell) const { return at(cell, 1); }
  /// The depth in between, at this share of the cell.
  DepthPoint at(int cell, double share) const {
    if (equal())
      return {static_cast<int>(static_cast<long>(cell - 1) * layers / cells) + 1,
              (cell - 1 + share) * layers / cells};
    const double from = depth(cell - 1);
    return {static_cast<int>(from) + 1, share == 1 ? depth(cell) : from + share * length(cell)};
  }

  /// Every cell divided into this many equal ones.
  DepthCells divided(int parts) const;
  /// The row s_i = l at which each layer l = 0 .. S ends. Throws BadInput that names the first layer that ends
  /// within a cell; `why` says what needs the row.
  std::vector<int> layer_rows(const char* why) const;
};

/// The layer that ends at a row, or -1; `layer_rows` as above.
int layer_ending_at(int row, const std::vector<int>& layer_rows);

}  // namespace fluxformer
