// Spectra of states that are known exactly, and what they must not depend on.

#include "analysis/states/state_spectrum.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>

#include "tests/support/listed_samples.hpp"
#include "tests/support/test_vectors.hpp"
#include "tests/unit/analysis/probe_case.hpp"

namespace fluxformer::states {
namespace {

using namespace test;

constexpr double state_spectrum_rounding = 1e-13;  // bidiagonalisation of matrices of some ten rows

/// Spectrum of one slab [token][sample][channel].
SpectrumAccumulator spectrum_of(const SlabContext& context, const std::vector<double>& u) {
  SpectrumAccumulator meter(1, std::min(context.line->tokens(), context.width), context);
  meter.add(0, u.data());
  meter.reduce(MPI_COMM_SELF);
  return meter;
}

TEST(EffectiveRank, of_known_singular_values) {
  const auto of = [](std::initializer_list<double> list) {
    Eigen::VectorXd sigma(static_cast<Index>(list.size()));
    std::ranges::copy(list, sigma.begin());
    return effective_rank_of(sigma);
  };
  EXPECT_NEAR(of({2, 2, 2}), 3, state_spectrum_rounding);
  EXPECT_NEAR(of({4, 2, 2}), std::pow(2, 1.5),
              state_spectrum_rounding);  // entropy of 1/2, 1/4, 1/4: 3/2 ln 2
  EXPECT_EQ(of({5}), 1);
  EXPECT_EQ(of({5, 0, 0}), 1);
  EXPECT_EQ(of({0, 0}), 0);
  EXPECT_TRUE(std::isnan(of({1, std::nan("")})));
}

TEST(StateSpectrum, of_two_tokens_by_hand) {
  const auto line = TokenLine::even(MPI_COMM_SELF, 2, 1);
  const SlabContext context{&line, 1, 3};
  const auto found = spectrum_of(context, {0, 3, 0, 1, 0, 0});  // singular values 3 and 1
  ASSERT_EQ(found.singular_values().size(), 2u);
  EXPECT_NEAR(found.singular_values()[0], 3 / std::sqrt(10), state_spectrum_rounding);
  EXPECT_NEAR(found.singular_values()[1], 1 / std::sqrt(10), state_spectrum_rounding);
  EXPECT_NEAR(found.effective_rank()[0], 4 / std::pow(3, 0.75), state_spectrum_rounding);  // p = 3/4, 1/4
}

TEST(StateSpectrum, tokens_that_are_alike_have_rank_one_and_orthogonal_ones_full_rank) {
  const auto line = TokenLine::even(MPI_COMM_SELF, 5, 1);
  const SlabContext context{&line, 1, 7};
  std::vector<double> alike, orthogonal(35, 0.0);
  const auto token = random_vector(7, 1);
  for (std::size_t x = 0; x < 5; ++x) {
    alike.insert(alike.end(), token.begin(), token.end());
    orthogonal[x * 7 + x + 2] = x % 2 == 0 ? 4 : -4;
  }
  const auto one = spectrum_of(context, alike), full = spectrum_of(context, orthogonal);
  EXPECT_NEAR(one.effective_rank()[0], 1,
              40 * state_spectrum_rounding);  // -p ln p of four p of the size of round-off
  EXPECT_NEAR(one.singular_values()[0], 1, state_spectrum_rounding);
  EXPECT_NEAR(full.effective_rank()[0], 5, state_spectrum_rounding);
  for (const double sigma : full.singular_values())
    EXPECT_NEAR(sigma, 1 / std::sqrt(5), state_spectrum_rounding);
}

TEST(StateSpectrum, is_a_mean_over_samples_that_ignores_padding_and_fillers) {
  const auto line = TokenLine::even(MPI_COMM_SELF, 4, 1);
  SlabContext context{&line, 3, 2};
  context.mask.length = {4, 1, 0};
  auto u = random_vector(24, 2);
  for (std::size_t token = 0; token < 4; ++token)
    for (std::size_t b = 1; b < 3; ++b)
      if (b == 2 || token > 0) u[(token * 3 + b) * 2] = u[(token * 3 + b) * 2 + 1] = NAN;
  const auto both = spectrum_of(context, u);
  std::vector<double> first;
  for (std::size_t token = 0; token < 4; ++token) first.insert(first.end(), &u[token * 6], &u[token * 6 + 2]);
  const auto alone = spectrum_of({&line, 1, 2}, first);
  // The second sample is a single token: rank 1, and a second singular value of 0.
  EXPECT_NEAR(both.effective_rank()[0], (alone.effective_rank()[0] + 1) / 2, state_spectrum_rounding);
  EXPECT_NEAR(both.singular_values()[0], (alone.singular_values()[0] + 1) / 2, state_spectrum_rounding);
  EXPECT_NEAR(both.singular_values()[1], alone.singular_values()[1] / 2, state_spectrum_rounding);
}

TEST(StateSpectrum, does_not_depend_on_scale_and_zero_has_none) {
  const auto line = TokenLine::even(MPI_COMM_SELF, 6, 1);
  const SlabContext context{&line, 1, 4};
  auto u = random_vector(24, 3);
  const auto before = spectrum_of(context, u);
  for (double& value : u) value *= -1e-3;
  const auto after = spectrum_of(context, u);
  EXPECT_NEAR(after.effective_rank()[0], before.effective_rank()[0], state_spectrum_rounding);
  for (std::size_t k = 0; k < 4; ++k)
    EXPECT_NEAR(after.singular_values()[k], before.singular_values()[k], state_spectrum_rounding);
  const auto zero = spectrum_of(context, std::vector<double>(24, 0.0));
  EXPECT_EQ(zero.effective_rank()[0], 0);
  EXPECT_EQ(zero.singular_values(), std::vector<double>(4, 0.0));
}

TEST(StateSpectrum, of_a_state_that_is_not_finite_is_nan) {
  const auto line = TokenLine::even(MPI_COMM_SELF, 3, 1);
  const SlabContext context{&line, 1, 2};
  for (const double bad : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    const auto found = spectrum_of(context, {1, 2, 3, bad, 5, 6});
    EXPECT_TRUE(std::isnan(found.effective_rank()[0]));
    for (const double sigma : found.singular_values()) EXPECT_TRUE(std::isnan(sigma));
  }
}

TEST(StateSpectrum, keeps_as_many_values_as_asked_for) {
  const auto line = TokenLine::even(MPI_COMM_SELF, 2, 1);
  const SlabContext context{&line, 1, 3};
  const std::vector<double> u{0, 3, 0, 1, 0, 0};
  for (const std::size_t modes : {1u, 3u}) {
    SpectrumAccumulator meter(1, static_cast<int>(modes), context);
    meter.add(0, u.data());
    meter.reduce(MPI_COMM_SELF);
    const auto values = meter.singular_values();
    ASSERT_EQ(values.size(), modes);
    EXPECT_NEAR(values[0], 3 / std::sqrt(10), state_spectrum_rounding);
    EXPECT_EQ(values.back() == 0, modes == 3);
    EXPECT_NEAR(meter.effective_rank()[0], 4 / std::pow(3, 0.75), state_spectrum_rounding);  // of all values
  }
}

TEST(StateSpectrum, of_a_model_starts_with_that_of_its_embedding) {
  const auto data = random_samples(1, 6, 1, 3, 4, 1);
  const auto line = token_line(MPI_COMM_SELF, data);
  const SampleSet samples(MPI_COMM_SELF, line, data, all_of(data), 1);
  ModelProbe probe(probe_parameters({.tokens_x = 6, .tokens_y = 1}), line, 1, Precision::float64);
  const auto found = measure_spectrum(samples, probe, 6);
  ASSERT_EQ(found.effective_rank().size(), 3u);
  std::vector<double> u;
  samples.for_batches([&](const Batch& batch) { probe.embed(batch, u); });
  EXPECT_NEAR(found.effective_rank()[0], spectrum_of(probe.counted(), u).effective_rank()[0],
              state_spectrum_rounding);
  EXPECT_GT(std::abs(found.effective_rank()[2] - found.effective_rank()[0]), 1e-6);
}

}  // namespace
}  // namespace fluxformer::states
