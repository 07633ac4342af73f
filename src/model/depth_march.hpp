#pragma once

// From the embedded input through all depth cells, and the transpose of that: where evaluators of gradients
// differ. Implementations: Backpropagation (model/), AdjointMarch (solvers/, PETSc TSAdjoint).

#include <functional>
#include <span>

#include "model/depth_model.hpp"

namespace fluxformer {

/// How depth cells lie on the model: cell i of M covers ((i-1)h, ih], h = S/M.
struct DepthCells {
  int layers = 1;  ///< S
  int cells = 1;   ///< M
  double spacing() const { return static_cast<double>(layers) / cells; }
};

/// Throws BadInput for speed <= 0, cells that are not a multiple of the layers with constant weights, and
/// norm post or residual off with h != 1.
void require_marchable(const ModelSpec& spec, DepthCells depth, double speed);

/// Row i of the march (one slab, valid during the call); row 0 is the embedded input.
using RowVisitor = std::function<void(int row, const double* u)>;
/// Row i on the way back: u_bar may be added to, as a loss at that depth does.
using RowAdjoint = std::function<void(int row, const double* u, double* u_bar)>;

class DepthMarch {
 public:
  virtual ~DepthMarch() = default;
  virtual DepthModel& model() const = 0;
  virtual DepthCells depth() const = 0;

  /// Marches u (in: u_0, out: u_M) and shows rows 1..M as they come. `keep`: remembers what `backward` needs.
  /// Collective over the token line; throws NumericalFailure (agreed over it) if a solve fails. A state that
  /// is not finite is not looked for: the loss shows it.
  virtual void forward(double* u, bool keep, const RowVisitor& row) = 0;
  /// u_bar (in: the adjoint of u_M, out: of u_0), gradient += this rank's share of the parameters'. `row` is
  /// called with i = M-1 .. 0 once cell i+1 has done all it does to `gradient`. One call for each
  /// `forward(keep = true)`. Collective over the token line.
  virtual void backward(double* u_bar, std::span<double> gradient, const RowAdjoint& row) = 0;
  /// After the parameters changed. Not collective.
  virtual void refresh() { model().refresh(); }
  /// Bytes this rank keeps between `forward` and `backward`, at most so far.
  virtual std::size_t kept_bytes() const = 0;
};

}  // namespace fluxformer
