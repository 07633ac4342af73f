#include "analysis/states/depth_measures.hpp"

#include <cmath>

#include "base/error.hpp"
#include "base/mpi.hpp"
#include "base/vector_arrays.hpp"

namespace fluxformer::states {

void ArrivalTimes::update(double time, const std::vector<double>& distance) {
  for (std::size_t i = 0; i < distance.size(); ++i) {
    if (!(distance[i] <= threshold_))
      since_[i] = std::numeric_limits<double>::quiet_NaN();
    else if (std::isnan(since_[i]))
      since_[i] = time;
  }
}

DepthMeter::DepthMeter(const Mesh& mesh, const SlabContext& context, const DepthFlux& flux)
    : mesh_(mesh), context_(context), flux_(flux), sums_(context) {}

DepthResult DepthMeter::measure(Vec u, Vec previous, double dt) {
  const Index cells = mesh_.total_cells();
  std::vector<double> sum(cells * SlabSums::count, 0.0);
  {
    const ReadArray now(u), before(previous);
    for (int cell = 0; cell < mesh_.cells(); ++cell) {
      const Index first = cell * context_.size();
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
    m.norm.push_back(SlabSums::norm(s));
    m.rate.push_back(dt > 0 ? std::sqrt(s[SlabSums::rate_squares] / s[SlabSums::numbers]) / dt : 0.0);
    if (has_reference())
      m.distance.push_back(std::sqrt(s[SlabSums::gap_squares] / s[SlabSums::reference_squares]));
    m.token_variance.push_back(SlabSums::token_variance(s));
    m.dirichlet_energy.push_back(SlabSums::dirichlet_energy(s));
    mean[i] = s[SlabSums::values] / s[SlabSums::numbers];
  }
  for (Index i = 0; i < cells; ++i) {
    // d<u>/ds by a central difference, one-sided at the ends
    const Index low = i > 0 ? i - 1 : 0, high = i + 1 < cells ? i + 1 : i;
    const double slope = high > low ? (mean[high] - mean[low]) / ((high - low) * flux_.spacing) : 0.0;
    m.flux.push_back(flux_.speed * mean[i] - flux_.epsilon * slope);
  }
  return m;
}

}  // namespace fluxformer::states
