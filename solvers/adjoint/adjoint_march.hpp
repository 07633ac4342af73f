#pragma once

// The march through depth by PETSc TS and its adjoint by TSAdjoint: the gradient of the discrete march, exact
// to round-off, for every method below. With `1fe` and h = c it is back-propagation. Sources: Zhang and Zhao,
// arXiv 2206.01298; discrete adjoints in PETSc: arXiv 1912.07696.

#include <memory>
#include <string>

#include "model/depth_march.hpp"

namespace fluxformer {

/// The keys adjoint.* of a deck.
struct AdjointSettings {
  static constexpr const char* layer_map_name = "1fe";
  /// 1fe: the layer map u_i = G_i(u_{i-1}; h/c), the Transformer's forward pass at h = c.
  /// 2a, 2b, 3, 3bs, 4, 5f, 5dp, 5bs, 6vr, 7vr, 8vr: that Runge-Kutta method of PETSc on F_s(u)/c.
  /// beuler, cn, theta: implicit methods on F_s(u)/c.
  std::string method = layer_map_name;
  bool layer_map() const { return method == layer_map_name; }
  double theta = 0.5;  ///< stage of the method `theta` as a fraction of the step, in (0, 1]
  /// Keep the activations of every Runge-Kutta stage, so that the way back evaluates nothing again. Needs
  /// every = 0 and a method whose steps do not share stages (no 3bs, 5dp, 5bs, 6vr). 1fe always keeps them.
  bool tapes = false;
  /// Checkpointing. 0: all stages of all steps stay in memory. k > 0: only every k-th state does, and the
  /// backward march recomputes k steps at a time: about one more forward march, memory O(M/k) states + O(k)
  /// steps.
  int every = 0;
  bool on_disk = false;     ///< checkpoints in a temporary file of each rank; needs every > 0
  std::string folder = "";  ///< folder of that file; "": the system's folder for temporary files
  /// Relative tolerances of Newton's method and of all linear solves. The error of the linear solves is an
  /// error of the gradient. Kernels in single precision cannot reach these defaults.
  double newton_tolerance = 1e-13;
  double linear_tolerance = 1e-12;
  /// Sets them to what kernels of this precision can reach.
  void tolerate_round_off_of(Precision precision) {
    if (precision == Precision::float32) newton_tolerance = linear_tolerance = 1e-5;
  }
};

/// The order of convergence of a method in the length of its steps, where weights are smooth in depth. Throws
/// BadInput for unknown methods.
int order_of(const AdjointSettings& settings);

/// True if each step of a method solves a system.
bool is_implicit(const AdjointSettings& settings);

/// The DepthMarch by TS and TSAdjoint, one step per depth cell. Memory: every stage of every step, or less
/// with AdjointSettings::every.
class AdjointMarch final : public DepthMarch {
 public:
  /// Collective over the token line of the model's context. `model` is borrowed. Throws BadInput for unknown
  /// methods and values out of range, as require_marchable does, and for methods other than 1fe with norm
  /// post, sphere or residual off (there is no field). PETSc options of the implicit methods have the prefix
  /// march_ (march_snes_..., march_ksp_...).
  AdjointMarch(DepthModel& model, const DepthCells& depth, double speed, const AdjointSettings& settings)
      : AdjointMarch(model, depth, speed, settings, all_cells(depth)) {}
  /// A march through the cells of `range` only.
  AdjointMarch(DepthModel& model, const DepthCells& depth, double speed, const AdjointSettings& settings,
               DepthRange range);
  ~AdjointMarch() override;
  AdjointMarch(const AdjointMarch&) = delete;
  AdjointMarch& operator=(const AdjointMarch&) = delete;

  DepthModel& model() const override;
  const DepthCells& depth() const override;
  DepthRange range() const override;
  /// Throws std::logic_error for Keep::second_derivatives, too.
  void forward(double* u, Keep keep, const RowVisitor& row) override;
  /// Throws NumericalFailure if a transposed linear solve does not converge.
  void backward(double* u_bar, std::span<double> gradient, const RowAdjoint& row) override;
  std::size_t kept_bytes() const override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace fluxformer
