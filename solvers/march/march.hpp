#pragma once

// The steady state of equation (1) without depth diffusion: c du/ds = F_s(u), integrated through depth by
// PETSc TS.

#include <functional>
#include <memory>
#include <string>

#include "model/depth_march.hpp"
#include "model/depth_model.hpp"

namespace fluxformer {

/// The integrator in s, with one step per depth cell.
struct MarchSettings {
  /// euler: the layer map u_i = G_i(u_{i-1}; h/c), with h = 1 the Transformer's forward pass (steady state of
  /// `shift`). rk: Runge-Kutta on F_s(u)/c. beuler: backward Euler (steady state of `upwind`). bdf2: BDF2
  /// with backward Euler in cell 1 (steady state of `upwind2`). Any other TS type by name (cn, theta, ...).
  std::string method = "euler";
  std::string variant;       ///< variant of rk: 1fe, 2a, 3, 3bs, 4, ...; "" means 4
  double tolerance = 1e-13;  ///< relative tolerance of the Newton solves
};

/// A forward march through a range of cells, which checks that states are finite. For gradients see
/// DepthMarch.
class March {
 public:
  /// Collective over the token line of the model's context. `model` is borrowed. Throws BadInput for
  /// speed <= 0, for methods other than euler with norm post, sphere or residual off (there is no field), for
  /// M not a multiple of S with constant weights, and for norm post or residual off with h != c.
  March(DepthModel& model, const DepthCells& depth, double speed, const MarchSettings& settings)
      : March(model, depth, speed, settings, all_cells(depth)) {}
  /// A march through the cells of `range` only.
  March(DepthModel& model, const DepthCells& depth, double speed, const MarchSettings& settings,
        DepthRange range);
  ~March();
  March(const March&) = delete;
  March& operator=(const March&) = delete;

  /// Marches from the slab in front of the first cell (for cell 1 the inflow). If the first cell is another
  /// one, bdf2 also needs `older`, the slab before that. Collective over the token line. Throws
  /// NumericalFailure (agreed) if a solve fails or the state is not finite.
  void run(const double* start, const RowVisitor& row, const double* older = nullptr);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace fluxformer
