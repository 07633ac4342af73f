#pragma once

// The layer map cell by cell, u_i = G_i(u_{i-1}; h/c), keeping the activations of every cell, and the
// transposed march: back-propagation. Time: about three forward passes; memory: the activations of M cells.

#include <memory>
#include <vector>

#include "model/depth_march.hpp"

namespace fluxformer {

/// train.gradient = backprop.
class Backpropagation final : public DepthMarch {
 public:
  /// `model` is borrowed. Throws BadInput for speed <= 0, M not a multiple of S with constant weights, and
  /// norm post or residual off with h != 1.
  Backpropagation(DepthModel& model, DepthCells depth, double speed)
      : Backpropagation(model, depth, speed, all_cells(depth)) {}
  /// Through a range of cells.
  Backpropagation(DepthModel& model, DepthCells depth, double speed, DepthRange range);

  DepthModel& model() const override { return model_; }
  DepthCells depth() const override { return depth_; }
  DepthRange range() const override { return range_; }
  void forward(double* u, Keep keep, const RowVisitor& row) override;
  void backward(double* u_bar, std::span<double> gradient, const RowAdjoint& row) override;
  std::size_t kept_bytes() const override;

 private:
  /// Each cell writes the state that the next one starts from to where it is kept.
  void forward_keeping(double* u, const RowVisitor& row);
  DepthPoint point(int cell) const { return cell_entry(cell, depth_.layers, depth_.cells); }
  DepthModel& model_;
  DepthCells depth_;
  DepthRange range_;
  double step_;                               // h / c
  std::vector<std::vector<double>> states_;   // that the cells of the range start from
  std::vector<std::unique_ptr<Tape>> tapes_;  // of these cells
  std::vector<double> next_;
};

}  // namespace fluxformer
