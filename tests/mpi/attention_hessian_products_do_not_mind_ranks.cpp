// Attention's part in products with the Hessian over a distributed token line: the split changes only
// rounding, and memory per rank grows with its own tokens.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/support/attention_second_order_case.hpp"
#include "tests/support/reached.hpp"
#include "tests/support/token_cuts.hpp"

namespace fluxformer::attention_hessian_products_do_not_mind_ranks {
namespace {

using namespace test;

struct Case {
  int x, y, samples, width, heads;
  bool layer_norm, padding, causal, weights;
  int window = 0;
  AttentionSettings terms = {};  // beside heads and norm
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.x << " x " << c.y << " tokens, " << c.samples << " samples of width " << c.width << ", window "
       << c.window;
}

class DistributedSecondOrder : public testing::TestWithParam<Case> {
 protected:
  DistributedSecondOrder() {
    const Case& c = GetParam();
    settings = c.terms;
    settings.heads = c.heads;
    settings.layer_norm = c.layer_norm;
    whole = {c.x * c.y, c.samples, c.width, {}};
    arrays.window = c.window;
    whole.mask.causal = c.causal;
    for (int s = 0; c.padding && s < c.samples; ++s)
      whole.mask.length.push_back(std::max(1, whole.tokens - 3 * s));
    for (int t = 0; c.weights && t < whole.tokens; ++t) whole.mask.weight.push_back(0.4 + 0.2 * (t % 5));
  }
  AttentionPoint point(unsigned seed) const {
    return random_attention_point(whole, AttentionLayout(whole.width, settings), seed);
  }

  AttentionSettings settings;
  AttentionArrays arrays;
  reference::WholeLine whole;
};

/// Sums over tokens in another order: a few units of 1e-16 per term, and the cancellations of derivatives.
void expect_equal(const AttentionSweep& found, const AttentionSweep& expected) {
  constexpr double rounding = 1e-12;
  EXPECT_LT(reached("Hessian products on all splits", relative_difference(found.out, expected.out)),
            rounding);
  EXPECT_LT(reached("Hessian products on all splits", relative_difference(found.u_bar, expected.u_bar)),
            rounding);
  EXPECT_LT(
      reached("Hessian products on all splits", relative_difference(found.weights_bar, expected.weights_bar)),
      rounding);
}

TEST_P(DistributedSecondOrder, does_not_depend_on_the_split) {
  const TokenLine alone = TokenLine::even(MPI_COMM_SELF, GetParam().x, GetParam().y);
  SplitAttention<double> undivided(alone, whole, settings, arrays);
  LinearisedAttention<double> there(undivided, point(5), 1.3);
  const AttentionSweep hessian = there.along(point(15)), gauss_newton = there.gauss_newton(point(15));
  for_every_cut(GetParam().x, GetParam().y, [&](const TokenLine& line) {
    SplitAttention<double> split(line, whole, settings, arrays);
    LinearisedAttention<double> here(split, point(5), 1.3);
    expect_equal(here.value, there.value);
    expect_equal(here.along(point(15)), hessian);
    expect_equal(here.gauss_newton(point(15)), gauss_newton);
  });
}

TEST_P(DistributedSecondOrder, gives_the_same_bits_on_the_same_split) {
  for_every_cut(GetParam().x, GetParam().y, [&](const TokenLine& line) {
    SplitAttention<double> first(line, whole, settings, arrays), second(line, whole, settings, arrays);
    const AttentionSweep a = LinearisedAttention<double>(first, point(5)).along(point(15)),
                         b = LinearisedAttention<double>(second, point(5)).along(point(15));
    EXPECT_EQ(a.out, b.out);
    EXPECT_EQ(a.u_bar, b.u_bar);
    EXPECT_EQ(a.weights_bar, b.weights_bar);
  });
}

const Case language_model{
    13,
    1,
    2,
    8,
    4,
    true,
    true,
    true,
    false,
    5,
    {.groups = 2, .head_width = 6, .qk_norm = true, .rotary = {RotaryLayout::half, 4, 1.2}}};

INSTANTIATE_TEST_SUITE_P(Lattices, DistributedSecondOrder,
                         testing::Values(Case{7, 1, 2, 6, 2, true, false, false, false},
                                         Case{7, 1, 3, 6, 6, true, true, true, false},
                                         Case{3, 5, 2, 8, 2, false, true, false, true},
                                         Case{7, 7, 3, 16, 1, true, false, true, false},
                                         Case{1, 53, 2, 10, 2, false, true, false, true},
                                         Case{1, 1, 2, 4, 2, true, false, false, false},
                                         Case{7, 1, 3, 6, 6, true, true, true, false, 3},
                                         Case{3, 5, 2, 8, 2, false, true, false, true, 4},
                                         Case{1, 53, 2, 10, 2, true, true, true, false, 5}, language_model,
                                         // Chunks of one sample each: 6 * 211 * 96 numbers fill the cache.
                                         Case{211, 1, 3, 96, 3, true, true, true, false}));

/// Numbers of type float: the work space and what is linearised, for one sample of n tokens on `ranks` ranks.
double numbers_held(int tokens, int ranks) {
  const SubLine sub(ranks);
  double bytes = 0;
  if (sub.takes_part) {
    const TokenLine line = TokenLine::even(sub.comm, tokens, 1, ranks, 1);
    const reference::WholeLine whole{tokens, 1, 4, {}};
    SplitAttention<float> split(line, whole, AttentionSettings{});
    LinearisedAttention<float> linearised(split, random_attention_point(whole, 5));
    linearised.along(random_attention_point(whole, 15));
    bytes = static_cast<double>(split.term().work_bytes() + linearised.bytes());
  }
  return max_over(MPI_COMM_WORLD, bytes) / sizeof(float);
}

TEST(DistributedSecondOrderMemory, of_a_rank_grows_with_its_own_tokens) {
  // Width 4: 45 rows of 4 numbers per token, and some per head; far below n numbers per token.
  const double short_line = numbers_held(2048, 1), long_line = numbers_held(8192, 1);
  EXPECT_NEAR(long_line / short_line, 4, 0.1);
  EXPECT_LT(long_line / 8192, 250);
  if (size_of(MPI_COMM_WORLD) == 1) return;
  // Half the tokens, and the buffers of the ring: two foreign blocks with their variations and three
  // of adjoints, each of 9 numbers per token.
  const double halved = numbers_held(8192, 2);
  EXPECT_LT(halved, long_line / 2 + (2 * 2 + 3) * 9 * 4096 + 1000);
  EXPECT_NEAR(halved / numbers_held(2048, 2), 4, 0.1);
}

}  // namespace
}  // namespace fluxformer::attention_hessian_products_do_not_mind_ranks
