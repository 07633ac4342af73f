#include "analysis/states/depth_measures.hpp"

#include <cmath>

#include "base/error.hpp"
#include "base/mpi.hpp"
#include "base/vector_arrays.hpp"

namespace fluxformer::states {

void ArrivalTimes::update(double time, const std::vector<double>& distance) {
  // A distance above the threshold, or an undefined one, takes an earlier arrival back.
  for (std::size_t i = 0; i < distance.size(); ++i) {
    if (!(distance[i] <= threshold_))
      since_[i] = std::numeric_limits<double>::quiet_NaN();
    else if (std::isnan(since_[i]))
      since_[i] = time;
  }
}

DepthMeasurement::DepthMeasurement(const Mesh& mesh, const SlabContext& context, const DepthFlux& flux)
    : mesh_(mesh), context_(context), flux_(flux), sums_(context) {}

DepthResult DepthMeasurement::measure(Vec u, Vec previous, double dt) {
  const Index cells = mesh_.total_cells();
  std::vector<double> sum(cells * SlabSums::count, 0.0);
  {
    const ReadArray now(u), before(previous);
    for (int cell = 0; cell < mesh_.cells(); ++cell) {
      const Index first = cell * context_.size();
      // Cells count from 1. A rank adds its tokens to the rows of its cells; its other rows stay 0.
      double* const s = sum.data() + (mesh_.first_cell() + cell - 1) * SlabSums::count;
      sums_.add(now.values + first, before.values + first,
                reference_.empty() ? nullptr : reference_.data() + first, s);
    }
  }
  sum_over_ranks(sum, mesh_.comm());

  DepthResult m;
  std::vector<double> mean(cells);
  for (Index i = 0; i < cells; ++i) {
    const double* const s = sum.data() + i * SlabSums::count;
    // With N numbers: norm = (sum u^2 / N)^(1/2),  rate = (sum (u - previous)^2 / N)^(1/2) / dt,
    // distance = (sum (u - u*)^2 / sum u*^2)^(1/2)
    m.norm.push_back(SlabSums::norm(s));
    m.rate.push_back(dt > 0 ? std::sqrt(s[SlabSums::rate_squares] / s[SlabSums::numbers]) / dt : 0.0);
    if (has_reference())
      m.distance.push_back(std::sqrt(s[SlabSums::gap_squares] / s[SlabSums::reference_squares]));
    m.token_variance.push_back(SlabSums::token_variance(s));
    m.dirichlet_energy.push_back(SlabSums::dirichlet_energy(s));
    mean[i] = s[SlabSums::values] / s[SlabSums::numbers];
  }
  for (Index i = 0; i < cells; ++i) {
    // c <u> - epsilon d<u>/ds, the derivative by a central difference that is one-sided at the ends
    const Index low = i > 0 ? i - 1 : 0, high = i + 1 < cells ? i + 1 : i;
    const double slope = high > low ? (mean[high] - mean[low]) / ((high - low) * flux_.spacing) : 0.0;
    m.flux.push_back(flux_.speed * mean[i] - flux_.epsilon * slope);
  }
  return m;
}

}  // namespace fluxformer::states
