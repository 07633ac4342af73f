#include "analysis/states/state_measures.hpp"

#include <cmath>

#include "analysis/state_examples.hpp"

namespace fluxformer::states {
namespace {

/// After those of SlabSums.
enum Sum : std::size_t { samples = SlabSums::count, correlation, drift, step, per_depth };

/// A sum of squares below this fraction of the whole is round-off, and a quotient by it is not defined.
constexpr double vanishing = 1e-28;

/// 1 - cos(u, first), with uu = |u|^2 and ff = |first|^2.
double drift_of(const SampleView& u, double uu, const SampleView& first, double ff) {
  // |u/|u| - f/|f||^2 / 2, without cancellation for small drifts.
  const bool has_angle = uu != 0 && ff != 0;
  return has_angle ? 0.5 * (u / std::sqrt(uu) - first / std::sqrt(ff)).squaredNorm() : 1;
}

void add_sample(const SampleView& u, const SampleView& v, const SampleView& first, double* s) {
  const double uu = u.squaredNorm(), vv = v.squaredNorm(), ff = first.squaredNorm();
  // Centred first: the mean may be much larger than the variation.
  const RowMatrix x = u.array() - u.mean(), y = v.array() - v.mean();
  const double xx = x.squaredNorm(), yy = y.squaredNorm();
  s[samples] += 1;
  if (!(xx <= vanishing * uu || yy <= vanishing * vv))
    s[correlation] += x.cwiseProduct(y).sum() / std::sqrt(xx * yy);
  s[drift] += drift_of(u, uu, first, ff);
  if (vv != 0) s[step] += std::sqrt((u - v).squaredNorm() / vv);
}

}  // namespace

double drift_of(const SampleView& u, const SampleView& first) {
  return drift_of(u, u.squaredNorm(), first, first.squaredNorm());
}

StateMeter::StateMeter(int depths, const SlabContext& context)
    : Accumulator(static_cast<std::size_t>(depths) * per_depth), context_(context), slab_sums_(context) {
  need_whole_line(*context.line, "measures of hidden states over samples");
}

void StateMeter::add(int depth, const double* u, const double* previous, const double* first) {
  double* const s = local() + static_cast<std::size_t>(depth) * per_depth;
  if (previous == nullptr) previous = u;
  if (first == nullptr) first = u;
  slab_sums_.add(u, previous, nullptr, s);
  for (int b = 0; b < context_.samples; ++b) {
    const auto sample = sample_of(context_, u, b);
    if (sample.rows() > 0)
      add_sample(sample, sample_of(context_, previous, b), sample_of(context_, first, b), s);
  }
}

StateMeasures StateMeter::measures() const {
  StateMeasures m;
  for (std::size_t at = 0; at < size(); at += per_depth) {
    const double* const s = total().data() + at;
    m.norm.push_back(SlabSums::norm(s));
    m.token_variance.push_back(SlabSums::token_variance(s));
    m.dirichlet_energy.push_back(SlabSums::dirichlet_energy(s));
    m.correlation.push_back(s[correlation] / s[samples]);
    m.drift.push_back(s[drift] / s[samples]);
    m.step_change.push_back(s[step] / s[samples]);
    if (at == 0) m.samples = std::lround(s[samples]);
  }
  return m;
}

}  // namespace fluxformer::states
