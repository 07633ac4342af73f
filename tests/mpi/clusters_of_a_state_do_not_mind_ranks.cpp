// Clusters among the tokens of depth cells that ranks share, on a lattice with padding and tokens that are 0: against plain sums and a
// search over all tokens by every rank.
// Ranks: 1 2 3 4.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <vector>

#include "analysis/clusters/field_clusters.hpp"
#include "analysis/clusters/leaders.hpp"
#include "base/random.hpp"
#include "base/vector_arrays.hpp"

namespace fluxformer::clusters::clusters_of_a_state_do_not_mind_ranks {
namespace {

constexpr int cells = 4, nx = 4, ny = 5, samples = 2, width = 3;
constexpr double beta = 5, delta = 0.3;

/// Random tokens of very different lengths in three groups; those of sample 1 of the last cell are 0, and here and there another one is.
double state(int cell, int token, int sample, int channel) {
  if ((cell == cells && sample == 1) || token % 7 == cell) return 0;
  const RandomStream random(11, "state");
  const double centre = channel == token % 3 ? 1 : 0;
  const auto at = static_cast<std::uint64_t>(((cell * nx * ny + token) * samples + sample) * width + channel);
  return std::pow(10.0, 100 * (token % 5 - 2)) * (centre + 0.03 * cell * cell * random.normal(at));
}

/// The directions of the tokens of a cell and sample that are not 0.
Tokens directions(int cell, int sample, int length) {
  Tokens tokens{width, {}};
  for (int token = 0; token < length; ++token) {
    double largest = 0, square = 0;
    for (int c = 0; c < width; ++c) largest = std::max(largest, std::abs(state(cell, token, sample, c)));
    if (largest == 0) continue;
    for (int c = 0; c < width; ++c) square += std::pow(state(cell, token, sample, c) / largest, 2);
    for (int c = 0; c < width; ++c)
      tokens.x.push_back(state(cell, token, sample, c) / largest / std::sqrt(square));
  }
  return tokens;
}

double squared_distance(const Tokens& tokens, Index i, Index j) {
  double sum = 0;
  for (int c = 0; c < width; ++c) sum += std::pow(tokens[i][c] - tokens[j][c], 2);
  return sum;
}

/// N(delta) by a search from token to token.
Index components_by_search(const Tokens& tokens) {
  std::vector<Index> own(tokens.count(), -1);
  Index found = 0;
  for (Index first = 0; first < tokens.count(); ++first) {
    if (own[first] >= 0) continue;
    std::vector<Index> open{first};
    own[first] = found;
    while (!open.empty()) {
      const Index i = open.back();
      open.pop_back();
      for (Index j = 0; j < tokens.count(); ++j)
        if (own[j] < 0 && 2 * std::asin(std::sqrt(squared_distance(tokens, i, j)) / 2) <= delta) {
          own[j] = found;
          open.push_back(j);
        }
    }
    ++found;
  }
  return found;
}

/// The measures of a cell and sample by plain sums; components_low and components_high by one rank.
std::vector<double> plain(const Tokens& tokens, int length, Index leaders) {
  const auto n = static_cast<double>(tokens.count());
  if (n == 0)
    return {std::nan(""), std::nan(""), std::nan(""), std::nan(""), std::nan(""), std::nan(""), 1.0 * length};
  double all = 0, logarithms = 0;
  for (Index i = 0; i < tokens.count(); ++i) {
    double z = 0;
    for (Index j = 0; j < tokens.count(); ++j) z += std::exp(-beta * squared_distance(tokens, i, j) / 2);
    all += z;
    logarithms += std::log(z / n);
  }
  const auto one = clusters_on_sphere(tokens, delta, leaders, MPI_COMM_SELF);
  const auto known = [](Index count) { return count > 0 ? static_cast<double>(count) : std::nan(""); };
  return {known(one.fewest),         known(one.most),          one.compact_share, n * n / all,
          std::exp(-logarithms / n), all / (2 * beta * n * n), length - n};
}

class ClustersOfAState : public testing::TestWithParam<std::vector<int>> {
 protected:
  ClustersOfAState()
      : mesh(MPI_COMM_WORLD,
             {.cells = cells, .tokens_x = nx, .tokens_y = ny, .samples = samples, .width = width}),
        context{&mesh.token_line(), samples, width, {}} {
    context.mask.length = GetParam();
  }
  std::vector<double> measured(Index leaders) {
    const auto u = mesh.create_vector();
    const auto& line = mesh.token_line();
    {
      const WriteArray values(u);
      double* to = values.values;
      for (int c = 0; c < mesh.cells(); ++c)
        for (int local = 0; local < line.block().count(); ++local)
          for (int b = 0; b < samples; ++b)
            for (int j = 0; j < width; ++j)
              *to++ = state(mesh.first_cell() + c, line.global_index(line.rank(), local), b, j);
    }
    FieldClusters measurement(mesh, context, {.beta = beta, .delta = delta, .leaders = leaders});
    EXPECT_EQ(measurement.size(), std::ssize(measurement.measure(u)));
    return measurement.measure(u);  // with the attention of the time before
  }
  Mesh mesh;
  SlabContext context;
};

TEST_P(ClustersOfAState, are_those_of_plain_sums) {
  Index wide = 0;
  for (const Index leaders : {100, 2}) {
    const auto found = measured(leaders);
    const std::size_t rows = cells * samples, count = std::size(variables::of_fields::all);
    ASSERT_EQ(found.size(), count * rows);
    for (int cell = 1; cell <= cells; ++cell)
      for (int b = 0; b < samples; ++b) {
        const int length = context.real_tokens(b);
        const auto tokens = directions(cell, b, length);
        const auto expected = plain(tokens, length, leaders);
        const std::size_t row = (cell - 1) * samples + b;
        for (std::size_t k = 0; k < count; ++k) {
          const double value = found[k * rows + row];
          const auto& name = variables::of_fields::all[k]->name;
          if (std::isnan(expected[k]))
            EXPECT_TRUE(std::isnan(value)) << name;
          else if (k < 3 || k == count - 1)
            EXPECT_EQ(value, expected[k]) << name;
          else  // roundings of lengths and cosines, times beta
            EXPECT_NEAR(value / expected[k], 1, 1e-13) << name;
        }
        if (leaders < 100 || tokens.count() == 0) continue;
        EXPECT_LE(found[row], components_by_search(tokens));
        EXPECT_GE(found[rows + row], components_by_search(tokens));
        wide += found[rows + row] > found[row];
      }
  }
  EXPECT_LT(wide, cells * samples - 1);  // some are exact
}

INSTANTIATE_TEST_SUITE_P(Lengths, ClustersOfAState,
                         testing::Values(std::vector<int>{}, std::vector<int>{20, 9}));

}  // namespace
}  // namespace fluxformer::clusters::clusters_of_a_state_do_not_mind_ranks
