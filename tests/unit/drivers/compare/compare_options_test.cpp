// Lists in decks, and the Transformer as a PDE model.

#include "drivers/compare/compare_options.hpp"

#include <gtest/gtest.h>

#include "analysis/model_probe.hpp"
#include "base/error.hpp"
#include "drivers/compare/compare_models.hpp"
#include "tests/unit/analysis/probe_case.hpp"

namespace fluxformer::test {
namespace {

Settings with(const std::string& value) {
  const auto declare = [](Options& options) {
    options.declare({.name = "a.list", .fallback = std::string(), .doc = "a list"});
  };
  return {std::make_shared<const Options>(declare), "", {"a.list=" + value}};
}

TEST(Lists, take_commas_and_blanks) {
  EXPECT_EQ(integer_list(with("3, 1 2"), "a.list", 0), (std::vector<long>{3, 1, 2}));
  EXPECT_EQ(number_list(with("0,1e-2, .5"), "a.list", 0, 1), (std::vector<double>{0, 0.01, 0.5}));
  EXPECT_EQ(word_list(with("on,off"), "a.list", {"off", "on"}), (std::vector<std::string>{"on", "off"}));
  EXPECT_TRUE(integer_list(with(""), "a.list", 0).empty());
}

TEST(Lists, refuse_what_they_cannot_mean) {
  EXPECT_THROW(integer_list(with("1, x"), "a.list", 0), BadInput);
  EXPECT_THROW(integer_list(with("1.5"), "a.list", 0), BadInput);
  EXPECT_THROW(integer_list(with("-1"), "a.list", 0), BadInput);
  EXPECT_THROW(integer_list(with("1, 2, 1"), "a.list", 0), BadInput);
  EXPECT_THROW(number_list(with("1.1"), "a.list", 0, 1), BadInput);
  EXPECT_THROW(number_list(with("0.1nm"), "a.list", 0, 1), BadInput);
  EXPECT_THROW(number_list(with("nan"), "a.list", 0, 1), BadInput);
  EXPECT_THROW(word_list(with("on, of"), "a.list", {"off", "on"}), BadInput);
}

/// Logits of the samples 3 and 5.
std::vector<double> logits(const ProbeCase& c, const Parameters& parameters, int cells) {
  ModelProbe probe(parameters, c.line, 2, cells, Precision::float64);
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

}  // namespace
}  // namespace fluxformer::test
