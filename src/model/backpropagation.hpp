#pragma once

// The layer map cell by cell, u_i = G_i(u_{i-1}; h/c), keeping the activations of every cell, and the
// transposed march: back-propagation. Time: about three forward passes; memory: the activations of M cells.

#include <memory>
#include <vector>

#include "model/depth_march.hpp"

namespace fluxformer {

/// The march of train.gradient = backprop: every cell keeps its activations.
class Backpropagation final : public DepthMarch {
 public:
  /// `model` is borrowed. Throws BadInput for speed <= 0, M not a multiple of S with constant weights, and
  /// norm post or residual off with h != 1.
  Backpropagation(DepthModel& model, DepthCells depth, double speed)
      : Backpropagation(model, depth, speed, all_cells(depth)) {}
  /// A march through the cells of `range` only.
  Backpropagation(DepthModel& model, DepthCells depth, double speed, DepthRange range);

  DepthModel& model() const override { return model_; }
  DepthCells depth() const override { return depth_; }
  DepthRange range() const override { return range_; }
  void forward(double* u, Keep keep, const RowVisitor& row) override;
  void backward(double* u_bar, std::span<double> gradient, const RowAdjoint& row) override;
  std::size_t kept_bytes() const override;

 private:
  /// The forward march with tapes: each cell writes its result to where the next cell keeps its input.
  void forward_keeping(double* u, const RowVisitor& row);
  DepthPoint point(int cell) const { return cell_entry(cell, depth_.layers, depth_.cells); }
  DepthModel& model_;
  DepthCells depth_;
  DepthRange range_;
  double step_;                               // h / c
  std::vector<std::vector<double>> states_;   // u_{i-1} of each cell i
  std::vector<std::unique_ptr<Tape>> tapes_;  // the tape of each cell
  std::vector<double> next_;
};

}  // namespace fluxformer
