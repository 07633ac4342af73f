// Attention over a distributed token line: the split changes only rounding, and memory per rank shrinks.

#include <gtest/gtest.h>

#include <numeric>
#include <tuple>
#include <vector>

#include "base/phases.hpp"
#include "operators/attention/token_ring.hpp"
#include "tests/support/attention_case.hpp"
#include "tests/support/reached.hpp"
#include "tests/support/token_cuts.hpp"

namespace fluxformer::token_attention {
namespace {

using namespace test;
using reference::WholeLine;

struct Case {
  int x, y, samples, width, heads;
  Kernel kernel;
  int sinkhorn_iterations;  // 0: softmax, -1: linear
  bool padding, causal, weights;
  int window = 0;
  AttentionSettings terms = {};  // beside heads, kernel and normalisation
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.x << " x " << c.y << " tokens, " << (c.kernel == Kernel::dot ? "dot" : "l2") << ", sinkhorn "
       << c.sinkhorn_iterations << (c.padding ? ", padding" : "") << (c.causal ? ", causal" : "")
       << (c.weights ? ", weights" : "") << ", window " << c.window;
}

class TokenAttention : public testing::TestWithParam<Case> {
 protected:
  TokenAttention() {
    const Case& c = GetParam();
    settings.kernel = c.kernel;
    settings.normalisation = c.sinkhorn_iterations < 0    ? Normalisation::linear
                             : c.sinkhorn_iterations == 0 ? Normalisation::softmax
                                                          : Normalisation::sinkhorn;
    settings.sinkhorn_iterations = std::max(1, c.sinkhorn_iterations);
    whole = {c.x * c.y, c.samples, c.width, {}};
    whole.mask.causal = c.causal;
    for (int s = 0; c.padding && s < c.samples; ++s)
      whole.mask.length.push_back(std::max(1, whole.tokens - 3 * s));
    for (int t = 0; c.weights && t < whole.tokens; ++t) whole.mask.weight.push_back(0.4 + 0.2 * (t % 5));
    const auto count = static_cast<std::size_t>(whole.tokens * c.samples * c.width);
    u = random_vector(count, 1), v = random_vector(count, 2), w = random_vector(count, 3);
  }
  /// f(line) for every cut of the lattice; collective over each line.
  template <class F>
  void for_every_cut(F&& f) {
    test::for_every_cut(GetParam().x, GetParam().y, f);
  }

  static AttentionSettings with_heads(const Case& c) {
    AttentionSettings settings = c.terms;
    settings.heads = c.heads;
    return settings;
  }

  AttentionSettings settings = with_heads(GetParam());
  WholeLine whole;
  AttentionParameters p{AttentionLayout(GetParam().width, settings, {.window = GetParam().window}), 5};
  std::vector<double> u, v, w;
};

// Sums over tokens are taken in a different order: a few units of 1e-16 per term, relative to the largest
// number.
constexpr double rounding = 1e-14;

TEST_P(TokenAttention, does_not_depend_on_the_split) {
  const TokenLine alone = TokenLine::even(MPI_COMM_SELF, GetParam().x, GetParam().y);
  SplitAttention<double> one(alone, whole, settings);
  std::vector<double> gradient_alone, gradient;
  const auto rhs = one.rhs(p, u, 1.3, 0.1), tangent = one.tangent(p, u, v, 1.3);
  const auto u_bar = one.adjoint(p, u, w, gradient_alone, 1.3);
  const auto k = one.matrix(p, u, settings.heads);
  for_every_cut([&](const TokenLine& line) {
    SplitAttention<double> split(line, whole, settings);
    EXPECT_LT(reached("attention on all splits", relative_difference(split.rhs(p, u, 1.3, 0.1), rhs)),
              rounding);
    EXPECT_LT(relative_difference(split.matrix(p, u, settings.heads), k), rounding);
    // Derivatives involve cancellation: the mean is subtracted from the logits' variations.
    EXPECT_LT(relative_difference(split.tangent(p, u, v, 1.3), tangent), 10 * rounding);
    EXPECT_LT(relative_difference(split.adjoint(p, u, w, gradient, 1.3), u_bar), 10 * rounding);
    EXPECT_LT(relative_difference(gradient, gradient_alone), 10 * rounding);
  });
}

TEST_P(TokenAttention, equals_the_plain_reference) {
  const auto weights = p.view<const double>(p.flat.data(), &p.flat.back());
  const auto expected = reference::attention(whole, settings, weights.attention, u);
  for_every_cut([&](const TokenLine& line) {
    EXPECT_LT(relative_difference(SplitAttention<double>(line, whole, settings).rhs(p, u), expected), 1e-13);
    // 6e-8 per operation.
    EXPECT_LT(relative_difference(SplitAttention<float>(line, whole, settings).rhs(p, u), expected), 2e-5);
  });
}

TEST_P(TokenAttention, has_an_adjoint_that_is_the_transpose) {
  for_every_cut([&](const TokenLine& line) {
    SplitAttention<double> split(line, whole, settings);
    std::vector<double> gradient;
    const auto tangent = split.tangent(p, u, v);
    const auto u_bar = split.adjoint(p, u, w, gradient);
    EXPECT_NEAR(dot(tangent, w), dot(v, u_bar), 1e-12 * norm(tangent) * norm(w));
  });
}

TEST_P(TokenAttention, gives_the_same_bits_on_the_same_split) {
  for_every_cut([&](const TokenLine& line) {
    SplitAttention<double> first(line, whole, settings), second(line, whole, settings);
    std::vector<double> a, b;
    EXPECT_EQ(first.rhs(p, u), second.rhs(p, u));
    EXPECT_EQ(first.adjoint(p, u, w, a), second.adjoint(p, u, w, b));
    EXPECT_EQ(a, b);
  });
}

INSTANTIATE_TEST_SUITE_P(Lattices, TokenAttention,
                         testing::Values(Case{7, 1, 2, 6, 2, Kernel::dot, 0, false, false, false},
                                         Case{7, 1, 3, 6, 3, Kernel::dot, 0, true, true, false},
                                         Case{3, 5, 2, 8, 2, Kernel::l2, 0, true, true, true},
                                         Case{7, 7, 3, 16, 1, Kernel::dot, 0, false, true, false},
                                         Case{1, 53, 2, 10, 2, Kernel::dot, 0, true, false, true},
                                         Case{3, 5, 2, 8, 2, Kernel::dot, -1, true, true, true},
                                         Case{1, 53, 2, 10, 2, Kernel::dot, -1, false, false, false},
                                         Case{7, 1, 2, 6, 2, Kernel::l2, 2, true, false, true},
                                         Case{3, 5, 2, 8, 2, Kernel::dot, 3, true, false, true},
                                         Case{23, 1, 2, 4, 1, Kernel::l2, 4, false, false, false},
                                         Case{2, 11, 2, 4, 2, Kernel::dot, 5, true, false, false},
                                         // Chunks of one sample each: 6 * 211 * 96 numbers fill the cache.
                                         Case{211, 1, 3, 96, 3, Kernel::dot, 0, true, true, false}));

// Windows within a rank, over several ranks and of the whole line; padded rows and blocks of ranks that see
// nothing.
INSTANTIATE_TEST_SUITE_P(Windows, TokenAttention,
                         testing::Values(Case{7, 1, 2, 6, 2, Kernel::dot, 0, false, true, false, 1},
                                         Case{7, 1, 3, 6, 3, Kernel::dot, 0, true, true, false, 3},
                                         Case{7, 1, 2, 6, 2, Kernel::dot, 0, true, false, false, 6},
                                         Case{3, 5, 2, 8, 2, Kernel::l2, 0, true, true, true, 4},
                                         Case{3, 5, 3, 8, 2, Kernel::dot, -1, true, true, true, 3},
                                         Case{1, 53, 2, 10, 2, Kernel::dot, 0, true, false, true, 2},
                                         Case{53, 1, 2, 10, 2, Kernel::dot, -1, true, false, false, 5},
                                         Case{211, 1, 3, 6, 3, Kernel::dot, 0, true, true, false, 37}));

// Groups, norms of heads and rotary positions, which count the tokens of the whole line.
INSTANTIATE_TEST_SUITE_P(LanguageModels, TokenAttention,
                         testing::Values(Case{13,
                                              1,
                                              2,
                                              8,
                                              4,
                                              Kernel::dot,
                                              0,
                                              true,
                                              true,
                                              false,
                                              5,
                                              {.groups = 2,
                                               .head_width = 6,
                                               .qk_norm = true,
                                               .rotary = {RotaryLayout::half, 4, 1.2}}},
                                         Case{3,
                                              5,
                                              2,
                                              8,
                                              4,
                                              Kernel::l2,
                                              3,
                                              true,
                                              false,
                                              true,
                                              0,
                                              {.groups = 2, .rotary = {RotaryLayout::interleaved, 2}}}));

/// Columns, rows, whether causal, window.
using Window = std::tuple<int, int, bool, int>;
class WindowOfTheLine : public testing::TestWithParam<Window> {};

// A causal window of n, another one of n - 1 tokens.
TEST_P(WindowOfTheLine, changes_no_bit_of_the_full_attention) {
  const auto& [x, y, causal, window] = GetParam();
  const WholeLine whole{x * y, 2, 6, {.length = {x * y, x * y - 3}, .causal = causal, .weight = {}}};
  const auto count = static_cast<std::size_t>(whole.tokens * 12);
  const AttentionParameters full(6, 5), windowed(AttentionLayout(6, {}, {.window = window}), 5);
  const auto u = random_vector(count, 1), v = random_vector(count, 2);
  test::for_every_cut(x, y, [&](const TokenLine& line) {
    SplitAttention<double> split(line, whole, {.heads = 2});
    std::vector<double> a, b;
    EXPECT_EQ(split.rhs(full, u), split.rhs(windowed, u));
    EXPECT_EQ(split.tangent(full, u, v), split.tangent(windowed, u, v));
    EXPECT_EQ(split.adjoint(full, u, v, a), split.adjoint(windowed, u, v, b));
    EXPECT_EQ(a, b);
    EXPECT_EQ(split.matrix(full, u, 2), split.matrix(windowed, u, 2));
  });
}

INSTANTIATE_TEST_SUITE_P(Lines, WindowOfTheLine,
                         testing::Values(Window{13, 1, true, 13}, Window{13, 1, true, 40},
                                         Window{13, 1, false, 12}, Window{3, 5, false, 14},
                                         Window{3, 5, true, 15}, Window{150, 1, true, 150},
                                         Window{150, 1, false, 149}));

// Each pair costs 4 d flops in the value and 8 d in the adjoint; blocks that no rank needs are not sent.
TEST(WindowedRing, computes_the_pairs_of_the_window_and_stops_behind_it) {
  const int n = 60, w = 7, d = 6;
  const auto work_of = [&](const TokenLine& line, bool causal) {
    const WholeLine whole{n, 1, d, {.length = {}, .causal = causal, .weight = {}}};
    SplitAttention<double> split(line, whole, {.heads = 2});
    const AttentionParameters p(AttentionLayout(d, {}, {.window = w}), 5);
    const auto u = random_vector(n * d, 1);
    std::vector<double> gradient;
    reset_work_counts();
    split.rhs(p, u);
    const WorkCounts value = work_counts();
    split.adjoint(p, u, u, gradient);
    // Without a tape the adjoint computes the value again.
    EXPECT_DOUBLE_EQ(work_counts().flops - value.flops, 3 * value.flops);
    const double pairs = (value.flops - 8.0 * d * d * line.block().count()) / (4 * d);
    EXPECT_EQ(sum_over(line.comm(), pairs), causal ? n * w - w * (w - 1) / 2 : n * (2 * w + 1) - w * (w + 1));
    return value.at(Phase::ring).messages;
  };
  const int size = size_of(MPI_COMM_WORLD);
  // At least 10 tokens a rank: a causal token hears those of its rank and of the one before.
  const TokenLine line = TokenLine::even(MPI_COMM_WORLD, n, 1, size, 1);
  EXPECT_EQ(work_of(line, true), size > 1 ? 1U : 0U);
  // In front and behind: the block of the rank in front comes last.
  EXPECT_EQ(work_of(line, false), static_cast<unsigned>(size - 1));
}

// Keys, values and beta of a token: 2 G c + H numbers.
TEST(TokenAttentionGroups, send_the_keys_and_values_of_groups_alone) {
  const int ranks = size_of(MPI_COMM_WORLD);
  const TokenLine line = TokenLine::even(MPI_COMM_WORLD, 3 * ranks, 1, ranks, 1);
  for (const int groups : {1, 2, 4}) {
    const AttentionSettings settings{.heads = 4, .groups = groups, .head_width = 5};
    SplitAttention<double> split(line, {3 * ranks, 2, 8, {}}, settings);
    const AttentionParameters p(split.layout(), 5);
    const auto u = random_vector(static_cast<std::size_t>(3 * ranks * 2 * 8), 1);
    const auto before = work_counts().at(Phase::ring).bytes;
    split.rhs(p, u);
    EXPECT_EQ(work_counts().at(Phase::ring).bytes - before,
              sizeof(double) * static_cast<std::size_t>((ranks - 1) * 3 * 2 * (2 * groups * 5 + 4)));
  }
}

TEST(TokenRing, shows_every_block_to_every_rank_and_brings_the_sums_home) {
  const int size = size_of(MPI_COMM_WORLD), rank = rank_in(MPI_COMM_WORLD);
  std::vector<int> sizes(static_cast<std::size_t>(size));
  std::iota(sizes.begin(), sizes.end(), 1);
  const TokenLine line(MPI_COMM_WORLD, sizes, {1}, false);
  // Rank r holds r + 1 tokens of 2 numbers: 100 r + place.
  const auto block_of = [](int r) {
    std::vector<double> block(2 * static_cast<std::size_t>(r + 1));
    std::iota(block.begin(), block.end(), 100.0 * r);
    return block;
  };
  TokenRing<double> ring(line);
  const auto own = block_of(rank);
  std::vector<int> order;
  ring.visit(own.data(), 2, [&](int r, const double* block) {
    order.push_back(r);
    EXPECT_EQ(std::vector<double>(block, block + 2 * (r + 1)), block_of(r));
    ring.progress();
  });
  ASSERT_EQ(order.size(), static_cast<std::size_t>(size));
  for (int step = 0; step < size; ++step)
    EXPECT_EQ(order[static_cast<std::size_t>(step)], (rank + size - step) % size);

  // Each rank adds (its rank + 1) * block to three numbers per token; starting from 0.5. A shorter tour visits
  // the ranks rank, rank + 1, ...
  for (int steps = 1; steps <= size; ++steps) {
    ring.set_steps(steps);
    std::vector<double> home(3 * static_cast<std::size_t>(rank + 1), 0.5);
    int shown = 0, visited = 0;
    ring.visit_and_collect(
        own.data(), 2, 3,
        [&](int r, const double* block, double* bar) {
          ++shown;
          for (int i = 0; i < 3 * (r + 1); ++i) bar[i] += (rank + 1) * (block[0] + i);
        },
        home.data());
    EXPECT_EQ(shown, steps);
    for (int step = 0; step < steps; ++step) visited += (rank + step) % size + 1;
    for (std::size_t i = 0; i < home.size(); ++i)
      EXPECT_EQ(home[i], 0.5 + visited * (100.0 * rank + static_cast<double>(i)));
  }
}

/// Largest work space after each function was called once, for one sample of n tokens on the first `ranks`
/// ranks.
std::size_t work_bytes(int tokens, int ranks, int sinkhorn_iterations) {
  const SubLine sub(ranks);
  double bytes = 0;
  if (sub.takes_part) {
    const TokenLine line = TokenLine::even(sub.comm, tokens, 1, ranks, 1);
    AttentionSettings settings;
    if (sinkhorn_iterations > 0) {
      settings.normalisation = Normalisation::sinkhorn;
      settings.sinkhorn_iterations = sinkhorn_iterations;
    }
    SplitAttention<float> split(line, {tokens, 1, 4, {}}, settings);
    const AttentionParameters p(4, 5);
    const auto u = random_vector(static_cast<std::size_t>(tokens) * 4, 1);
    std::vector<double> gradient;
    split.rhs(p, u);
    split.adjoint(p, u, u, gradient);
    bytes = static_cast<double>(split.term().work_bytes());
  }
  return static_cast<std::size_t>(max_over(MPI_COMM_WORLD, bytes));
}

TEST(TokenAttentionMemory, of_a_rank_grows_with_its_own_tokens) {
  const auto numbers = [](std::size_t bytes) { return static_cast<double>(bytes) / sizeof(float); };
  // Width 4, one sample: about 20 rows of 4 numbers per token, and far below n numbers per token.
  const double short_line = numbers(work_bytes(4096, 1, 0)), long_line = numbers(work_bytes(16384, 1, 0));
  EXPECT_NEAR(long_line / short_line, 4, 0.1);
  EXPECT_LT(long_line / 16384, 100);
  if (size_of(MPI_COMM_WORLD) == 1) return;
  // Half the tokens, and the buffers of the ring: two foreign blocks and three of their adjoints,
  // each of (2 * width + heads) = 9 numbers per token.
  const double halved = numbers(work_bytes(16384, 2, 0));
  EXPECT_LT(halved, long_line / 2 + 5 * 9 * 8192 + 1000);
  EXPECT_NEAR(halved / numbers(work_bytes(4096, 2, 0)), 4, 0.1);
}

TEST(TokenAttentionMemory, of_sinkhorn_grows_with_its_own_tokens_too) {
  const auto one = static_cast<double>(work_bytes(512, 1, 4)),
             four = static_cast<double>(work_bytes(2048, 1, 4));
  EXPECT_NEAR(four / one, 4, 0.2);
}

}  // namespace
}  // namespace fluxformer::token_attention
