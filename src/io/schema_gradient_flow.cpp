#include "io/schema_gradient_flow.hpp"

namespace fluxformer {
namespace {

constexpr SchemaEntry entries[] = {
    {"/knot", "knot", "", "parameter set of a model, counted from 1"},
    {"/exponent", "exponent", "", "Lyapunov exponent, counted from 1, the largest first"},
    {"/analysis/gradient_flow@jacobian_samples", "", "",
     "samples at which the Jacobians of layers were taken"},
    {"/analysis/gradient_flow/<model>/loss", "seed", "nat", "mean cross entropy of the samples"},
    {"/analysis/gradient_flow/<model>/gradient_norm", "seed, <model>_depth", "",
     "norm of the gradient of a sample's cross entropy with respect to the state, root mean square over "
     "samples"},
    {"/analysis/gradient_flow/<model>/gradient_ratio", "seed, layer_end", "",
     "gradient_norm there over that at the end of the next layer; 1 at the last"},
    {"/analysis/gradient_flow/<model>/disparity", "seed", "",
     "largest over smallest gradient_norm at the ends of layers"},
    {"/analysis/gradient_flow/<model>/embedding_gradient", "seed", "",
     "norm of the gradient of the mean cross entropy with respect to the embedding"},
    {"/analysis/gradient_flow/<model>/knot_gradient", "seed, knot", "",
     "the same with respect to each parameter set; NaN beyond those of the model"},
    {"/analysis/gradient_flow/<model>/final_norm_gradient", "seed", "",
     "the same with respect to the final LayerNorm"},
    {"/analysis/gradient_flow/<model>/head_gradient", "seed", "", "the same with respect to the classifier"},
    {"/analysis/gradient_flow/<model>/equation_gradient", "seed", "",
     "the same with respect to alpha and rho"},
    {"/analysis/gradient_flow/<model>/largest_singular_value", "seed, layer", "",
     "largest singular value of the Jacobian of a layer, mean over samples; a bound from below"},
    {"/analysis/gradient_flow/<model>/largest_singular_error", "seed, layer", "",
     "within it there is a singular value, in every sample"},
    {"/analysis/gradient_flow/<model>/smallest_singular_value", "seed, layer", "",
     "smallest singular value of the Jacobian of a layer, mean over samples; a bound from above"},
    {"/analysis/gradient_flow/<model>/smallest_singular_error", "seed, layer", "",
     "within it there is a singular value, in every sample"},
    {"/analysis/gradient_flow/<model>/lyapunov", "seed, exponent", "1/layer",
     "leading Lyapunov exponents over all layers, mean over samples"},
    {"/analysis/gradient_flow/<model>/jacobian_seconds", "seed", "s",
     "wall time that singular values and exponents took"},
    {"/analysis/gradient_flow/<model>/epoch_loss", "seed, copied_epoch", "nat",
     "mean cross entropy of the samples, after that epoch"},
    {"/analysis/gradient_flow/<model>/epoch_gradient_norm", "seed, copied_epoch, <model>_depth", "",
     "gradient_norm after that epoch"},
    {"/analysis/gradient_flow/<model>/epoch_gradient_ratio", "seed, copied_epoch, layer_end", "",
     "gradient_ratio after that epoch"},
    {"/analysis/gradient_flow/<model>/epoch_disparity", "seed, copied_epoch", "",
     "disparity after that epoch"},
    {"/analysis/gradient_flow/<model>/epoch_embedding_gradient", "seed, copied_epoch", "",
     "embedding_gradient after that epoch"},
    {"/analysis/gradient_flow/<model>/epoch_knot_gradient", "seed, copied_epoch, knot", "",
     "knot_gradient after that epoch"},
    {"/analysis/gradient_flow/<model>/epoch_final_norm_gradient", "seed, copied_epoch", "",
     "final_norm_gradient after that epoch"},
    {"/analysis/gradient_flow/<model>/epoch_head_gradient", "seed, copied_epoch", "",
     "head_gradient after that epoch"},
    {"/analysis/gradient_flow/<model>/epoch_equation_gradient", "seed, copied_epoch", "",
     "equation_gradient after that epoch"},
};

}  // namespace

std::span<const SchemaEntry> gradient_flow_schema() {
  return entries;
}

}  // namespace fluxformer
