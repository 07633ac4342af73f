#pragma once

// Row stages one after the other, and what they keep of one set of rows for derivatives.

#include <memory>
#include <span>
#include <vector>

#include "model/rows/row_stage.hpp"

namespace fluxformer {

/// Kept by RowStack: of each stage its input, its tangent, and the adjoint of its output.
struct RowTape {
  /// Of one stage.
  struct Stage {
    std::vector<double> x, x_dot, y_bar;
  };
  int rows = 0;
  std::vector<Stage> stages = {};
};

/// A composition of stages; none: the identity. Calls for one tape come in the order forward, adjoint, then for each
/// direction tangent and adjoint_tangent; `pull` at any time after forward. Conventions as in row_stage.hpp.
class RowStack {
 public:
  /// `parameters` is borrowed; null stages are left out. `width`: numbers of a row of x.
  RowStack(const Parameters& parameters, int width) : parameters_(parameters), in_(width), out_(width) {}
  void add(std::unique_ptr<RowStage> stage);
  /// The dense map in front of a head, if there is one; `group` is that of its arrays.
  void add(const HeadTransform& transform, const std::string& group);

  bool empty() const { return stages_.empty(); }
  int out() const { return out_; }

  /// y := the composition at x; its inputs are kept.
  void forward(int rows, const double* x, double* y, RowTape& tape) const;
  /// Keeps the adjoints on the tape.
  void adjoint(const double* y_bar, double* x_bar, std::span<double> gradient, RowTape& tape) const;
  /// The adjoint of another vector, which keeps nothing: for products with the Gauss-Newton matrix.
  void pull(const double* y_bar, double* x_bar, std::span<double> gradient, const RowTape& tape) const;
  void tangent(const Parameters& direction, const double* x_dot, double* y_dot, RowTape& tape) const;
  void adjoint_tangent(const Parameters& direction, const double* y_bar_dot, double* x_bar_dot,
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
