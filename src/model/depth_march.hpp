#pragma once

// The march through depth and its adjoint: the interface that gradient back ends implement. These are
// Backpropagation (model/) and AdjointMarch (solvers/adjoint/, PETSc TSAdjoint).

#include <functional>
#include <span>

#include "model/depth_model.hpp"

namespace fluxformer {

/// The depth cells of a model: cell i of M covers ((i-1)h, ih], h = S/M.
struct DepthCells {
  int layers = 1;  ///< number of layers S
  int cells = 1;   ///< number of cells M
  double spacing() const { return static_cast<double>(layers) / cells; }
};

/// The cells first .. last of a depth that a march goes through, both included.
struct DepthRange {
  int first = 1, last = 1;
  int count() const { return last - first + 1; }
};
/// The range of all cells of a depth.
inline DepthRange all_cells(DepthCells depth) {
  return {1, depth.cells};
}

/// The parameters that a march through these cells needs: embedding and head at the ends of the depth, and
/// all knots between which the cells lie.
ParameterShare share_of(const ModelSpec& spec, DepthCells depth, DepthRange range);

/// Throws BadInput for speed <= 0, cells that are not a multiple of the layers with constant weights, and
/// norm post or residual off with h/c != 1.
void require_marchable(const ModelSpec& spec, DepthCells depth, double speed);

/// Called with row i of the march, u_i (one slab, valid during the call); row 0 is the embedded input.
using RowVisitor = std::function<void(int row, const double* u)>;
/// Called with row i of the backward march. It may add to u_bar, as a loss at that depth does.
using RowAdjoint = std::function<void(int row, const double* u, double* u_bar)>;

/// Storage of a forward march: nothing, what `backward` needs, or also what products with the Hessian need
/// (Backpropagation).
enum class Keep { nothing, activations, second_derivatives };

/// A march over a range of cells of a model, and its transpose. Each rank holds one slab.
class DepthMarch {
 public:
  virtual ~DepthMarch() = default;
  /// The model that it marches with (borrowed), and the depth cells of that model.
  virtual DepthModel& model() const = 0;
  virtual DepthCells depth() const = 0;
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
};

}  // namespace fluxformer
