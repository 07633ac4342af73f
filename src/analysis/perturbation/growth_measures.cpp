#include "analysis/perturbation/growth_measures.hpp"

#include <cmath>
#include <cstddef>

#include "analysis/state_examples.hpp"

namespace fluxformer::perturbation {

GrowthMeter::GrowthMeter(int depths, const SlabContext& context)
    : Accumulator(static_cast<std::size_t>(depths) + 1), context_(context) {
  need_whole_line(*context.line, "growth of perturbations");
}

void GrowthMeter::add(int depth, const double* du) {
  double* const sums = local();
  if (depth == 0) start_.assign(static_cast<std::size_t>(context_.samples), 0.0);
  for (int b = 0; b < context_.samples; ++b) {
    const double norm = sample_of(context_, du, b).norm();
    double& start = start_[b];
    if (depth == 0) start = norm;
    if (start == 0) continue;
    if (depth == 0) sums[size() - 1] += 1;
    sums[depth] += norm / start;
  }
}

std::vector<double> GrowthMeter::growth() const {
  std::vector<double> mean(total().begin(), total().end() - 1);
  for (double& value : mean) value /= total().back();
  return mean;
}

long GrowthMeter::samples() const {
  return std::lround(total().back());
}

void add_growth(ModelProbe& probe, const std::vector<double>& u, const std::vector<double>& moved,
                GrowthMeter& meter) {
  std::vector<std::vector<double>> rows;
  auto state = u;
  probe.forward(state, Keep::nothing,
                [&](int, const double* row) { rows.emplace_back(row, row + u.size()); });
  state = moved;
  std::vector<double> du(u.size());
  probe.forward(state, Keep::nothing, [&](int i, const double* row) {
    const auto& from = rows[i];
    for (std::size_t j = 0; j < du.size(); ++j) du[j] = row[j] - from[j];
    meter.add(i, du.data());
  });
}

void add_tangent_growth(ModelProbe& probe, const std::vector<double>& u, const std::vector<double>& v,
                        GrowthMeter& meter) {
  auto state = u, du = v, next = v;
  probe.forward(state, Keep::nothing, [&](int i, const double* row) {
    meter.add(i, du.data());
    if (i == probe.cells()) return;
    probe.tangent(i, row, du.data(), next.data());
    du.swap(next);
  });
}

}  // namespace fluxformer::perturbation
