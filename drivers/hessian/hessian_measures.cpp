#include "drivers/hessian/hessian_measures.hpp"

#include <algorithm>
#include <cmath>
#include <span>

#include "analysis/hessian/hessian_variables.hpp"
#include "base/index.hpp"
#include "base/statistics.hpp"
#include "solvers/spectra/symmetric_operator.hpp"

namespace fluxformer {

namespace measured = hessian::variables;

namespace {

/// A norm and its standard error from the estimate of its square.
struct Root {
  explicit Root(const Estimate& square)
      : value(std::sqrt(square.mean)), error(value > 0 ? square.standard_error / (2 * value) : 0) {}
  double value, error;
};

/// Nodes and weights of densities, one density after the other; NaN for nodes that do not exist.
struct Nodes {
  void add(std::span<const spectra::Quadrature> probes, int steps) {
    for (const auto& one : probes)
      for (Index l = 0; l < steps; ++l) {
        nodes.push_back(l < std::ssize(one.nodes) ? one.nodes[l] : missing_value);
        weights.push_back(l < std::ssize(one.nodes) ? one.weights[l] : missing_value);
      }
  }
  std::vector<double> nodes, weights;
};

std::vector<double> in_a_row(const std::vector<std::vector<double>>& rows) {
  std::vector<double> all;
  for (const auto& row : rows) all.insert(all.end(), row.begin(), row.end());
  return all;
}

}  // namespace

std::vector<spectra::Block> entries_of(const std::vector<hessian::NamedBlock>& blocks) {
  std::vector<spectra::Block> entries(blocks.size());
  std::ranges::transform(blocks, entries.begin(), &hessian::NamedBlock::entries);
  return entries;
}

void PartResults::add(const io::Variable& variable, const std::vector<double>& values) {
  to_.put(measured::of_part(part_, variable), values);
}

void PartResults::ends(spectra::EigenSolver& solver, Mat h, spectra::EigenRequest request) {
  const auto count = static_cast<std::size_t>(request.largest);
  request.smallest = part_ == "gauss_newton" ? 0 : request.largest;
  const auto found = solver.solve(h, request);
  const auto filled = [count](std::vector<double> list) {
    list.resize(count, missing_value);
    return list;
  };
  add(measured::largest, filled(found.largest.values));
  add(measured::largest_residual, filled(found.largest.residuals));
  if (request.smallest == 0) return;
  add(measured::smallest, filled(found.smallest.values));
  add(measured::smallest_residual, filled(found.smallest.residuals));
}

void PartResults::density(Mat h, const spectra::DensitySettings& settings) {
  Nodes list;
  list.add(spectra::spectral_density(h, settings), settings.steps);
  add(measured::node, list.nodes);
  add(measured::weight, list.weights);
  const auto trace = spectra::hutch_plus_plus(
      h, {.sketch = settings.probes, .probes = settings.probes, .seed = settings.seed});
  add(measured::trace, {trace.trace()});
  add(measured::trace_error, {trace.rest.standard_error});
  const Root norm(
      spectra::hutchinson(h, {}, {.probes = settings.probes, .seed = settings.seed}).frobenius_squared);
  add(measured::frobenius, {norm.value});
  add(measured::frobenius_error, {norm.error});
}

void PartResults::blocks(Mat h, const std::vector<hessian::NamedBlock>& blocks,
                         const spectra::ProbeSettings& settings) {
  const auto found = spectra::block_norms(h, entries_of(blocks), settings);
  std::vector<double> norms, norm_errors, traces, trace_errors;
  for (const auto& row : found.frobenius_squared)
    for (const auto& square : row) {
      const Root norm(square);
      norms.push_back(norm.value);
      norm_errors.push_back(norm.error);
    }
  for (const auto& one : found.traces) {
    traces.push_back(one.mean);
    trace_errors.push_back(one.standard_error);
  }
  add(measured::block_norm, norms);
  add(measured::block_norm_error, norm_errors);
  add(measured::block_trace, traces);
  add(measured::block_trace_error, trace_errors);
}

void PartResults::block_densities(Mat h, const std::vector<hessian::NamedBlock>& blocks,
                                  const spectra::DensitySettings& settings,
                                  const hessian::SpectralComparison& comparison) {
  const auto found = hessian::block_spectra(h, entries_of(blocks), settings, comparison);
  Nodes list;
  for (const auto& density : found.densities) list.add(density, settings.steps);
  add(measured::block_node, list.nodes);
  add(measured::block_weight, list.weights);
  add(measured::block_rms, found.rms);
  add(measured::block_distance, in_a_row(found.apart.distances));
  add(measured::block_floor, found.apart.floors);
  add(measured::heterogeneity, {found.apart.heterogeneity()});
}

void PartResults::block_ends(spectra::EigenSolver& solver, Mat h,
                             const std::vector<hessian::NamedBlock>& blocks, spectra::EigenRequest request) {
  request.largest = 1;
  request.smallest = part_ == "gauss_newton" ? 0 : 1;
  std::vector<double> values;
  for (const auto& block : entries_of(blocks)) {
    const auto found = solver.solve(spectra::restricted(h, block), request);
    double value = found.largest.complete() ? found.largest.values.front() : missing_value;
    if (request.smallest > 0) {
      if (!found.smallest.complete())
        value = missing_value;
      else if (std::abs(found.smallest.values.front()) > std::abs(value))
        value = found.smallest.values.front();
    }
    values.push_back(value);
  }
  add(measured::block_largest, values);
}

void PartResults::exact(const hessian::GramSpectra& found) {
  add(measured::exact_eigenvalue, found.eigenvalues);
  add(measured::exact_trace, {found.trace});
  add(measured::exact_norm, {found.frobenius});
  if (found.block_traces.empty()) return;
  add(measured::exact_block_trace, found.block_traces);
  add(measured::exact_block_largest, found.block_largest);
  add(measured::exact_block_norm, in_a_row(found.block_norms));
  add(measured::exact_block_distance, in_a_row(found.apart.distances));
  add(measured::exact_heterogeneity, {found.apart.heterogeneity()});
}

}  // namespace fluxformer
