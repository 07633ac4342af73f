#include "analysis/states/state_spectrum.hpp"

#include <algorithm>
#include <cmath>

#include "analysis/dense_matrices.hpp"
#include "analysis/state_examples.hpp"

namespace fluxformer::states {
namespace {

/// Sums of one depth.
namespace spectrum_sum {
enum : Index { samples, rank, values };
}

}  // namespace

double effective_rank_of(const Eigen::VectorXd& sigma) {
  const double sum = sigma.sum();
  double entropy = 0;
  for (const double s : sigma)
    // p ln p tends to 0 with p.
    if (s != 0) entropy -= s / sum * std::log(s / sum);
  return sum == 0 ? 0 : std::exp(entropy);
}

SpectrumAccumulator::SpectrumAccumulator(int depths, int modes, const SlabContext& context)
    : context_(context), modes_(modes) {
  need_whole_line(*context.line, "spectra of hidden states");
  set_size(depths * (spectrum_sum::values + modes_));
}

void SpectrumAccumulator::add(int depth, const double* u) {
  using namespace spectrum_sum;
  double* const s = local() + depth * (values + modes_);
  for (int b = 0; b < context_.samples; ++b) {
    const auto sample = sample_of(context_, u, b);
    if (sample.rows() == 0) continue;
    // |U|_F = (sum_k sigma_k^2)^(1/2), so that the squares of sigma_k / |U|_F sum to 1.
    const auto sigma = singular_values_of(sample);
    s[samples] += 1;
    s[rank] += effective_rank_of(sigma);
    if (const double norm = sigma.norm(); norm != 0)
      for (Index k = 0; k < std::min(modes_, sigma.size()); ++k) s[values + k] += sigma[k] / norm;
  }
}

std::vector<double> SpectrumAccumulator::means(Index first, Index count) const {
  using namespace spectrum_sum;
  std::vector<double> list;
  // Sum k of each depth over its number of samples
  for (Index at = 0; at < size(); at += values + modes_)
    for (Index k = first; k < first + count; ++k) list.push_back(total()[at + k] / total()[at + samples]);
  return list;
}

std::vector<double> SpectrumAccumulator::singular_values() const {
  return means(spectrum_sum::values, modes_);
}

std::vector<double> SpectrumAccumulator::effective_rank() const {
  return means(spectrum_sum::rank, 1);
}

SpectrumAccumulator measure_spectrum(const SampleSet& samples, ModelProbe& probe, int modes) {
  SpectrumAccumulator meter(probe.depths(), modes, probe.counted());
  std::vector<double> u;
  const auto look = [&](const Batch& batch) {
    probe.embed(batch, u);
    probe.forward(u, Keep::nothing, [&](int row, const double* state) { meter.add(row, state); });
  };
  accumulate(samples, look, meter);
  return meter;
}

}  // namespace fluxformer::states
