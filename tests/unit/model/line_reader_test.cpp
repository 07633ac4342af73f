// Lines read token by token against the whole line at once.

#include "model/line_reader.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "analysis/model_probe.hpp"
#include "model/tasks/word_task.hpp"
#include "tests/support/reached.hpp"
#include "tests/support/small_problem.hpp"
#include "tests/support/test_vectors.hpp"

namespace fluxformer {
namespace {

using namespace test;

constexpr int tokens = 11, words = 7;

struct Case {
  std::string name;
  std::function<void(ModelSpec&)> change;
  int cells = 3, samples = 3;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.name;
}

/// RMSNorm, no biases, groups of keys, rotary positions; the windows of the first and the last layer are shorter
/// than the line.
auto language_model(RotaryLayout layout) {
  return [layout](ModelSpec& model) {
    model = small_language_model(3);
    model.attention.rotary.layout = layout;
    model.vocabulary = words;
    model.word_head = {.present = true, .bias = false};
  };
}

class LinesOf : public testing::TestWithParam<Case> {
 protected:
  const int samples = GetParam().samples;

  LinesOf() {
    auto model = small_model(3);
    model.vocabulary = words;
    model.tokens = tokens + 2;
    model.causal = true;
    model.word_head.present = true;
    GetParam().change(model);
    model.validate();
    parameters =
        on_cells(random_parameters({.model = model, .alpha = 0.9, .rho = 1.2, .nu = 0.4}), GetParam().cells);
    for (int k = 0; k < samples * tokens; ++k) batch.input.push_back((k * k + 3 * k) % words);
  }

  /// Rows of the states [token][sample][channel] of the whole line, by the probe that analyses take. `first`:
  /// the position of its first token.
  std::vector<double> whole(int first = 0) {
    auto line = TokenLine::stretch(MPI_COMM_SELF, first + tokens, tokens);
    line.move_to(first);
    ModelProbe probe(*parameters, line, samples, Precision::float64);
    Batch all;
    for (int sample = 0; sample < samples; ++sample) {
      all.input.resize(all.input.size() + first, 0.0);
      all.input.insert(all.input.end(), batch.input.begin() + sample * tokens,
                       batch.input.begin() + (sample + 1) * tokens);
    }
    all.length.assign(samples, first + tokens);
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

  std::vector<double> logits(const std::vector<double>& u) const {
    std::vector<double> z(tokens * samples * words);
    WordLogits(*parameters, Precision::float64)(tokens * samples, u.data(), z.data());
    return z;
  }

  std::optional<Parameters> parameters;
  Batch batch;
};

TEST_P(LinesOf, have_the_states_of_the_whole_line) {
  const auto exact = whole();
  for (const auto earlier : {EarlierTokens::kept, EarlierTokens::again})
    for (const auto& pieces :
         {std::vector<int>(tokens, 1), std::vector<int>{5, 1, 1, 4}, std::vector<int>{tokens}}) {
      // Sums over keys in another order, through three layers; logits are sums of six products more.
      const auto u = read(earlier, pieces, Precision::float64);
      EXPECT_LE(reached("a line read token by token", relative_difference(u, exact)), 1e-13);
      EXPECT_LE(reached("a line read token by token: logits", relative_difference(logits(u), logits(exact))),
                1e-12);
    }
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
                    Case{"language_model_halves", language_model(RotaryLayout::half)},
                    Case{"language_model_interleaved", language_model(RotaryLayout::interleaved), 6},
                    Case{"windows_l2",
                         [](ModelSpec& m) {
                           m.windows = {4, 2, 4};
                           m.attention.kernel = Kernel::l2;
                         }},
                    // Attention works on two chunks of these samples, and reads the kept keys of each.
                    Case{"many_samples", [](ModelSpec& m) { m.width = 144; }, 3, 40},
                    Case{"many_samples_l2",
                         [](ModelSpec& m) {
                           m.width = 144;
                           m.attention.kernel = Kernel::l2;
                         },
                         3, 40},
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
                    Case{"transport_by_midpoint",
                         [](ModelSpec& m) {
                           m.transport = true;
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

class LinesWithRotaryPositions : public LinesOf {};

TEST_P(LinesWithRotaryPositions, have_the_same_states_wherever_they_begin) {
  const auto exact = whole();
  // An angle x theta is off by up to x theta 2^-53, theta <= 0.7 where that is not exact: 8e-12 at 1e5, either
  // sign. Scores of order one move by about as much, a soft-max over few keys less, and three layers add up.
  for (const auto& [first, bound] : {std::pair{100, 1e-13}, {100000, 1e-11}})
    EXPECT_LT(reached("rotary positions: states of a model, shifted tokens",
                      relative_difference(whole(first), exact)),
              bound)
        << first;
}

INSTANTIATE_TEST_SUITE_P(Models, LinesWithRotaryPositions,
                         testing::Values(Case{"halves", language_model(RotaryLayout::half)},
                                         Case{"interleaved", language_model(RotaryLayout::interleaved)}),
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
