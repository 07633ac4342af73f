#include "model/depth_march.hpp"

#include "base/error.hpp"
#include "model/depth_weights.hpp"

namespace fluxformer {

ParameterShare share_of(const ModelSpec& spec, DepthCells depth, DepthRange range) {
  // Schemes read the weights at the entries or at the exits of cells: from s = (i - 1) h at the entry of the
  // first cell i to s = j h at the exit of the last cell j.
  return {.first_knot = knots_at(spec, cell_entry(range.first, depth.layers, depth.cells)).lower,
          .last_knot = knots_at(spec, cell_exit(range.last, depth.layers, depth.cells)).upper,
          .embedding = range.first == 1,
          .head = range.last == depth.cells};
}

void require_marchable(const ModelSpec& spec, DepthCells depth, double speed) {
  if (!(speed > 0)) throw BadInput("equation.c must be > 0 to march through depth");
  const auto cells = "mesh.cells = " + std::to_string(depth.cells);
  const auto layers = "mesh.layers = " + std::to_string(depth.layers);
  if (spec.variation == DepthVariation::constant && depth.cells % depth.layers != 0)
    throw BadInput(cells + ": must be a multiple of " + layers + " when every layer has weights of its own");
  // These models are defined for h/c = 1 only (docs/model.md, section 2).
  const bool step_is_one = depth.spacing() / speed == 1;
  if ((spec.norm == Norm::post || !spec.residual) && !step_is_one)
    throw BadInput(cells + ": depth.norm = post and depth.residual = false need one cell per layer (" +
                   layers + ") and equation.c = 1");
}

}  // namespace fluxformer
