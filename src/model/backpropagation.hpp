#pragma once

// The layer map cell by cell, u_i = G_i(u_{i-1}; h/c), keeping the activations of every cell, and the
// transposed march: back-propagation. Time: about three forward passes; memory: the activations of M cells.
// With tapes of second order also the march of a tangent and the tangent of the transposed march, for
// products with the Hessian (docs/model.md section 9).

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

  /// Marches the tangent u_dot from the first row (in) to the last (out), along `direction` in the parameters
  /// (empty: they do not vary): u_dot_i = (dG_i/du) u_dot_{i-1} + (dG_i/dtheta) direction. `row` is called
  /// with rows i .. j and their tangents. After a forward march that kept.
  void push(double* u_dot, std::span<const double> direction, const RowVisitor& row);
  /// Marches w_dot as `backward` does, but leaves all tapes as they are: for products with the Gauss-Newton
  /// matrix.
  void pull(double* w_dot, std::span<double> gradient);
  /// The derivative of `backward` along w_dot and the direction of the last push: w_dot from the last row
  /// (in) to the first (out), gradient_dot += . After a forward march with Keep::second_derivatives.
  void pull_along(double* w_dot, std::span<const double> direction, std::span<double> gradient_dot);

 private:
  /// The forward march with tapes: each cell writes its result to where the next cell keeps its input.
  void forward_keeping(double* u, Order upto, const RowVisitor& row);
  /// from := pull of the last cell, and so on to the first: pull(cell, its number, from, to).
  template <class Pull>
  void march_back(double* from, Pull&& pull);
  DepthPoint point(int cell) const { return cell_entry(cell, depth_.layers, depth_.cells); }
  DepthModel& model_;
  DepthCells depth_;
  DepthRange range_;
  double step_;                                // h / c
  Order order_ = Order::first;                 // of the tapes
  std::vector<std::vector<double>> states_;    // u_{i-1} of each cell i
  std::vector<std::vector<double>> tangents_;  // its tangent, with tapes of second order
  std::vector<std::unique_ptr<Tape>> tapes_;   // the tape of each cell
  std::vector<double> next_;
};

}  // namespace fluxformer
