#include "analysis/derivatives/layer_jacobians.hpp"

#include <algorithm>

#include "analysis/accumulator.hpp"
#include "analysis/derivatives/jacobian_spectra.hpp"
#include "base/index.hpp"

namespace fluxformer::derivatives {

ProbeJacobian::ProbeJacobian(ModelProbe& probe) : probe_(probe), states_(probe.depths()) {}

void ProbeJacobian::keep(int row, const double* u) {
  states_[row].assign(u, u + probe_.counted().size());
}

// v -> DG_{to-1} ... DG_from v, where DG_i is the derivative of the cell after row i
SlabMap ProbeJacobian::derivative(int from, int to) {
  return [this, from, to](const double* v, double* out) {
    next_.assign(v, v + probe_.counted().size());
    for (int row = from; row < to; ++row) {
      probe_.tangent(row, states_[row].data(), next_.data(), out);
      std::copy_n(out, next_.size(), next_.begin());
    }
    std::copy(next_.begin(), next_.end(), out);
  };
}

// w -> DG_from^T ... DG_{to-1}^T w
SlabMap ProbeJacobian::transposed(int from, int to) {
  return [this, from, to](const double* w, double* out) {
    next_.assign(w, w + probe_.counted().size());
    for (int row = to - 1; row >= from; --row) {
      probe_.transposed(row, states_[row].data(), next_.data(), out);
      std::copy_n(out, next_.size(), next_.begin());
    }
    std::copy(next_.begin(), next_.end(), out);
  };
}

namespace {

/// Columns of the table of a layer.
enum Column : Index { largest, largest_error, smallest, smallest_error, per_layer };

}  // namespace

LayerJacobians layer_jacobians(const SampleSet& samples, const Parameters& parameters,
                               const JacobianPlan& plan) {
  ModelProbe probe(parameters, samples.line(), samples.capacity(), plan.precision);
  ProbeJacobian jacobian(probe);
  const int layers = probe.spec().layers, cells = probe.cells();
  const auto layer_rows = probe.layer_rows();
  const Index exponents = plan.exponents;
  const RandomStream stretched(plan.seed, "singular vectors"), followed(plan.seed, "tangent vectors");
  const Index values = layers * per_layer;  // number of columns before those of the exponents
  SampleTable table(samples.size(), values + exponents);
  SampleTable swept(samples.size(), exponents + 1);  // last changes of the exponents, number of sweeps

  std::vector<double> u;
  const auto look = [&](const Batch& batch) {
    probe.embed(batch, u);
    probe.forward(u, Keep::nothing, [&](int row, const double* state) { jacobian.keep(row, state); });
    std::vector<long> members(batch.key.size());
    std::ranges::transform(batch.key, members.begin(), [&](long key) { return samples.member(key); });
    for (int l = 0; l < layers; ++l) {
      const int entry = layer_rows[l], exit = layer_rows[l + 1];
      // Extreme singular values of du(l+1)/du(l), the product over the cells of one layer (docs/model.md, 8)
      const auto ranges = singular_ranges(probe.counted(), jacobian.derivative(entry, exit),
                                          jacobian.transposed(entry, exit), plan.steps, stretched, members);
      for_each_sample(batch, [&](Index b, Index place) {
        double* const of_layer = table.row(place) + l * per_layer;
        of_layer[largest] = ranges[b].largest;
        of_layer[largest_error] = ranges[b].largest_error;
        of_layer[smallest] = ranges[b].smallest;
        of_layer[smallest_error] = ranges[b].smallest_error;
      });
    }
    LyapunovDirections directions(probe.counted(), plan.exponents, followed, members);
    // Exponents of the product over all cells, orthonormalised cell by cell: DG_i Q_i = Q_{i+1} R_i
    const auto forwards = [&] {
      for (int row = 0; row < cells; ++row) directions.advance(jacobian.derivative(row, row + 1));
    };
    const auto backwards = [&] {
      for (int row = cells; row-- > 0;) directions.advance(jacobian.transposed(row, row + 1));
    };
    const double length = layers;
    const auto found =
        sweep_exponents(directions, forwards, backwards, {length, plan.sweeps, plan.tolerance});
    for_each_sample(batch, [&](Index b, Index place) {
      std::ranges::copy(found[b].value, table.row(place) + values);
      std::ranges::copy(found[b].change, swept.row(place));
      swept.row(place)[exponents] = found[b].sweeps;
    });
  };
  accumulate(samples, look, table, swept);

  LayerJacobians result;
  // Values are means over samples, errors the largest of any sample.
  for (Index at = 0; at < values; at += per_layer) {
    result.largest.push_back(table.mean(at + largest));
    result.largest_error.push_back(table.largest(at + largest_error));
    result.smallest.push_back(table.mean(at + smallest));
    result.smallest_error.push_back(table.largest(at + smallest_error));
  }
  for (Index j = 0; j < exponents; ++j) {
    result.lyapunov.push_back(table.mean(values + j));
    result.lyapunov_error.push_back(swept.largest(j));
  }
  result.lyapunov_sweeps = swept.largest(exponents);
  return result;
}

}  // namespace fluxformer::derivatives
