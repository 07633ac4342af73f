// The scalars of MODEL section 6 against their definitions, summed over the whole state by every rank.
// Ranks: 1 2 3 4.

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "analysis/states/depth_measures.hpp"
#include "base/error.hpp"
#include "base/vector_arrays.hpp"

namespace fluxformer::depth_measures_match_plain_sums {
namespace {

constexpr int cells = 6, nx = 3, ny = 4, samples = 2, width = 3;
constexpr double dt = 0.25, speed = 1.5, epsilon = 0.3, spacing = 0.5;

double state(int cell, int token, int sample, int channel) {
  return std::sin(1.0 + 3.1 * cell + 0.7 * token * (sample + 1) + 1.3 * channel) + 0.2 * cell;
}
double earlier(int cell, int token, int sample, int channel) {
  return state(cell, token, sample, channel) - 0.1 * std::cos(1.0 * cell * token + sample + channel);
}
double target(int cell, int token, int sample, int channel) {
  return 1.0 + cell + token + sample + channel;
}

template <class F>
void fill(const Mesh& mesh, F&& f, double* to) {
  const auto& line = mesh.token_line();
  for (int c = 0; c < mesh.cells(); ++c)
    for (int local = 0; local < line.block().count(); ++local)
      for (int b = 0; b < samples; ++b)
        for (int j = 0; j < width; ++j)
          *to++ = f(mesh.first_cell() + c, line.global_index(line.rank(), local), b, j);
}

struct Case {
  bool periodic;
  std::vector<int> length;
};

class DepthMeasuresOn : public testing::TestWithParam<Case> {};

TEST_P(DepthMeasuresOn, all_ranks_match_plain_sums) {
  const auto& [periodic, length] = GetParam();
  const Mesh mesh(MPI_COMM_WORLD, {.cells = cells,
                                   .tokens_x = nx,
                                   .tokens_y = ny,
                                   .samples = samples,
                                   .width = width,
                                   .ranks_depth = 0,
                                   .ranks_token = 0,
                                   .periodic = periodic});
  SlabContext context{&mesh.token_line(), samples, width, {}};
  context.mask.length = length;
  states::DepthMeasurement measurement(mesh, context, {speed, epsilon, spacing});
  const auto u = mesh.create_vector(), previous = mesh.create_vector();
  fill(mesh, state, WriteArray(u).values);
  fill(mesh, earlier, WriteArray(previous).values);
  std::vector<double> reference(static_cast<std::size_t>(mesh.cells()) * mesh.slab_size());
  fill(mesh, target, reference.data());
  measurement.set_reference({reference.begin(), reference.end()});
  const auto m = measurement.measure(u, previous, dt);

  const auto real = [&](int b, int token) { return context.mask.real(b, token); };
  std::vector<double> means;
  for (int c = 1; c <= cells; ++c) {
    double squares = 0, rates = 0, gaps = 0, targets = 0, total = 0, variance = 0, edges = 0, count = 0;
    for (int b = 0; b < samples; ++b)
      for (int j = 0; j < width; ++j) {
        double mean = 0, n = 0;
        for (int t = 0; t < nx * ny; ++t)
          if (real(b, t)) mean += state(c, t, b, j), n += 1;
        mean /= n;
        for (int t = 0; t < nx * ny; ++t) {
          if (!real(b, t)) continue;
          const double x = state(c, t, b, j);
          squares += x * x, total += x, count += 1;
          rates += std::pow((x - earlier(c, t, b, j)) / dt, 2);
          gaps += std::pow(x - target(c, t, b, j), 2), targets += std::pow(target(c, t, b, j), 2);
          variance += (x - mean) * (x - mean);
          const int column = t % nx, row = t / nx;
          const auto edge = [&](int other) {
            if (real(b, other)) edges += std::pow(state(c, other, b, j) - x, 2);
          };
          if (column + 1 < nx || periodic) edge(row * nx + (column + 1) % nx);
          if (row + 1 < ny || periodic) edge((row + 1) % ny * nx + column);
        }
      }
    const auto i = static_cast<std::size_t>(c - 1);
    const double eps = 1e-13;  // sums of some hundred numbers of order 1
    EXPECT_NEAR(m.norm[i], std::sqrt(squares / count), eps);
    EXPECT_NEAR(m.rate[i], std::sqrt(rates / count), eps);
    EXPECT_NEAR(m.distance[i], std::sqrt(gaps / targets), eps);
    EXPECT_NEAR(m.token_variance[i], variance / count, eps);
    EXPECT_NEAR(m.dirichlet_energy[i], 0.5 * edges / count, eps);
    means.push_back(total / count);
  }
  for (int i = 0; i < cells; ++i) {
    const int low = std::max(0, i - 1), high = std::min(cells - 1, i + 1);
    const auto at = [&](int k) { return means[static_cast<std::size_t>(k)]; };
    EXPECT_NEAR(m.flux[static_cast<std::size_t>(i)],
                speed * at(i) - epsilon * (at(high) - at(low)) / ((high - low) * spacing), 1e-12);
  }
}

INSTANTIATE_TEST_SUITE_P(Boundaries, DepthMeasuresOn,
                         testing::Values(Case{false, {}}, Case{true, {}}, Case{false, {12, 7}}));

}  // namespace
}  // namespace fluxformer::depth_measures_match_plain_sums
