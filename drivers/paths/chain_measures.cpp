#include "drivers/paths/chain_measures.hpp"

#include <algorithm>

#include "analysis/paths/path_kernels.hpp"
#include "analysis/paths/path_variables.hpp"
#include "analysis/paths/posterior_chain.hpp"
#include "base/statistics.hpp"

namespace fluxformer {

namespace stored = paths::variables;
using namespace paths;

namespace {

void append(std::vector<double>& to, const auto& values) {
  to.insert(to.end(), values.begin(), values.end());
}

}  // namespace

ChainMeasures chain_measures(const std::vector<PosteriorChain>& chains, const PathExamples& test,
                             const TheoryPoints::PointResult& theory, const TheoryPoints::PointResult& limit,
                             double width) {
  const auto all = sampled_posterior(chains, test.inputs);
  const auto error = theory_error(all, theory.u, theory.mean, width);
  const double right = accuracy(all.mean, test.targets);
  std::vector<double> traces, acceptance, step, divergent, virials(chains.front().virials.size());
  for (const auto& chain : chains) {
    for (const auto& trace : chain.traces) append(traces, trace);
    acceptance.push_back(chain.acceptance);
    step.push_back(chain.step);
    divergent.push_back(chain.divergent);
    for (std::size_t k = 0; k < virials.size(); ++k)
      // Mean over chains.
      virials[k] += chain.virials[k] / static_cast<double>(chains.size());
  }
  return {{stored::accuracy, {right}},
          {stored::accuracy_gain, {right - theory.accuracy}},
          {stored::readout, {all.order.readout}},
          {stored::order_error, {all.order_error}},
          {stored::order_difference, {error.order}},
          {stored::order_excess, {error.excess}},
          {stored::mean_error, {all.mean_error}},
          {stored::mean_difference, {error.mean}},
          {stored::mean_correlation, {error.correlation}},
          {stored::limit_difference, {(all.mean - limit.mean).cwiseAbs().mean()}},
          {stored::order, padded_orders(all.order)},
          {stored::mean, {all.mean.begin(), all.mean.end()}},
          {stored::trace, std::move(traces)},
          {stored::r_hat, {all.r_hat.begin(), all.r_hat.end()}},
          {stored::effective_draws, {all.effective_draws.begin(), all.effective_draws.end()}},
          {stored::acceptance, std::move(acceptance)},
          {stored::step_size, std::move(step)},
          {stored::divergent, std::move(divergent)},
          {stored::block_virial, std::move(virials)}};
}

ChainMeasures in_a_row(const std::vector<ChainMeasures>& places) {
  const auto some = std::ranges::find_if(places, [](const auto& place) { return !place.empty(); });
  ChainMeasures row = *some;
  for (std::size_t k = 0; k < row.size(); ++k) {
    const std::vector<double> none((*some)[k].second.size(), missing_value);
    row[k].second.clear();
    for (const auto& place : places) append(row[k].second, place.empty() ? none : place[k].second);
  }
  return row;
}

std::vector<io::Variable> chain_variables() {
  return {stored::accuracy,
          stored::accuracy_gain,
          stored::readout,
          stored::order_error,
          stored::order_difference,
          stored::order_excess,
          stored::mean_error,
          stored::mean_difference,
          stored::mean_correlation,
          stored::limit_difference,
          stored::order,
          stored::mean,
          stored::trace,
          stored::r_hat,
          stored::effective_draws,
          stored::acceptance,
          stored::step_size,
          stored::divergent,
          stored::block_virial};
}

std::vector<io::Variable> chain_coordinates() {
  return {stored::chain, stored::quantity, stored::draw, stored::block};
}

}  // namespace fluxformer
