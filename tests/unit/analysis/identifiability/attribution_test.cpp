// Spearman's rank correlation against values by hand and the formula without ties.

#include <gtest/gtest.h>
#include <algorithm>
#include <cmath>

#include "analysis/identifiability/attribution.hpp"
#include "analysis/state_examples.hpp"
#include "base/error.hpp"
#include "tests/support/test_vectors.hpp"
#include "tests/unit/analysis/probe_case.hpp"

namespace fluxformer::identifiability {
namespace {

using List = std::vector<double>;

constexpr double rank_correlation_rounding = 1e-14;  // one square root and one quotient of exact sums

TEST(RankCorrelation, gives_tied_values_the_mean_of_their_places) {
  EXPECT_EQ(mid_ranks(List{10, -3, 7}), (List{3, 1, 2}));
  EXPECT_EQ(mid_ranks(List{2, 1, 2, 5}), (List{2.5, 1, 2.5, 4}));
  EXPECT_EQ(mid_ranks(List{4, 4, 4}), (List{2, 2, 2}));
  EXPECT_EQ(mid_ranks(List{}), List{});
}

TEST(RankCorrelation, counts_numbers_as_equal_that_round_off_alone_tells_apart) {
  const double off = 1e-15;
  EXPECT_EQ(with_ties(List{2 + off, 1, 2, 5}), (List{2, 1, 2, 5}));
  EXPECT_EQ(mid_ranks(with_ties(List{2 + off, 1, 2, 5})), (List{2.5, 1, 2.5, 4}));
  EXPECT_EQ(mid_ranks(with_ties(List{0, 1, 1e-13, -1e-13})), (List{2, 4, 2, 2}));
  // 1e-12 of the largest magnitude, whatever its sign; a group reaches so far above its smallest number.
  EXPECT_EQ(mid_ranks(with_ties(List{-1, 4e-12, 2e-12, 0})), (List{1, 4, 3, 2}));
  EXPECT_EQ(with_ties(List{-100, 3e-12, 0}), (List{-100, 0, 0}));
  EXPECT_EQ(with_ties(List{1, 1 + 0.6e-12, 1 + 1.4e-12}), (List{1, 1, 1 + 1.4e-12}));
  EXPECT_EQ(with_ties(List{}), List{});
  EXPECT_EQ(with_ties(List{INFINITY, 1, -INFINITY, 1 + off}), (List{INFINITY, 1, -INFINITY, 1}));
  EXPECT_TRUE(std::isnan(with_ties(List{NAN, 1})[0]));
}

TEST(RankCorrelation, of_known_lists_is_known) {
  // IQ against hours of television, the textbook example: sum d^2 = 194, 1 - 6 * 194 / (10 * 99) = -29/165.
  const List iq{86, 97, 99, 100, 101, 103, 106, 110, 112, 113}, hours{2, 20, 28, 27, 50, 29, 7, 17, 6, 12};
  EXPECT_NEAR(spearman(iq, hours), -29.0 / 165, rank_correlation_rounding);
  EXPECT_NEAR(spearman(List{1, 2, 3, 4}, List{1, 8, 27, 64}), 1, rank_correlation_rounding);
  EXPECT_NEAR(spearman(List{1, 2, 3, 4}, List{0.4, 0.3, 0.2, 0.1}), -1, rank_correlation_rounding);
}

TEST(RankCorrelation, with_ties_is_the_correlation_of_the_mid_ranks) {
  // Ranks 1, 2.5, 2.5, 4 and 1, 3, 2, 4: covariance 4.5, squares 4.5 and 5.
  EXPECT_NEAR(spearman(List{0, 5, 5, 9}, List{-1, 3, 2, 7}), 4.5 / std::sqrt(4.5 * 5),
              rank_correlation_rounding);
  // The order in which tied values come does not matter.
  EXPECT_EQ(spearman(List{0, 5, 5, 9}, List{-1, 2, 3, 7}), spearman(List{0, 5, 5, 9}, List{-1, 3, 2, 7}));
}

TEST(RankCorrelation, without_ties_is_the_formula_with_squared_differences) {
  const auto x = fluxformer::test::random_vector(50, 1),
             y = fluxformer::test::plus(fluxformer::test::random_vector(50, 2), 1, x);
  const auto a = mid_ranks(x), b = mid_ranks(y);
  double squares = 0;
  for (std::size_t i = 0; i < 50; ++i) squares += (a[i] - b[i]) * (a[i] - b[i]);
  EXPECT_NEAR(spearman(x, y), 1 - 6 * squares / (50.0 * (50 * 50 - 1)), rank_correlation_rounding);
  EXPECT_EQ(spearman(x, y), spearman(y, x));
}

TEST(RankCorrelation, of_a_constant_side_does_not_exist) {
  EXPECT_TRUE(std::isnan(spearman(List{1, 1, 1}, List{1, 2, 3})));
  EXPECT_TRUE(std::isnan(spearman(List{1, 2, 3}, List{0.1, 0.1, 0.1})));
  EXPECT_TRUE(std::isnan(spearman(List{1}, List{2})));
  EXPECT_TRUE(std::isnan(spearman(List{}, List{})));
}

TEST(RankCorrelation, of_different_sizes_or_no_numbers_is_refused) {
  EXPECT_THROW(spearman(List{1, 2}, List{1, 2, 3}), BadInput);
  EXPECT_THROW(spearman(List{1, NAN}, List{1, 2}), BadInput);
  EXPECT_EQ(mid_ranks(List{INFINITY, 0, -INFINITY}), (List{3, 2, 1}));
}

}  // namespace
}  // namespace fluxformer::identifiability

// Blanked tokens against the same model on the shorter or changed sample.

namespace fluxformer::test {
namespace {

using namespace identifiability;

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t k = 0; k < a.size(); ++k) sum += (a[k] - b[k]) * (a[k] - b[k]);
  return std::sqrt(sum);
}

/// Logits of a probe of one slot for the embedded tokens `u`, [token][channel], of which `length` are real.
std::vector<double> logits_of(ModelProbe& probe, const Batch& batch, int length, std::vector<double> u) {
  auto shorter = batch;
  shorter.length = {length};
  std::vector<double> unused;
  probe.embed(shorter, unused);
  u.resize(unused.size(), 0.0);
  return probe.forward(u);
}

/// Two probes of one model: of one slot, and of three, so that five to twelve tokens take several runs.
struct Blanked {
  explicit Blanked(const ProbeSpec& spec) : one(spec, 1), several(spec, 3), batch(one.batch({1})) {
    one.probe.embed(batch, u);
    base = logits_of(one.probe, batch, length(), u);
  }
  int length() const { return batch.length[0]; }
  std::size_t width() const { return static_cast<std::size_t>(one.probe.spec().width); }
  void check(const TokenEffects& found, std::size_t i, const std::vector<double>& logits,
             double moved) const {
    EXPECT_NEAR(found.output_change[i], distance(logits, base), 1e-13);
    const auto winner = static_cast<std::size_t>(std::ranges::max_element(base) - base.begin());
    EXPECT_NEAR(found.winning_drop[i], base[winner] - logits[winner], 1e-13);
    EXPECT_NEAR(found.moved[i], moved, 1e-14);
  }

  ProbeCase one, several;
  Batch batch;
  std::vector<double> u, base;
};

// The state is O(1); a march of two layers loses some ten bits' worth at most: 1e-13.
TEST(BlankOut, of_words_is_the_sample_without_the_token) {
  for (const auto kind : {ModelKind::transformer, ModelKind::pde}) {
    Blanked b({.kind = kind,
               .kappa = kind == ModelKind::pde ? 0.2 : 0,
               .tokens_x = 12,
               .tokens_y = 1,
               .features = 0,
               .vocabulary = 9});
    const auto found = BlankOut(b.several.probe, {}).effects(b.batch.input, b.length());
    ASSERT_EQ(found.moved.size(), static_cast<std::size_t>(b.length()));
    for (std::size_t i = 0; i < found.moved.size(); ++i) {
      auto shorter = b.u;
      const auto at = shorter.begin() + static_cast<std::ptrdiff_t>(i * b.width());
      const std::vector<double> token(at, at + static_cast<std::ptrdiff_t>(b.width()));
      shorter.erase(at, at + static_cast<std::ptrdiff_t>(b.width()));
      b.check(found, i, logits_of(b.one.probe, b.batch, b.length() - 1, shorter),
              distance(token, std::vector<double>(b.width(), 0.0)));
    }
  }
}

TEST(BlankOut, of_features_is_the_sample_with_the_mean_token) {
  Blanked b({.kind = ModelKind::pde, .kappa = 0.2});
  const std::vector<double> mean = {0.3, -0.2, 0.5};
  const auto found = BlankOut(b.several.probe, mean).effects(b.batch.input, b.length());
  for (std::size_t i = 0; i < found.moved.size(); ++i) {
    auto changed = b.batch;
    std::ranges::copy(mean, changed.input.begin() + static_cast<std::ptrdiff_t>(3 * i));
    std::vector<double> u;
    b.one.probe.embed(changed, u);
    std::vector<double> difference(u.size());
    std::ranges::transform(u, b.u, difference.begin(), std::minus<>());
    b.check(found, i, logits_of(b.one.probe, b.batch, b.length(), u),
            distance(difference, std::vector<double>(u.size(), 0.0)));
  }
}

TEST(BlankOut, moves_equal_tokens_equally_wherever_they_stand) {
  Blanked b({.kind = ModelKind::pde, .kappa = 0.2});
  const std::vector<double> mean = {0.3, -0.2, 0.5};
  std::copy_n(b.batch.input.begin(), 3, b.batch.input.begin() + 3);
  std::copy_n(b.batch.input.begin(), 3, b.batch.input.begin() + 9);
  const auto found = BlankOut(b.several.probe, mean).effects(b.batch.input, b.length());
  ASSERT_GE(b.length(), 4);
  EXPECT_EQ(found.moved[0], found.moved[1]);
  EXPECT_EQ(found.moved[0], found.moved[3]);
  EXPECT_NE(found.moved[0], found.moved[2]);
  EXPECT_NE(found.output_change[0], found.output_change[1]);  // their positions differ
}

// Without attention, reaction and diffusion the states of the others do not change.
TEST(BlankOut, without_classes_is_the_change_of_the_other_tokens) {
  for (const double alpha : {0.0, 1.0}) {
    Blanked b({.alpha = alpha, .tokens_x = 12, .tokens_y = 1, .features = 0, .vocabulary = 9, .classes = 0});
    const auto found = BlankOut(b.several.probe, {}).effects(b.batch.input, b.length());
    for (std::size_t i = 0; i < found.moved.size(); ++i) {
      if (alpha == 0) {
        EXPECT_EQ(found.output_change[i], 0);
      } else {
        EXPECT_GT(found.output_change[i], 1e-3);
      }
      EXPECT_TRUE(std::isnan(found.winning_drop[i]));
    }
  }
}

TEST(BlankOut, of_a_single_token_is_not_defined) {
  Blanked b({.tokens_x = 12, .tokens_y = 1, .features = 0, .vocabulary = 9});
  const auto found = BlankOut(b.several.probe, {}).effects(b.batch.input, 1);
  EXPECT_TRUE(std::isnan(found.output_change[0]) && std::isnan(found.moved[0]));
}

}  // namespace
}  // namespace fluxformer::test
