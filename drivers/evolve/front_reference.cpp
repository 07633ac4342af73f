#include "drivers/evolve/front_reference.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/mpi.hpp"
#include "base/vector_arrays.hpp"
#include "solvers/march/march.hpp"

namespace fluxformer {
namespace {

constexpr int state_tag = 1;

/// Marches to u* through depth, one rank after another: each marches through its own cells after the ranks
/// before it, which pass on their last two slabs.
std::vector<float> marched(const Mesh& mesh, const Equation& equation,
                           const std::vector<double>& inflow_slab) {
  const auto& spec = equation.spec();
  MarchSettings settings;
  // A steady march solves du/ds = F(u)/c: the upwind differences are backward Euler and BDF2 in depth.
  settings.method = spec.scheme == DepthScheme::shift    ? "euler"
                    : spec.scheme == DepthScheme::upwind ? "beuler"
                                                         : "bdf2";
  const DepthRange cells{mesh.first_cell(), mesh.first_cell() + mesh.cells() - 1};
  March march(equation.model(), spec.depth, spec.speed, settings, cells);
  const int rank = mpi::rank(mesh.depth_line()), ranks = mpi::size(mesh.depth_line());
  const std::size_t size = mesh.slab_size();
  // Message from the ranks before: a flag that all went well so far, the slab in front of these cells, and
  // the one before that.
  std::vector<double> from(1 + 2 * size, 0.0);
  from[0] = 1;
  std::copy(inflow_slab.begin(), inflow_slab.end(), from.begin() + 1);
  std::vector<float> reference;
  RankFailure failure;
  if (rank != 0) receive_numbers(from, rank - 1, state_tag, mesh.depth_line());
  const auto march_on = [&] {
    const std::vector<double> start = from;
    reference.reserve(static_cast<std::size_t>(mesh.cells()) * size);
    march.run(
        start.data() + 1,
        [&](int, const double* slab) {
          reference.insert(reference.end(), slab, slab + size);
          // Keeps the last two slabs for the next rank.
          std::copy_n(from.begin() + 1, size, from.begin() + 1 + static_cast<std::ptrdiff_t>(size));
          std::copy_n(slab, size, from.begin() + 1);
        },
        start.data() + 1 + size);
  };
  if (from[0] != 0 && !failure.attempt(march_on)) from[0] = 0;
  // Passed on also after a failure, so that no rank waits in vain.
  if (rank + 1 < ranks) send_numbers(from, rank + 1, state_tag, mesh.depth_line());
  failure.share(mesh.comm());
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
  const ReadArray u(steady.state());
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
