#pragma once

// Maps that act on every row by itself, around the layers of a model: a norm, a dense map, an activation.
// Each is y = S(x; theta), linearised in x and theta; heads and embeddings are stacks of them.
//
// Rows are contiguous. Results are overwritten and overlap no input. Gradients are flat vectors, += ; an
// empty one is left out. Nothing here is collective.

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "model/parameters.hpp"

namespace fluxformer {

/// The point, and the direction, of the derivatives of a stage.
struct RowPoint {
  const double* x;      ///< input of the stage
  const double* x_dot;  ///< tangent of x along the direction; read by tangents and their adjoints
};

/// One map of rows. It reads the parameters that a call passes, so that it serves all parameters of one
/// layout.
class RowStage {
 public:
  virtual ~RowStage() = default;
  /// Number of entries of a row of x (in) and of y (out).
  virtual int in() const = 0;
  virtual int out() const = 0;
  /// y := S(x)
  virtual void forward(const Parameters& p, int rows, const double* x, double* y) const = 0;
  /// x_bar := (dS/dx)^T y_bar, gradient += (dS/dtheta)^T y_bar
  virtual void adjoint(const Parameters& p, int rows, const double* x, const double* y_bar, double* x_bar,
                       std::span<double> gradient) const = 0;
  /// y_dot := (dS/dx) x_dot + (dS/dtheta) direction
  virtual void tangent(const Parameters& p, const ParameterVector& direction, int rows, RowPoint at,
                       double* y_dot) const = 0;
  /// The derivative of `adjoint` along x_dot, `direction` and y_bar_dot.
  virtual void adjoint_tangent(const Parameters& p, const ParameterVector& direction, int rows, RowPoint at,
                               const double* y_bar, const double* y_bar_dot, double* x_bar_dot,
                               std::span<double> gradient_dot) const = 0;
};

/// The norm of the model with <prefix>gain and <prefix>bias, paths as in ParameterLayout.
std::unique_ptr<RowStage> norm_stage(const ModelSpec& spec, const std::string& prefix);
/// The dense map W x + b; `matrix` (out x in) and `bias` are paths. Without an array `bias` W x alone.
std::unique_ptr<RowStage> dense_stage(const ParameterLayout& layout, const std::string& matrix,
                                      const std::string& bias);

/// The tape of a RowStack for one set of rows.
struct RowTape {
  /// Input of a stage, its tangent, and the adjoint of the output.
  struct Stage {
    std::vector<double> x, x_dot, y_bar;
  };
  int rows = 0;
  std::vector<Stage> stages = {};
};

/// A composition of stages; without stages the identity. Calls for one tape come in the order forward,
/// adjoint, then for each direction tangent and adjoint_tangent; `pull` at any time after forward.
/// Conventions as for RowStage.
class RowStack {
 public:
  /// `parameters` is borrowed; `width` is the number of entries of a row of x.
  RowStack(const Parameters& parameters, int width) : parameters_(parameters), in_(width), out_(width) {}
  /// Appends a stage.
  void add(std::unique_ptr<RowStage> stage);
  /// Appends the dense map in front of a head, if there is one; `group` is the group of its arrays.
  void add(const HeadTransform& transform, const std::string& group);

  bool empty() const { return stages_.empty(); }

  /// y := the composition at x; keeps the input of every stage on the tape.
  void forward(int rows, const double* x, double* y, RowTape& tape) const;
  /// x_bar := (dy/dx)^T y_bar, gradient += (dy/dtheta)^T y_bar; keeps the adjoints on the tape.
  void adjoint(const double* y_bar, double* x_bar, std::span<double> gradient, RowTape& tape) const;
  /// `adjoint` of any other vector, which keeps nothing: for products with the Gauss-Newton matrix.
  void pull(const double* y_bar, double* x_bar, std::span<double> gradient, const RowTape& tape) const;
  /// y_dot := the derivative of y along x_dot and `direction`; keeps the tangents on the tape.
  void tangent(const ParameterVector& direction, const double* x_dot, double* y_dot, RowTape& tape) const;
  /// The derivative of `adjoint` along x_dot, `direction` and y_bar_dot.
  void adjoint_tangent(const ParameterVector& direction, const double* y_bar_dot, double* x_bar_dot,
                       std::span<double> gradient_dot, const RowTape& tape) const;

 private:
  /// Calls visit(k, from, to) for the stages from the last to the first: `to` is the next `from`.
  template <class Visit>
  void backward(int rows, const double* y_bar, double* x_bar, Visit&& visit) const;
  const Parameters& parameters_;
  int in_, out_;
  std::vector<std::unique_ptr<RowStage>> stages_;
};

}  // namespace fluxformer
