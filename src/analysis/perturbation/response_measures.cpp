#include "analysis/perturbation/response_measures.hpp"

#include <cmath>
#include <cstddef>

#include "model/loss.hpp"

namespace fluxformer::perturbation {
namespace {

enum Sum : std::size_t { samples, correct, loss, not_finite, change, sensitivity, insensible, per_level };

using Logits = Eigen::Map<const Eigen::VectorXd>;

}  // namespace

ResponseMeter::ResponseMeter(int levels, int classes, std::size_t samples)
    : classes_(classes),
      sums_(static_cast<std::size_t>(levels) * per_level),
      each_(samples, static_cast<std::size_t>(levels)) {}

void ResponseMeter::add(int level, const ModelInput& input, std::span<const long> places,
                        const std::vector<double>& u, const double* logits, const double* clean_logits) {
  const auto at = static_cast<std::size_t>(level);
  double* const s = sums_.local() + at * per_level;
  const auto& batch = input.batch();
  for (int b = 0; b < input.samples(); ++b) {
    const auto clean = input.slab_block(input.clean_embedded(), b);
    if (clean.rows() == 0) continue;
    const int label = batch.label[b];
    const Logits z(clean_logits + static_cast<std::ptrdiff_t>(b) * classes_, classes_);
    const Logits moved(logits + static_cast<std::ptrdiff_t>(b) * classes_, classes_);
    const double dx = (input.slab_block(u, b) - clean).norm() / clean.norm();
    const double dz = (moved - z).norm() / z.norm();
    s[samples] += 1;
    s[change] += dx;
    if (moved.allFinite()) {
      const double right = most_likely(moved.data(), classes_) == label ? 1 : 0;
      s[correct] += right;
      each_.row(static_cast<std::size_t>(places[b]))[at] = right;
      s[loss] += loss_of({}, moved.data(), classes_, label, 0.0, nullptr);
    } else {
      s[not_finite] += 1;
    }
    if (std::isfinite(dz / dx))
      s[sensitivity] += dz / dx;
    else
      s[insensible] += 1;
  }
}

void ResponseMeter::reduce(MPI_Comm comm) {
  sums_.reduce(comm);
  each_.reduce(comm);
}

ResponseMeasures ResponseMeter::measures() const {
  ResponseMeasures m;
  for (std::size_t at = 0; at < sums_.size(); at += per_level) {
    const double* const s = sums_.total().data() + at;
    m.accuracy.push_back(s[correct] / s[samples]);
    m.loss.push_back(s[loss] / (s[samples] - s[not_finite]));
    m.input_change.push_back(s[change] / s[samples]);
    m.sensitivity.push_back(s[sensitivity] / (s[samples] - s[insensible]));
    m.not_finite.push_back(std::lround(s[not_finite]));
    if (at == 0) m.samples = std::lround(s[samples]);
  }
  return m;
}

}  // namespace fluxformer::perturbation
