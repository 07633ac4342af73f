#pragma once

// The march through depth, u_i = G_i(u_{i-1}; h_i/c), and its adjoint. DepthMarch is what gradients ask for;
// it is implemented by Backpropagation here, cell by cell, and by PETSc's TSAdjoint in solvers/adjoint.
//
// Back-propagation keeps the activations of every cell. Time: about three forward passes; memory: the
// activations of M cells. With tapes of second order it also marches tangents and the tangents of adjoints,
// for products with the Hessian (docs/model.md section 9).

#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "model/depth_model.hpp"

namespace fluxformer {

/// The cells first .. last of a depth that a march goes through, both included.
struct DepthRange {
  int first = 1, last = 1;
  int count() const { return last - first + 1; }
};
/// The range of all cells of a depth.
inline DepthRange all_cells(const DepthCells& depth) {
  return {1, depth.cells};
}

/// The parameters that a march through these cells needs: embedding and head at the ends of the depth, and
/// all knots between which the cells lie.
ParameterShare share_of(const ModelSpec& spec, const DepthCells& depth, DepthRange range);

/// Throws BadInput for speed <= 0, cells that are not a multiple of the layers with constant weights, and
/// norm post or residual off with h/c != 1.
void require_marchable(const ModelSpec& spec, const DepthCells& depth, double speed);

/// Called with row i of the march, u_i (one slab, valid during the call); row 0 is the embedded input.
using RowVisitor = std::function<void(int row, const double* u)>;
/// Called with row i of the backward march. It may change u_bar: a loss at that depth adds to it.
using RowAdjoint = std::function<void(int row, const double* u, double* u_bar)>;
/// Called with row i of a forward march, whose vector it may change.
using RowEdit = std::function<void(int row, double* u)>;

/// Storage of a forward march: nothing, what `backward` needs, or also what products with the Hessian need
/// (Backpropagation).
enum class Keep { nothing, activations, second_derivatives };

/// A march over a range of cells of a model, and its transpose. Each rank holds one slab.
class DepthMarch {
 public:
  virtual ~DepthMarch() = default;
  /// The model that it marches with (borrowed), and the depth cells of that model.
  virtual DepthModel& model() const = 0;
  virtual const DepthCells& depth() const = 0;
  /// The cells i .. j that this march goes through.
  virtual DepthRange range() const = 0;

  /// Marches u (in: u_{i-1}, out: u_j) and calls `row` for rows i .. j.
  /// Collective over the token line; throws NumericalFailure (agreed over it) if a solve fails. Does not
  /// check for states that are not finite: the loss shows them.
  virtual void forward(double* u, Keep keep, const RowVisitor& row) = 0;
  /// Marches the adjoint u_bar from u_j (in) to u_{i-1} (out); gradient += this rank's share of the gradient
  /// with respect to the parameters. `row` is called for rows j-1 .. i-1, each after the cell behind it has
  /// made all its contributions to `gradient`. One call for each `forward` that kept activations. Collective
  /// over the token line.
  virtual void backward(double* u_bar, std::span<double> gradient, const RowAdjoint& row) = 0;
  /// Largest number of bytes this rank has kept between `forward` and `backward`.
  virtual std::size_t kept_bytes() const = 0;

  /// Has every forward march change its rows i .. j: a source of the equation at these depths, or a state
  /// replaced by another (empty: nothing). It is called before `row` sees them, also where `backward` marches
  /// again, so that it has to do the same every time. Derivatives are taken at the changed states, and that
  /// is all `backward` knows of them: where the change depends on u, RowAdjoint multiplies u_bar with its
  /// transpose (0 where u is replaced, the identity where a vector is added); at the last row the caller
  /// does, before `backward`.
  void set_edit(RowEdit edit) { edit_ = std::move(edit); }

 protected:
  RowEdit edit_;
};

/// The march of train.gradient = backprop: every cell keeps its activations.
class Backpropagation final : public DepthMarch {
 public:
  /// `model` is borrowed. Throws BadInput for speed <= 0, M not a multiple of S with constant weights, and
  /// norm post or residual off with h != 1.
  Backpropagation(DepthModel& model, const DepthCells& depth, double speed)
      : Backpropagation(model, depth, speed, all_cells(depth)) {}
  /// A march through the cells of `range` only.
  Backpropagation(DepthModel& model, const DepthCells& depth, double speed, DepthRange range);

  DepthModel& model() const override { return model_; }
  const DepthCells& depth() const override { return depth_; }
  DepthRange range() const override { return range_; }
  void forward(double* u, Keep keep, const RowVisitor& row) override;
  void backward(double* u_bar, std::span<double> gradient, const RowAdjoint& row) override;
  std::size_t kept_bytes() const override;

  /// Marches the tangent u_dot from the first row (in) to the last (out), along `direction` in the parameters
  /// (empty: they do not vary): u_dot_i = (dG_i/du) u_dot_{i-1} + (dG_i/dtheta) direction. `row` is called
  /// with rows i .. j and their tangents, which it may change as the forward march changed the states. After
  /// a forward march that kept.
  void push(double* u_dot, std::span<const double> direction, const RowEdit& row);
  /// Marches w_dot as `backward` does, but leaves all tapes as they are: for products with the Gauss-Newton
  /// matrix. `row` is called with rows j-1 .. i-1 and their vectors, as RowAdjoint is.
  void pull(double* w_dot, std::span<double> gradient, const RowEdit& row);
  /// The derivative of `backward` along w_dot and the direction of the last push: w_dot from the last row
  /// (in) to the first (out), gradient_dot += . `row` as in `pull`. After a forward march with
  /// Keep::second_derivatives.
  void pull_along(double* w_dot, std::span<const double> direction, std::span<double> gradient_dot,
                  const RowEdit& row);

 private:
  /// The forward march with tapes: each cell writes its result to where the next cell keeps its input.
  void forward_keeping(double* u, Order upto, const RowVisitor& row);
  /// from := pull of the last cell, and so on to the first: pull(cell, its number, from, to).
  template <class Pull>
  void march_back(double* from, Pull&& pull);
  /// h_i / c
  double step(int cell) const { return depth_.length(cell) / speed_; }

  DepthModel& model_;
  DepthCells depth_;
  DepthRange range_;
  double speed_;                               // c
  Order order_ = Order::first;                 // of the tapes
  std::vector<std::vector<double>> states_;    // u_{i-1} of each cell i
  std::vector<std::vector<double>> tangents_;  // its tangent, with tapes of second order
  std::vector<std::unique_ptr<Tape>> tapes_;   // the tape of each cell
  std::vector<double> next_;
};

}  // namespace fluxformer
