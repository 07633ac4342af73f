#pragma once

// Dependence of every hidden token on every input token: norms of the d x d blocks du_j(s)/dx_i of the
// derivative of a model's states with respect to its embedded input, at all depths at once. From tangents in
// the directions of one input token,
//
//   all d of them       |du_j/dx_i|_F^2 = sum_c |(du_j/dx_i) e_c|^2          exact; d n tangents
//   P random ones       |du_j/dx_i|_F^2 = E |(du_j/dx_i) v|^2, E v v^T = I    v of entries +-1; P n tangents
//
// The second is Hutchinson's estimator (Hutchinson 1990; entries +-1 have the smaller variance). Derivatives
// run through the attention weights and every LayerNorm.

#include <cstdint>
#include <memory>
#include <vector>

#include "analysis/model_probe.hpp"
#include "analysis/state_examples.hpp"
#include "model/depth_march.hpp"

namespace fluxformer::derivatives {

/// Norms of a block.
enum class BlockNorm { frobenius, spectral };

/// Norm, and directions of the tangents.
struct BlockNormPlan {
  BlockNorm norm = BlockNorm::frobenius;
  int probes = 0;          ///< random directions of each token (frobenius only); 0: all d directions, exact
  std::uint64_t seed = 0;  ///< seed of the random directions
};

/// Norms of the blocks at one depth, for n real tokens.
struct BlockNorms {
  RowMatrix norms;           ///< [input token i][hidden token j]: |du_j/dx_i|
  RowMatrix squares;         ///< |du_j/dx_i|^2, or its estimate
  RowMatrix standard_error;  ///< standard error of `squares`, from the spread over the probes; empty if exact
};

/// Derivatives of the states of one sample at a time, which is repeated `columns` times in a slab: one
/// tangent for each copy. Not collective.
class InputJacobian {
 public:
  /// Parameters and line are borrowed; the line belongs to this rank alone. Memory: what back-propagation
  /// keeps for a batch of `columns` samples. Throws BadInput for depth cells that the model cannot be marched
  /// on, and for a line over more than one rank.
  InputJacobian(const Parameters& parameters, const TokenLine& line, int columns);

  /// Norms by row 0 .. M at the embedded input u_0 of a sample, [token][channel], of which the first `length`
  /// tokens are real. `key` is that of the sample and keys its random directions. Throws
  /// std::invalid_argument for spectral norms from random directions, and for a single one.
  std::vector<BlockNorms> norms(const double* u_0, int length, const BlockNormPlan& plan, long key = 0);

  /// Number M + 1 of rows.
  int rows() const { return march_.depth().cells + 1; }

 private:
  void linearise(const double* u_0, int length);
  /// Calls visit(row, tangents) for all rows; slab_ holds the tangents of row 0.
  void push(const RowVisitor& visit);

  SlabContext context_;
  std::unique_ptr<DepthModel> model_;
  Backpropagation march_;
  std::vector<double> slab_;
};

}  // namespace fluxformer::derivatives
