// The Transformer as a PDE model.

#include "drivers/compare/compare_models.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "analysis/model_probe.hpp"
#include "base/error.hpp"
#include "tests/unit/analysis/probe_case.hpp"

namespace fluxformer::test {
namespace {

/// Logits of the samples 3 and 5.
std::vector<double> logits(const ProbeCase& c, const Parameters& parameters, int cells) {
  ModelProbe probe(on_cells(parameters, cells), c.line, 2, Precision::float64);
  std::vector<double> u;
  probe.embed(c.batch({3, 5}), u);
  return probe.forward(u);
}

TEST(InheritedModels, are_the_transformer_at_one_cell_per_layer_and_close_to_no_step_in_the_limit) {
  const ProbeCase c({.layers = 3, .cells = 3}, 2);
  const auto& transformer = c.probe.parameters();
  const auto exact = logits(c, transformer, 3);
  const auto same = inherit(transformer, 1);
  EXPECT_EQ(same.spec.kind, ModelKind::pde);
  EXPECT_EQ(logits(c, same, 3), exact);  // the same operations
  // Refined, the march converges to the solution of the ODE: first order, so that errors halve.
  const auto distance = [&](const std::vector<double>& a, const std::vector<double>& b) {
    double sum = 0;
    for (std::size_t j = 0; j < a.size(); ++j) sum += (a[j] - b[j]) * (a[j] - b[j]);
    return std::sqrt(sum);
  };
  const auto at = [&](int per_layer) { return logits(c, inherit(transformer, per_layer), 3 * per_layer); };
  const auto coarse = at(32), middle = at(64), fine = at(128);
  EXPECT_NEAR(distance(coarse, middle) / distance(middle, fine), 2, 0.15);  // 2 + O(h), h = 1/32
}

TEST(InheritedModels, are_refused_for_cells_of_unequal_length) {
  auto transformer = probe_parameters({.layers = 2, .cells = 3});
  transformer.spec.set_depth(DepthCells::between(2, {0, 0.5, 1, 2}));
  EXPECT_THROW(inherit(transformer, 1), BadInput);
}

}  // namespace
}  // namespace fluxformer::test
