// Lines read token by token against the whole line at once.

#include "model/line_reader.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "analysis/model_probe.hpp"
#include "tests/support/reached.hpp"
#include "tests/support/small_problem.hpp"
#include "tests/support/test_vectors.hpp"

namespace fluxformer {
namespace {

using namespace test;

constexpr int tokens = 11, samples = 3, words = 7;

struct Case {
  std::string name;
  std::function<void(ModelSpec&)> change;
  int cells = 3;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.name;
}

class LinesOf : public testing::TestWithParam<Case> {
 protected:
  LinesOf() {
    auto model = small_model(3);
    model.vocabulary = words;
    model.tokens = tokens + 2;
    model.causal = true;
    model.word_head.present = true;
    GetParam().change(model);
    model.validate();
    parameters = on_cells(random_parameters({.model = model, .alpha = 0.9, .rho = 1.2}), GetParam().cells);
    for (int k = 0; k < samples * tokens; ++k) batch.input.push_back((k * k + 3 * k) % words);
  }

  /// Rows of the states [token][sample][channel] of the whole line, by the probe that analyses take.
  std::vector<double> whole() {
    const auto line = TokenLine::even(MPI_COMM_SELF, tokens, 1);
    ModelProbe probe(*parameters, line, samples, Precision::float64);
    auto all = batch;
    all.length.assign(samples, tokens);
    all.label.assign(samples, 0);
    all.weight.assign(samples, 1.0);
    std::vector<double> u;
    probe.embed(all, u);
    probe.forward(u);
    return u;
  }
  std::vector<double> read(EarlierTokens earlier, const std::vector<int>& pieces, Precision precision,
                           long* marched = nullptr) {
    LineReader reader(*parameters, tokens, samples, precision, earlier);
    std::vector<double> u;
    for (const int count : pieces) {
      const double* const rows = reader.read(batch, count);
      u.insert(u.end(), rows, rows + Index{count} * samples * parameters->spec.width);
    }
    EXPECT_EQ(reader.position(), tokens);
    if (marched != nullptr) *marched = reader.marched();
    return u;
  }

  std::optional<Parameters> parameters;
  Batch batch;
};

TEST_P(LinesOf, have_the_states_of_the_whole_line) {
  const auto exact = whole();
  for (const auto earlier : {EarlierTokens::kept, EarlierTokens::again})
    for (const auto& pieces :
         {std::vector<int>(tokens, 1), std::vector<int>{5, 1, 1, 4}, std::vector<int>{tokens}})
      // Sums over keys in another order, through three layers.
      EXPECT_LE(reached("a line read token by token",
                        relative_difference(read(earlier, pieces, Precision::float64), exact)),
                1e-13);
  EXPECT_LE(relative_difference(read(EarlierTokens::kept, {4, 1, 6}, Precision::float32), exact), 1e-4);
}

TEST_P(LinesOf, march_each_token_once_if_earlier_ones_are_kept) {
  long marched = 0;
  read(EarlierTokens::kept, {6, 1, 1, 1, 1, 1}, Precision::float64, &marched);
  EXPECT_EQ(marched, tokens);
  read(EarlierTokens::again, {6, 1, 1, 1, 1, 1}, Precision::float64, &marched);
  EXPECT_EQ(marched, 6 + 7 + 8 + 9 + 10 + 11);
}

INSTANTIATE_TEST_SUITE_P(
    Models, LinesOf,
    testing::Values(Case{"pre_norm", [](ModelSpec&) {}},
                    Case{"post_norm",
                         [](ModelSpec& m) {
                           m.norm = Norm::post;
                           m.attention.layer_norm = false;
                         }},
                    Case{"groups_rotary_heads_normed",
                         [](ModelSpec& m) {
                           m.tokens = 0;
                           m.attention.groups = 1;
                           m.attention.head_width = 4;
                           m.attention.qk_norm = true;
                           m.attention.rotary = {RotaryLayout::half, 2, 1.1};
                           m.rotary.theta = {0.9, 0.1};
                           m.rotary.table = {0, 1, 0};
                         }},
                    Case{"windows_l2",
                         [](ModelSpec& m) {
                           m.windows = {4, 2, 4};
                           m.attention.kernel = Kernel::l2;
                         }},
                    Case{"l2", [](ModelSpec& m) { m.attention.kernel = Kernel::l2; }},
                    Case{"linear", [](ModelSpec& m) { m.attention.normalisation = Normalisation::linear; }},
                    Case{"windows",
                         [](ModelSpec& m) {
                           m.windows = {3, 0, 2};
                         }},
                    Case{"parallel", [](ModelSpec& m) { m.order = SubLayerOrder::parallel; }},
                    Case{"macaron_midpoint",
                         [](ModelSpec& m) {
                           m.order = SubLayerOrder::macaron;
                           m.subflow = SubLayerIntegrator::midpoint;
                         }},
                    Case{"pde",
                         [](ModelSpec& m) {
                           m.kind = ModelKind::pde;
                           m.variation = DepthVariation::linear;
                           m.knots = 2;
                           m.norm = Norm::none;
                           m.attention.layer_norm = false;
                         },
                         6}),
    testing::PrintToStringParamName());

TEST(LineReader, says_how_much_it_keeps) {
  auto model = small_model(3);  // width 6, 2 heads
  model.cells = 3;
  EXPECT_EQ(LineReader::bytes(model, 10, 4, Precision::float64, EarlierTokens::kept), 3 * 10 * 4 * 2 * 6 * 8);
  EXPECT_EQ(LineReader::bytes(model, 10, 4, Precision::float64, EarlierTokens::again), 0);
  model.attention.groups = 1;
  EXPECT_EQ(LineReader::bytes(model, 10, 4, Precision::float32, EarlierTokens::kept), 3 * 10 * 4 * 2 * 3 * 4);
  model.windows = {3, 0, 40};
  EXPECT_EQ(LineReader::bytes(model, 10, 4, Precision::float32, EarlierTokens::kept),
            (2 + 10 + 10) * 4 * 2 * 3 * 4);
}

}  // namespace
}  // namespace fluxformer
