#pragma once

// Depth cells placed by the indicators eta_i of the cells (refinement.hpp), of which only the sizes count. They
// are compared in ten digits, so that any number of ranks decides alike. Not collective.

#include <vector>

#include "model/depth_cells.hpp"

namespace fluxformer::depth {

/// The factor by which the best cells lower the sum of |eta_i| of as many equal ones, by a method of order p, whose
/// eta_i are of order p + 1 in the length h_i of a cell, whatever the cells of `depth` are:
/// S^p sum (|eta_i| / h_i^p) / (sum |eta_i|^(1/(p+1)))^(p+1) >= 1; NaN if all are 0.
double predicted_gain(const DepthCells& depth, const std::vector<double>& indicators, int order);

/// The fewest cells whose |eta_i| add up to `theta` of the sum, but at most `most` of them: true for each. Of equal
/// ones the first is taken, and none that is 0. Source: Doerfler, SIAM J. Numer. Anal. 33 (1996) 1106.
std::vector<bool> marked_cells(const std::vector<double>& indicators, double theta, int most);

/// Each marked cell in two halves.
DepthCells bisected(const DepthCells& depth, const std::vector<bool>& marked);

/// So many cells with edges at equal integrals of g^(1/(p+1)), g = |eta_i| / h_i^(p+1) in cell i, which makes the sum of
/// |eta_i| least for a method of order p. g is at least 1e-6 of its largest; equal cells if all are 0.
DepthCells equidistributed(const DepthCells& depth, const std::vector<double>& indicators, int cells,
                           int order);

}  // namespace fluxformer::depth
