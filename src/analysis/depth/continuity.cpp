#include "analysis/depth/continuity.hpp"

#include <cmath>
#include <utility>

#include "analysis/state_examples.hpp"
#include "base/statistics.hpp"

namespace fluxformer::depth {
namespace {

using Vector = Eigen::VectorXd;

/// x . y / (|x| |y|); 0 if one of them is 0.
double cosine_of(const Vector& x, const Vector& y) {
  const double sizes = x.norm() * y.norm();
  return sizes > 0 ? x.dot(y) / sizes : 0;
}

/// |y - x| / (|x| + |y|); 0 if both are 0.
double bend_of(const Vector& x, const Vector& y) {
  const double sizes = x.norm() + y.norm();
  return sizes > 0 ? (y - x).norm() / sizes : 0;
}

}  // namespace

Continuity continuity_of(std::span<const std::vector<double>> states, std::span<const double> lengths) {
  const auto state = [&](std::size_t row) {
    return Eigen::Map<const Vector>(states[row].data(), std::ssize(states[row]));
  };
  const std::size_t cells = lengths.size();
  Continuity found;
  double path = 0;
  Vector before;
  for (std::size_t cell = 1; cell <= cells; ++cell) {
    const Vector rate = (state(cell) - state(cell - 1)) / lengths[cell - 1];
    path += rate.norm() * lengths[cell - 1];
    if (cell > 1) {
      found.curvature += bend_of(before, rate);
      found.cosine += cosine_of(before, rate);
    }
    before = rate;
  }
  const double between = cells > 1 ? static_cast<double>(cells - 1) : missing_value;
  found.curvature /= between;
  found.cosine /= between;
  found.straightness = path > 0 ? (state(cells) - state(0)).norm() / path : 1;
  return found;
}

void StateContinuity::show(const Batch& batch) {
  std::vector<double> u, lengths;
  for (int row = 0; row < probe_.cells(); ++row) lengths.push_back(probe_.step(row));
  std::vector<std::vector<std::vector<double>>> states(batch.weight.size());  // [sample][row]
  probe_.embed(batch, u);
  probe_.forward(u, Keep::nothing, [&](int, const double* row) {
    for_each_sample(batch, [&](Index b, Index) {
      const auto of_sample = sample_of(probe_.counted(), row, static_cast<int>(b));
      auto& numbers = states[b].emplace_back(of_sample.size());
      Eigen::Map<RowMatrix>(numbers.data(), of_sample.rows(), of_sample.cols()) = of_sample;
    });
  });
  for_each_sample(batch, [&](Index b, Index) {
    const auto found = continuity_of(states[b], lengths);
    double* const sum = sums_.local();
    sum[0] += batch.weight[b] * found.curvature;
    sum[1] += batch.weight[b] * found.cosine;
    sum[2] += batch.weight[b] * found.straightness;
  });
}

}  // namespace fluxformer::depth
