#pragma once

// How much every hidden token moves with every input token: the norms of the d x d blocks du_j(s)/dx_i of the
// derivative of a model's states by its embedded input, at all depths at once. By tangents in the directions of one
// input token,
//
//   all d of them            |du_j/dx_i|_F^2 = sum_c |(du_j/dx_i) e_c|^2          exact; d n tangents
//   P random ones            |du_j/dx_i|_F^2 = E |(du_j/dx_i) v|^2, E v v^T = I    v of entries +-1; P n tangents
//
// The second is Hutchinson's estimator (Hutchinson 1990; entries +-1 have the smaller variance). Derivatives run through
// the attention weights and every LayerNorm.

#include <cstdint>
#include <memory>
#include <vector>

#include "analysis/model_probe.hpp"
#include "analysis/state_examples.hpp"
#include "model/depth_march.hpp"
#include "model/slab/slab_model.hpp"

namespace fluxformer::derivatives {

enum class BlockNorm { frobenius, spectral };

/// How the norms are found.
struct BlockNormPlan {
  BlockNorm norm = BlockNorm::frobenius;
  int probes = 0;          ///< random directions of each token; 0: all d, exactly. frobenius only
  std::uint64_t seed = 0;  ///< of the directions
};

/// At one depth, for n real tokens.
struct BlockNorms {
  RowMatrix norms;           ///< [input token i][hidden token j]: |du_j/dx_i|
  RowMatrix squares;         ///< their squares, or the estimates of these
  RowMatrix standard_error;  ///< of the squares, from the spread over the probes; empty if they are exact
};

/// Of one sample at a time, which is repeated `columns` times in a slab: one tangent for each copy. Not collective.
class InputJacobian {
 public:
  /// Parameters and line are borrowed; the line belongs to this rank alone. `cells`: depth cells. Memory: what
  /// back-propagation keeps for a batch of `columns` samples. Throws BadInput for cells that the model cannot be marched
  /// on, and for a line over more than one rank.
  InputJacobian(const Parameters& parameters, const TokenLine& line, int cells, int columns);

  /// For the states u_0 of a sample, [token][channel], of which the first `length` tokens are real: norms by row, 0 to M.
  /// `key`: of the sample, for its random directions. Throws std::invalid_argument for spectral norms of probes.
  std::vector<BlockNorms> norms(const double* u_0, int length, const BlockNormPlan& plan, long key = 0);

  int rows() const { return static_cast<int>(tapes_.size()) + 1; }

 private:
  void linearise(const double* u_0, int length);
  /// Shows visit(row, slab) the tangents of all rows; the slab holds those of row 0.
  void push(const RowVisitor& visit);
  DepthPoint point(int cell) const;

  const Parameters& parameters_;
  DepthCells depth_;
  SlabContext context_;
  SlabModel<double> model_;
  std::vector<std::unique_ptr<Tape>> tapes_;  // by cell
  std::vector<std::vector<double>> states_;   // at which cells begin
  std::vector<double> slab_, next_;
};

}  // namespace fluxformer::derivatives
