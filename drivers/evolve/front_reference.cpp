#include "drivers/evolve/front_reference.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/vector_arrays.hpp"
#include "solvers/march/march.hpp"

namespace fluxformer {
namespace {

std::vector<float> marched(const Mesh& mesh, const Equation& equation,
                           const std::vector<double>& inflow_slab) {
  const auto& spec = equation.spec();
  MarchSettings settings;
  settings.method = spec.scheme == DepthScheme::shift    ? "euler"
                    : spec.scheme == DepthScheme::upwind ? "beuler"
                                                         : "bdf2";
  March march(equation.model(), spec.depth, spec.speed, settings);
  std::vector<float> reference;
  reference.reserve(static_cast<std::size_t>(mesh.cells()) * mesh.slab_size());
  march.run(inflow_slab.data(), [&](int cell, const double* slab) {
    if (cell >= mesh.first_cell() && cell < mesh.first_cell() + mesh.cells())
      reference.insert(reference.end(), slab, slab + mesh.slab_size());
  });
  return reference;
}

std::vector<float> evolved(const Mesh& mesh, const Equation& equation, EvolveSettings settings,
                           const std::vector<double>& inflow_slab, const std::function<bool()>& stop) {
  settings.steady_tolerance = 1e-6;
  settings.time = 50 * equation.spec().depth.layers / equation.spec().speed;
  Evolve steady(mesh, equation, settings);
  steady.set_inflow([&](long, double* slab) { std::copy(inflow_slab.begin(), inflow_slab.end(), slab); });
  const auto end = steady.run([&](const Step&) { return !stop(); });
  if (end == EvolveEnd::stopped_by_hook) return {};
  if (end != EvolveEnd::steady)
    throw NumericalFailure("the state is not steady at t = " + std::to_string(steady.clock().time));
  const Reading u(steady.state());
  return {u.values, u.values + static_cast<std::size_t>(mesh.cells()) * mesh.slab_size()};
}

}  // namespace

std::vector<float> front_reference(const Mesh& mesh, const Equation& equation, const EvolveSettings& settings,
                                   const std::vector<double>& inflow_slab,
                                   const std::function<bool()>& stop) {
  const bool marchable = equation.spec().epsilon == 0 && !equation.has_added_terms();
  return marchable ? marched(mesh, equation, inflow_slab)
                   : evolved(mesh, equation, settings, inflow_slab, stop);
}

}  // namespace fluxformer
