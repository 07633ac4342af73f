#pragma once

// Maps that act on every row by itself, around the layers of a model: LayerNorm, a dense map, an activation. Each
// is y = S(x; theta), linearised in x and theta; heads and embeddings are stacks of them (row_stack.hpp).
//
// Rows are contiguous. Results are overwritten and overlap no input. Gradients are flat vectors, += ; an empty one
// is left out. Nothing here is collective.

#include <memory>
#include <span>
#include <string>

#include "model/parameters.hpp"

namespace fluxformer {

/// What the derivatives of a stage are taken at.
struct RowPoint {
  const double* x;      ///< its input
  const double* x_dot;  ///< along the direction; for tangents and their adjoints
};

/// One map of rows. Parameters that it reads are those of the calls, so that it serves any of one layout.
class RowStage {
 public:
  virtual ~RowStage() = default;
  /// Numbers of a row of x, and of y.
  virtual int in() const = 0;
  virtual int out() const = 0;
  /// y := S(x)
  virtual void forward(const Parameters& p, int rows, const double* x, double* y) const = 0;
  /// x_bar := (dS/dx)^T y_bar, gradient += (dS/dtheta)^T y_bar
  virtual void adjoint(const Parameters& p, int rows, const double* x, const double* y_bar, double* x_bar,
                       std::span<double> gradient) const = 0;
  /// y_dot := (dS/dx) x_dot + (dS/dtheta) direction
  virtual void tangent(const Parameters& p, const Parameters& direction, int rows, RowPoint at,
                       double* y_dot) const = 0;
  /// The derivative of `adjoint` along x_dot, `direction` and y_bar_dot.
  virtual void adjoint_tangent(const Parameters& p, const Parameters& direction, int rows, RowPoint at,
                               const double* y_bar, const double* y_bar_dot, double* x_bar_dot,
                               std::span<double> gradient_dot) const = 0;
};

/// LayerNorm with <prefix>gain and <prefix>bias, paths as in ParameterLayout.
std::unique_ptr<RowStage> norm_stage(const ModelSpec& spec, const std::string& prefix);
/// W x + b: `matrix` (out x in) and `bias` are paths.
std::unique_ptr<RowStage> dense_stage(const ParameterLayout& layout, const std::string& matrix,
                                      const std::string& bias);
/// The activation, number by number, on rows of `width` numbers. Null for none.
std::unique_ptr<RowStage> activation_stage(HeadActivation activation, int width);

}  // namespace fluxformer
