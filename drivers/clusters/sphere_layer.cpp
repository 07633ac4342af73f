#include "drivers/clusters/sphere_layer.hpp"

#include <cmath>

#include "model/initialise.hpp"

namespace fluxformer {
namespace {

ModelSpec sphere_layer_spec(int width, bool residual) {
  ModelSpec spec;
  spec.width = width;
  spec.norm = Norm::sphere;
  spec.attention.layer_norm = false;
  spec.residual = residual;
  spec.order = SubLayerOrder::parallel;  // one step for attention and the reaction, which is 0
  return spec;
}

}  // namespace

SphereLayer::SphereLayer(const clusters::Tokens& tokens, double beta, double value, bool residual)
    : line_(TokenLine::even(MPI_COMM_SELF, static_cast<int>(tokens.count()), 1)),
      context_{.line = &line_, .width = tokens.dimension},
      parameters_(sphere_layer_spec(tokens.dimension, residual)) {
  // Logits are divided by the root of the width.
  initialise_scaled_identity(parameters_, std::sqrt(beta * std::sqrt(tokens.dimension)), value);
  model_ = make_depth_model(parameters_, context_, Precision::float64);
}

std::vector<double> SphereLayer::velocity_along(const std::vector<double>& x,
                                                const std::vector<double>& displacement) {
  std::vector<double> out(x.size(), 0.0);
  model_->push_field(all_field_terms, {}, 1, {x.data(), displacement.data()}, out.data());
  return out;
}

std::vector<double> SphereLayer::layer(const std::vector<double>& x, double step) {
  std::vector<double> out(x.size(), 0.0);
  model_->map({}, step, x.data(), out.data(), nullptr);
  return out;
}

std::vector<double> SphereLayer::layer_along(const std::vector<double>& x,
                                             const std::vector<double>& displacement) {
  std::vector<double> out(x.size(), 0.0);
  model_->push({}, 1, {x.data(), displacement.data()}, {}, out.data(), nullptr);
  return out;
}

}  // namespace fluxformer
