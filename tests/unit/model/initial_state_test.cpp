// Initial states: the properties of each kind.

#include "model/initial_state.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.hpp"
#include "base/vector_arrays.hpp"
#include "tests/support/listed_samples.hpp"
#include "tests/support/small_problem.hpp"

namespace fluxformer {
namespace {

using namespace test;

constexpr int cells = 3, nx = 4, ny = 3, initial_state_samples = 2, width = 6, initial_state_tokens = nx * ny;

/// [cell][token][sample][channel]; the inflow is 7 everywhere.
std::vector<double> state_of(const InitialState& start, int columns = nx, int rows = ny) {
  const Mesh mesh(MPI_COMM_SELF, {.cells = cells,
                                  .tokens_x = columns,
                                  .tokens_y = rows,
                                  .samples = initial_state_samples,
                                  .width = width});
  const SlabContext context{&mesh.token_line(), initial_state_samples, width};
  const auto u = mesh.create_vector();
  set_initial_state(start, mesh, context, std::vector<double>(context.size(), 7.0), u);
  const ReadArray state(u);
  return {state.values, state.values + mesh.slab_size() * cells};
}

TEST(InitialState, is_zero_or_the_inflow_with_or_without_noise) {
  EXPECT_EQ(state_of({}),
            std::vector<double>(cells * initial_state_tokens * initial_state_samples * width, 0.0));
  EXPECT_EQ(state_of({.kind = "inflow"}),
            std::vector<double>(cells * initial_state_tokens * initial_state_samples * width, 7.0));
  const auto one = state_of({.kind = "noise", .scale = 2, .seed = 5}),
             half = state_of({.kind = "noise", .scale = 1, .seed = 5});
  double squares = 0;
  for (std::size_t j = 0; j < one.size(); ++j) {
    EXPECT_NEAR(one[j] - 7, 2 * (half[j] - 7), 1e-14);
    squares += (one[j] - 7) * (one[j] - 7) / static_cast<double>(one.size());
  }
  // The mean square of N normal numbers deviates by sqrt(2 / N).
  EXPECT_NEAR(squares, 4, 4 * 5 * std::sqrt(2.0 / static_cast<double>(one.size())));
  EXPECT_NE(state_of({.kind = "noise", .scale = 2, .seed = 6}), one);
}

TEST(InitialState, on_the_sphere_has_norm_one) {
  for (const char* kind : {"sphere", "clustered_sphere", "equiangular"}) {
    const auto u = state_of({.kind = kind, .gamma = 0.3, .no_zero_vectors = true}, 5, 1);
    for (std::size_t row = 0; row < u.size() / width; ++row) {
      double squares = 0;
      for (std::size_t j = 0; j < width; ++j) squares += u[row * width + j] * u[row * width + j];
      EXPECT_NEAR(squares, 1, 1e-14) << kind;
    }
  }
}

TEST(InitialState, of_groups_has_points_around_their_directions) {
  const auto state = [](double scale) {
    return state_of({.kind = "clustered_sphere", .scale = scale, .groups = 3, .seed = 2});
  };
  const auto exact = state(0), spread = state(0.01);
  const int row_width = initial_state_samples * width;
  for (std::size_t row = 0; row < spread.size() / width; ++row) {
    // Token j is in group j mod 3, whose direction is the same in all cells and samples.
    const std::size_t token = row / initial_state_samples % initial_state_tokens;
    const double* const direction = exact.data() + token % 3 * row_width;
    double square = 0, apart = 0, gap = 0;
    for (std::size_t j = 0; j < width; ++j) {
      square += std::pow(spread[row * width + j], 2);
      apart += std::pow(spread[row * width + j] - direction[j], 2);
      gap = std::max(gap, std::abs(exact[row * width + j] - direction[j]));
    }
    EXPECT_EQ(gap, 0);
    EXPECT_NEAR(square, 1, 1e-14);
    EXPECT_GT(apart, 0);
    EXPECT_LT(apart, std::pow(0.01 * 6, 2));  // sqrt(5) deviations and some
  }
  EXPECT_NE(std::vector(exact.begin(), exact.begin() + width),
            std::vector(exact.begin() + row_width, exact.begin() + row_width + width));
}

TEST(InitialState, of_a_cosine_is_the_product_of_modes_on_a_grid) {
  const auto u = state_of({.kind = "cosine", .scale = 3, .mode = 2});
  for (int x = 0; x < nx; ++x)
    for (int y = 0; y < ny; ++y)
      EXPECT_NEAR(u[(y * nx + x) * initial_state_samples * width],
                  3 * std::cos(2 * std::numbers::pi * (x + 0.5) / nx) *
                      std::cos(2 * std::numbers::pi * (y + 0.5) / ny),
                  1e-14);
}

TEST(InitialState, of_quantiles_rises_from_token_to_token_and_is_odd) {
  const auto u = state_of({.kind = "quantiles", .scale = 2});
  const auto at = [&](int token) { return u[token * initial_state_samples * width]; };
  for (int token = 0; token < initial_state_tokens; ++token) {
    EXPECT_NEAR(0.5 * std::erfc(-at(token) / 2 / std::numbers::sqrt2), (token + 0.5) / initial_state_tokens,
                1e-14);
    EXPECT_NEAR(at(token), -at(initial_state_tokens - 1 - token), 1e-13);
  }
}

TEST(InitialState, refuses_what_it_does_not_know_and_zero_vectors_for_the_sphere) {
  EXPECT_THROW(state_of({.kind = "anything"}), BadInput);
  EXPECT_THROW(state_of({.kind = "cosine", .scale = 0, .no_zero_vectors = true}), BadInput);
  EXPECT_THROW(state_of({.no_zero_vectors = true}), BadInput);
  EXPECT_NO_THROW(state_of({.kind = "cosine", .scale = 0}));
}

TEST(EquiangularPoints, have_unit_norm_and_the_inner_product_asked_for) {
  constexpr int n = 5, d = 7;
  for (const double gamma : {0.0, 0.6, 1.0, -0.25}) {
    const auto x = equiangular_points(n, d, gamma);
    for (int i = 0; i < n; ++i)
      for (int k = 0; k <= i; ++k) {
        double product = 0;
        for (int j = 0; j < d; ++j) product += x[i * d + j] * x[k * d + j];
        EXPECT_NEAR(product, i == k ? 1 : gamma, 1e-7) << gamma;  // the root of round-off at -1/(n-1)
      }
  }
  EXPECT_THROW(equiangular_points(5, 4, 0.5), BadInput);
  EXPECT_THROW(equiangular_points(5, 5, -0.26), BadInput);
}

TEST(Inflow, of_samples_is_their_embedding_and_of_noise_depends_on_the_index_alone) {
  auto spec = small_model(1);
  spec.features = 3;
  const auto parameters = random_parameters({.model = spec});
  const auto data = random_samples(4, 3, 1, 3, 2, 1);
  const auto line = TokenLine::even(MPI_COMM_SELF, 3, 1);
  const SlabContext context{&line, 2, spec.width};
  std::vector<double> one(context.size()), other(context.size());
  const auto same = [&] {  // sample 0 of `one` and sample 1 of `other`
    for (std::size_t t = 0; t < 3; ++t)
      for (std::size_t j = 0; j < static_cast<std::size_t>(spec.width); ++j) {
        const auto d = static_cast<std::size_t>(spec.width);
        if (one[(2 * t) * d + j] != other[(2 * t + 1) * d + j]) return false;
      }
    return true;
  };
  fill_with_samples(data, {3, 1}, parameters, context, one.data());
  fill_with_samples(data, {1, 3}, parameters, context, other.data());
  EXPECT_TRUE(same());
  fill_with_noise({3, 1}, 7, context, one.data());
  fill_with_noise({1, 3}, 7, context, other.data());
  EXPECT_TRUE(same());
  fill_with_noise({1, 4}, 7, context, other.data());
  EXPECT_FALSE(same());
}

}  // namespace
}  // namespace fluxformer
