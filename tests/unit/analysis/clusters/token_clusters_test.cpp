// Clusters among the tokens of models: components by hand, measures of a model against their definitions, hypotheses on its heads.

#include "analysis/clusters/token_clusters.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <utility>
#include <vector>

#include "analysis/clusters/evenly_spread.hpp"
#include "analysis/clusters/growth_rates.hpp"
#include "analysis/clusters/head_maps.hpp"
#include "analysis/dense_matrices.hpp"
#include "analysis/state_examples.hpp"
#include "model/initialise.hpp"
#include "tests/support/listed_samples.hpp"
#include "tests/support/small_problem.hpp"
#include "tests/support/test_matrices.hpp"
#include "tests/support/test_vectors.hpp"
#include "tests/unit/analysis/probe_case.hpp"

namespace fluxformer::clusters {
namespace {

using namespace test;

std::vector<double> products_of_angles(const std::vector<double>& angles) {
  std::vector<double> found;
  for (const double a : angles)
    for (const double b : angles) found.push_back(std::cos(a - b));
  return found;
}

TEST(ComponentsOfTokens, by_hand) {
  const auto of = [](const std::vector<double>& angles, double delta) {
    return components_of(products_of_angles(angles), delta);
  };
  EXPECT_EQ(of({0.3}, 0.1).number, 1);
  EXPECT_EQ(of({0.3, 0.3, 0.3}, 0.1).number, 1);
  EXPECT_EQ(of({0.3, 0.3 + std::numbers::pi}, 0.1).number, 2);
  EXPECT_EQ(of({-0.04, 0.04, 2 * std::numbers::pi - 0.1}, 0.1).number, 1);  // across angle 0
  // A chain of five within 0.1 of each other is one component, but wider than 0.3; two others are compact.
  const auto chain = of({0, 0.09, 0.18, 0.27, 0.36, 2, 2.05, 4}, 0.1);
  EXPECT_EQ(chain.number, 3);
  EXPECT_NEAR(chain.compact_share, 3.0 / 8, 1e-15);
  EXPECT_NEAR(of({0, 0.09, 0.18, 0.27, 2}, 0.1).compact_share, 1, 1e-15);
  EXPECT_EQ(of({0, 1, 2, 3}, 1.1).number, 1);
  EXPECT_NEAR(of({0, 1, 2, 3}, 1.1).compact_share, 1, 1e-15);  // 3 delta is beyond pi
}

struct Measured {
  explicit Measured(int samples_count, bool nulls = true)
      : Measured(random_samples(samples_count, 6, 1, 3, 4, 1), nulls) {}
  Measured(ListedSamples listed, bool nulls)
      : Measured(std::move(listed), nulls, probe_parameters({.tokens_x = 6, .tokens_y = 1})) {}
  Measured(ListedSamples listed, bool nulls, Parameters parameters)
      : data(std::move(listed)),
        line(token_line(MPI_COMM_SELF, data)),
        samples(MPI_COMM_SELF, line, data, all_of(data), 3),
        probe(std::move(parameters), line, 3, Precision::float64),
        settings{.betas = {0.5, 3}, .deltas = {0.4}, .nulls = nulls, .seed = 5},
        found(measure_token_clusters(samples, probe, settings)) {}
  /// States of each sample at a row.
  std::vector<RowMatrix> states(int at) {
    std::vector<RowMatrix> all(samples.size());
    std::vector<double> u;
    samples.for_batches([&](const Batch& batch) {
      probe.embed(batch, u);
      probe.forward(u, Keep::nothing, [&](int row, const double* state) {
        if (row != at) return;
        for (int b = 0; b < 3; ++b)
          if (batch.weight[b] != 0) all[batch.key[b]] = sample_of(probe.counted(), state, b);
      });
    });
    return all;
  }
  /// Tokens of each sample at a row, as they are or less the mean of all.
  std::vector<RowMatrix> tokens(int at, bool centred) {
    auto all = states(at);
    Eigen::RowVectorXd mean = Eigen::RowVectorXd::Zero(all[0].cols());
    Index count = 0;
    for (const auto& one : all) mean += one.colwise().sum(), count += one.rows();
    for (auto& one : all) {
      if (centred) one.rowwise() -= mean / static_cast<double>(count);
      one.rowwise().normalize();
    }
    return all;
  }
  static double log_number_2(const RowMatrix& x, double beta) {
    double sum = 0;
    for (Index i = 0; i < x.rows(); ++i)
      for (Index j = 0; j < x.rows(); ++j) sum += std::exp(beta * (x.row(i).dot(x.row(j)) - 1));
    return std::log(static_cast<double>(x.rows() * x.rows()) / sum);
  }

  ListedSamples data;
  TokenLine line;
  SampleSet samples;
  ModelProbe probe;
  TokenClusterSettings settings;
  TokenClusters found;
};

// Sums of some tens of numbers of order one.
constexpr double token_cluster_rounding = 1e-12;

TEST(TokenClusters, are_those_of_their_definitions) {
  Measured m(7);
  ASSERT_EQ(m.found.number_2.size(), 3u * 2 * 2);
  for (int depth = 0; depth < 3; ++depth)
    for (const int centring : {0, 1}) {
      const auto tokens = m.tokens(depth, centring == 1);
      const Index at = depth * 2 + centring;
      for (const int beta : {0, 1}) {
        double sum = 0;
        for (const auto& x : tokens) sum += Measured::log_number_2(x, m.settings.betas[beta]);
        EXPECT_NEAR(m.found.number_2[at * 2 + beta], std::exp(sum / 7), token_cluster_rounding);
      }
      double within = 0, between = 0, pairs_within = 0, pairs_between = 0, components = 0;
      for (std::size_t a = 0; a < tokens.size(); ++a) {
        for (std::size_t b = 0; b < tokens.size(); ++b)
          for (Index i = 0; i < tokens[a].rows(); ++i)
            for (Index j = 0; j < tokens[b].rows(); ++j) {
              if (a == b && i == j) continue;
              (a == b ? within : between) += tokens[a].row(i).dot(tokens[b].row(j));
              (a == b ? pairs_within : pairs_between) += 1;
            }
        const RowMatrix products = tokens[a] * tokens[a].transpose();
        const std::vector<double> list(products.data(), products.data() + products.size());
        components += static_cast<double>(components_of(list, 0.4).number);
      }
      EXPECT_NEAR(m.found.cosine_within[at], within / pairs_within, token_cluster_rounding);
      EXPECT_NEAR(m.found.cosine_between[at], between / pairs_between, token_cluster_rounding);
      EXPECT_NEAR(m.found.components[at], components / 7, token_cluster_rounding);
    }
  EXPECT_EQ(m.found.left_out, std::vector<double>(3 * 2, 0.0));
}

TEST(TokenClusters, escape_is_taken_on_the_half_that_did_not_choose_the_depth) {
  Measured m(7);
  for (const int centring : {0, 1})
    for (const int beta : {0, 1}) {
      std::vector<double> means[2] = {std::vector<double>(3, 0.0), std::vector<double>(3, 0.0)};
      for (int depth = 0; depth < 3; ++depth) {
        const auto tokens = m.tokens(depth, centring == 1);
        for (std::size_t sample = 0; sample < 7; ++sample)
          means[sample % 2][depth] +=
              Measured::log_number_2(tokens[sample], m.settings.betas[beta]) / (sample % 2 == 0 ? 4 : 3);
      }
      double expected = 0;
      for (const int half : {0, 1}) {
        const auto least = std::ranges::min_element(means[half]) - means[half].begin();
        expected += (means[1 - half][2] - means[1 - half][least]) / 2;
      }
      EXPECT_NEAR(m.found.escape[centring * 2 + beta], expected, token_cluster_rounding);
      EXPECT_GT(m.found.escape_error[centring * 2 + beta], 0);
    }
  EXPECT_TRUE(std::isnan(Measured(1).found.escape[0]));
}

TEST(TokenClusters, have_nulls_of_as_many_tokens) {
  Measured m(400);
  for (const int beta : {0, 1}) {
    double sum = 0;
    for (std::size_t sample = 0; sample < m.data.size(); ++sample) {
      const double n = m.data.length(sample);
      // lambda_0 = e^{-beta} Gamma(3) (2 / beta)^2 I_2(beta) on the sphere in 6 dimensions
      const double b = m.settings.betas[beta], mean = std::exp(-b) * 8 / (b * b) * std::cyl_bessel_i(2, b);
      sum -= std::log(1 / n + (1 - 1 / n) * mean);
    }
    EXPECT_NEAR(m.found.number_2_uniform[beta], std::exp(sum / 400), 1e-12);
  }
  // At depth 0 the states of normal features are normal themselves, but for positions; they fill three of six dimensions, and tokens of permuted
  // channels fill all of them.
  for (const int beta : {0, 1}) {
    const Index centred = (0 * 2 + 1) * 2 + beta;
    EXPECT_NEAR(m.found.number_2_normal[centred] / m.found.number_2[centred], 1, 0.02) << beta;
    EXPECT_GT(m.found.number_2_permuted[centred] / m.found.number_2[centred], 1.02) << beta;
    EXPECT_NEAR(m.found.number_2_normal[beta] / m.found.number_2[beta], 1, 0.02) << beta;
  }
  EXPECT_TRUE(Measured(3, false).found.number_2_normal.empty());
}

TEST(TokenClusters, leave_out_padding_and_tokens_without_direction) {
  // The same tokens behind padding of other numbers; and equal tokens, of which nothing is left when they are centred.
  ListedSamples::Content content{.tokens_x = 6,
                                 .features = 3,
                                 .classes = 4,
                                 .input = random_vector(2 * 6 * 3, 3),
                                 .lengths = {4, 6},
                                 .labels = {0, 1}};
  const auto first = Measured(ListedSamples(content), true).found;
  for (int j = 4 * 3; j < 6 * 3; ++j) content.input[j] = 77;
  const auto other = Measured(ListedSamples(content), true).found;
  EXPECT_EQ(first.number_2, other.number_2);
  EXPECT_EQ(first.components, other.components);
  EXPECT_EQ(first.cosine_within, other.cosine_within);
  EXPECT_EQ(first.number_2_normal, other.number_2_normal);
  const double n = 5;  // geometric mean of 1 / (1/n + ...) lies between those of 4 and 6 tokens
  EXPECT_LT(std::abs(first.number_2_uniform[0] - 1 / (1 / n + (1 - 1 / n) * kernel_eigenvalue(6, 0.5, 0))),
            0.1);
}

TEST(TokenClusters, say_so_if_a_state_is_not_finite) {
  ListedSamples::Content content{.tokens_x = 6,
                                 .features = 3,
                                 .classes = 4,
                                 .input = random_vector(2 * 6 * 3, 3),
                                 .lengths = {6, 6},
                                 .labels = {0, 1}};
  content.input[5] = std::nan("");
  const auto found = Measured(ListedSamples(content), false).found;
  EXPECT_TRUE(std::isnan(found.number_2[0]));
  EXPECT_TRUE(std::isnan(found.number_2[2]));
  EXPECT_EQ(found.left_out[0], 0);
}

TEST(TokenClusters, of_one_sample_have_no_cosine_between_samples) {
  const auto found = Measured(1).found;
  EXPECT_TRUE(std::isfinite(found.cosine_within[0]));
  EXPECT_TRUE(std::isnan(found.cosine_between[0]));
}

/// The effective rank by the eigenvalues of the products of all tokens.
double rank_by_products(const RowMatrix& x) {
  const Eigen::VectorXd sigma =
      symmetric_eigen(x * x.transpose(), Eigen::EigenvaluesOnly).values.cwiseMax(0).cwiseSqrt();
  double entropy = 0;
  for (const double s : sigma)
    if (s > 0) entropy -= s / sigma.sum() * std::log(s / sigma.sum());
  return std::exp(entropy);
}

TEST(TokenClusters, have_effective_ranks_and_leaders) {
  Measured m(7);
  m.settings.deltas = {0.1, 1};  // of two the second is the middle one
  const auto measured = measure_token_clusters(m.samples, m.probe, m.settings);
  for (int depth = 0; depth < 3; ++depth)
    for (const int centring : {0, 1}) {
      double rank = 0, leaders = 0, angle = 0;
      for (const auto& x : m.tokens(depth, centring == 1)) {
        rank += rank_by_products(x) / 7;
        std::vector<Index> found;
        const auto nearest = [&](Index i) {
          double least = 10;  // 2 atan(|x - y| / |x + y|) is at most pi
          for (const Index j : found)
            least =
                std::min(least, 2 * std::atan2((x.row(i) - x.row(j)).norm(), (x.row(i) + x.row(j)).norm()));
          return least;
        };
        for (Index i = 0; i < x.rows(); ++i)
          if (nearest(i) > 1) found.push_back(i);
        for (Index i = 0; i < x.rows(); ++i) angle += nearest(i) / static_cast<double>(x.rows()) / 7;
        leaders += static_cast<double>(found.size()) / 7;
      }
      const Index at = depth * 2 + centring;
      // Square roots of eigenvalues of products: the smallest singular values have the round-off of the largest over themselves.
      EXPECT_NEAR(measured.effective_rank[at], rank, 1e-7);
      EXPECT_NEAR(measured.leaders[at], leaders, token_cluster_rounding);
      EXPECT_NEAR(measured.leader_angle[at], angle, 1e-7);  // by products: to some 3e-8
    }
  EXPECT_GT(measured.leader_angle[0], 0);
  // The embedded tokens are normal but for their positions: means of 400 samples have a standard error of 0.7 %.
  const Measured many(400);
  EXPECT_NEAR(many.found.effective_rank_normal[1] / many.found.effective_rank[1], 1, 0.03);
}

TEST(LeadersByProducts, by_hand) {
  const auto of = [](const std::vector<double>& angles) {
    return leaders_by_products(products_of_angles(angles), 0.3);
  };
  constexpr double acos_rounding = 1e-7;  // angles by products
  EXPECT_EQ(of({0, 0.2, 0.5, 0.9, 1}).leaders, 3);
  EXPECT_NEAR(of({0, 0.2, 0.5, 0.9, 1}).angle, 0.3 / 5, acos_rounding);
  // The nearest leader is not the first within reach, and may come later.
  EXPECT_EQ(of({0, 0.35, 0.25}).leaders, 2);
  EXPECT_NEAR(of({0, 0.35, 0.25}).angle, 0.1 / 3, acos_rounding);
  EXPECT_NEAR(of({0, 0.25, 0.35}).angle, 0.1 / 3, acos_rounding);
  EXPECT_EQ(of({0.25, 0, 0.35}).leaders, 1);
  EXPECT_NEAR(of({0.25, 0, 0.35}).angle, 0.35 / 3, acos_rounding);
  EXPECT_EQ(of({1, 1 + std::numbers::pi}).leaders, 2);
  EXPECT_EQ(of({1, 1 + std::numbers::pi}).angle, 0);
  EXPECT_NEAR(of({1, 1, 1}).angle, 0, acos_rounding);
  EXPECT_TRUE(std::isnan(leaders_by_products(std::vector<double>{}, 0.3).angle));
  EXPECT_TRUE(
      std::isnan(leaders_by_products(std::vector<double>{1, std::nan(""), std::nan(""), 1}, 0.3).angle));
}

TEST(LongestPlateau, by_hand) {
  const std::vector<double> s{0, 0.5, 1, 2, 3, 4};
  const std::vector<bool> all(6, true);
  EXPECT_EQ(longest_plateau(s, std::vector<double>{5, 4, 3, 3, 3, 2}, all), 2);
  EXPECT_EQ(longest_plateau(s, std::vector<double>{4, 4, 4, 4, 4, 4}, all), 4);
  EXPECT_EQ(longest_plateau(s, std::vector<double>{1, 2, 3, 4, 5, 6}, all), 0);
  EXPECT_EQ(longest_plateau(s, std::vector<double>{4, 4, 4, 4, 4, 4}, std::vector<bool>(6, false)), 0);
  EXPECT_EQ(longest_plateau(s, std::vector<double>{4, 4, 4, 4, 4, 4}, {true, true, false, true, true, true}),
            2);
  EXPECT_EQ(longest_plateau(s, std::vector<double>{4, 4, 4, 4, 4, 2}, {false, true, true, true, false, true}),
            1.5);
}

TEST(NumberAcross, of_orthogonal_tokens_is_that_of_single_ones) {
  const RowMatrix tokens = 3 * RowMatrix::Identity(5, 7);
  const std::vector<double> betas{0.5, 3};
  for (const Index first : {0, 3}) {  // from 3 on around the end
    const auto found = log_number_across(tokens, first, 4, 0, betas);
    for (const std::size_t k : {0, 1})
      EXPECT_NEAR(found[k], std::log(4 / (1 + 3 * std::exp(-betas[k]))), 1e-14);
  }
  RowMatrix pairs = tokens;
  pairs.row(0) = 2 * pairs.row(4);  // the same direction
  EXPECT_NEAR(log_number_across(pairs, 4, 2, 0, betas)[1], 0, 1e-14);
  EXPECT_NEAR(log_number_across(pairs, 3, 2, 0, betas)[1], std::log(2 / (1 + std::exp(-3.0))), 1e-14);
  pairs.row(1).setZero();  // has no direction
  EXPECT_NEAR(log_number_across(pairs, 0, 2, 0, betas)[1], 0, 1e-14);
  EXPECT_TRUE(std::isnan(log_number_across(tokens, 0, 6, 0, betas)[0]));
}

/// A model of `layers` layers whose states are the linear embedding of the features, without positions, at all depths.
Parameters constant_states(int layers) {
  auto p = probe_parameters(
      {.alpha = 0, .rho = 0, .layers = layers, .cells = layers, .tokens_x = 6, .tokens_y = 1});
  std::ranges::fill(p.view("embedding/position"), 0.0);
  return p;
}

/// Samples of six tokens in groups of these sizes; in each sample the tokens of a group are the same.
ListedSamples groups_of(int samples, const std::vector<int>& sizes) {
  ListedSamples::Content content{
      .tokens_x = 6, .features = 3, .classes = 4, .input = {}, .lengths = {}, .labels = {}};
  for (int sample = 0; sample < samples; ++sample) {
    const auto groups = random_vector(3 * sizes.size(), 70 + static_cast<unsigned>(sample));
    for (std::size_t group = 0; group < sizes.size(); ++group)
      for (int t = 0; t < sizes[group]; ++t)
        for (int j = 0; j < 3; ++j) content.input.push_back(groups[3 * group + j]);
    content.lengths.push_back(6);
    content.labels.push_back(0);
  }
  return ListedSamples(std::move(content));
}

TEST(TokenClusters, uniform_null_is_the_mean_of_uniform_tokens) {
  // 64 tokens, d = 16, beta = 8: 1 / N_2 is 1/n + (1 - 1/n) lambda_0 in the mean.
  constexpr int n = 64, dimension = 16, sets = 400;
  constexpr double known = 56.6013;
  ModelSpec model = small_model(2);
  model.width = dimension;
  model.features = 3;
  model.tokens = n;
  model.classes = 4;
  model.cells = 2;
  ListedSamples::Content content{.tokens_x = 8,
                                 .tokens_y = 8,
                                 .features = 3,
                                 .classes = 4,
                                 .input = random_vector(2 * n * 3, 3),
                                 .lengths = {n, n},
                                 .labels = {0, 1}};
  Measured m(ListedSamples(std::move(content)), false, random_parameters({.model = model}));
  m.settings.betas = {8};
  const auto measured = measure_token_clusters(m.samples, m.probe, m.settings);
  EXPECT_NEAR(measured.number_2_uniform[0], known, 5e-5);
  double sum = 0, squares = 0;
  for (int set = 0; set < sets; ++set) {
    const auto tokens = random_tokens(set * n, n, dimension, 7);
    const RowMatrix x = Eigen::Map<const RowMatrix>(tokens.x.data(), n, dimension);
    const double inverse = std::exp(-Measured::log_number_2(x, 8));
    sum += inverse, squares += inverse * inverse;
  }
  const double mean = sum / sets, error = std::sqrt((squares / sets - mean * mean) / (sets - 1));
  EXPECT_NEAR(mean, 1 / known, 4 * error);
  EXPECT_LT(error * known, 0.002);  // so that this is a test
}

TEST(TokenClusters, nulls_of_independent_normal_tokens_are_these_within_four_standard_errors) {
  // Without positions all tokens are independent and normal: as good as normal ones of their mean and covariance, and as tokens of different
  // samples.
  constexpr int samples = 400;
  ListedSamples::Content content{.tokens_x = 6,
                                 .features = 3,
                                 .classes = 4,
                                 .input = random_vector(samples * 6 * 3, 1),
                                 .lengths = std::vector<int>(samples, 6),
                                 .labels = std::vector<int>(samples, 0)};
  Measured m(ListedSamples(std::move(content)), true, constant_states(2));
  for (int depth = 0; depth < 3; ++depth)
    for (const int centring : {0, 1}) {
      const auto tokens = m.tokens(depth, centring == 1);
      for (const int beta : {0, 1}) {
        double sum = 0, squares = 0;
        for (const auto& x : tokens) {
          const double one = Measured::log_number_2(x, m.settings.betas[beta]);
          sum += one, squares += one * one;
        }
        const double mean = sum / samples,
                     error = std::sqrt((squares / samples - mean * mean) / (samples - 1));
        const Index at = (depth * 2 + centring) * 2 + beta;
        EXPECT_NEAR(std::log(m.found.number_2[at]), mean, token_cluster_rounding);
        // Both means have this error; sets across samples overlap: at least a sixth of them do not.
        EXPECT_NEAR(std::log(m.found.number_2_normal[at]), mean, 4 * std::sqrt(2.0) * error) << at;
        EXPECT_NEAR(std::log(m.found.number_2_across[at]), mean, 4 * std::sqrt(1.0 + 6.0) * error) << at;
        // Centred tokens fill three dimensions, those of permuted channels six.
        if (centring == 1 && beta == 1) {
          EXPECT_GT(std::log(m.found.number_2_permuted[at]), mean + 4 * std::sqrt(2.0) * error);
        }
      }
    }
}

TEST(TokenClusters, groups_of_tokens_have_the_number_of_their_shares) {
  // N_2 = 1 / sum_ab p_a p_b e^{beta (<x_a, x_b> - 1)}
  const std::vector<int> sizes{3, 2, 1};
  Measured m(groups_of(7, sizes), false, constant_states(2));
  for (int depth = 0; depth < 3; ++depth)
    for (const int centring : {0, 1}) {
      const auto tokens = m.tokens(depth, centring == 1);
      for (const int beta : {0, 1}) {
        double logarithm = 0;
        for (const auto& x : tokens) {
          const Index of_group[] = {0, 3, 5};
          double sum = 0;
          for (int a = 0; a < 3; ++a)
            for (int b = 0; b < 3; ++b)
              sum += sizes[a] / 6.0 * sizes[b] / 6.0 *
                     std::exp(m.settings.betas[beta] * (x.row(of_group[a]).dot(x.row(of_group[b])) - 1));
          logarithm -= std::log(sum) / 7;
        }
        EXPECT_GT(logarithm, 1e-3);
        EXPECT_NEAR(m.found.number_2[(depth * 2 + centring) * 2 + beta], std::exp(logarithm),
                    token_cluster_rounding);
      }
    }
}

TEST(TokenClusters, tell_clusters_within_samples_from_clusters_of_all_samples) {
  // All tokens of a sample are the same, and the samples apart: one cluster in each. Six samples of six tokens: each set of one token of
  // each sample has all six, whatever their order.
  Measured m(groups_of(6, {6}), true, constant_states(2));
  RowMatrix one_each(6, 6);
  for (int depth = 0; depth < 3; ++depth) {
    const auto tokens = m.tokens(depth, false);
    for (int sample = 0; sample < 6; ++sample) one_each.row(sample) = tokens[sample].row(sample);
    for (const int beta : {0, 1}) {
      const Index at = depth * 4 + beta;
      EXPECT_NEAR(m.found.number_2[at], 1, token_cluster_rounding);
      EXPECT_NEAR(m.found.number_2_across[at],
                  std::exp(Measured::log_number_2(one_each, m.settings.betas[beta])), token_cluster_rounding);
    }
    EXPECT_GT(m.found.number_2_across[depth * 4 + 1], 1.5);
    // -p ln p of five p of the size of round-off
    EXPECT_NEAR(m.found.effective_rank[depth * 2], 1, 10 * token_cluster_rounding);
  }
  // The other way round: all samples are the same, so that sets of tokens at all six places are samples.
  auto content = ListedSamples::Content{.tokens_x = 6,
                                        .features = 3,
                                        .classes = 4,
                                        .input = {},
                                        .lengths = std::vector<int>(12, 6),
                                        .labels = std::vector<int>(12, 0)};
  const auto tokens = random_vector(6 * 3, 9);
  for (int sample = 0; sample < 12; ++sample)
    content.input.insert(content.input.end(), tokens.begin(), tokens.end());
  const auto same = Measured(ListedSamples(content), true).found;
  for (std::size_t k = 0; k < same.number_2.size(); ++k)
    EXPECT_NEAR(same.number_2_across[k], same.number_2[k], token_cluster_rounding);
  EXPECT_TRUE(std::isnan(Measured(groups_of(5, {6}), true, constant_states(2)).found.number_2_across[0]));
  EXPECT_TRUE(Measured(3, false).found.number_2_across.empty());
}

TEST(TokenClusters, have_plateaus_where_clusters_of_several_tokens_stay) {
  // Two points in each sample, at all depths, farther apart than 0.4 in random directions but for few samples.
  for (const int layers : {2, 4}) {
    Measured m(groups_of(8, {3, 3}), false, constant_states(layers));
    double apart = 0;
    for (const auto& x : m.tokens(0, false)) apart += x.row(0).dot(x.row(5)) < std::cos(0.4) ? 1.0 / 8 : 0;
    ASSERT_GT(apart, 0);
    EXPECT_NEAR(m.found.plateau[0], apart * layers, 1e-12);
    EXPECT_NEAR(m.found.plateau_share[0], layers == 4 ? apart : 0, 1e-12);
  }
  // One cluster of all tokens is no plateau, nor are tokens each of which is alone.
  EXPECT_EQ(Measured(groups_of(8, {6}), false, constant_states(4)).found.plateau[0], 0);
  auto single = Measured(random_samples(6, 6, 1, 3, 4, 1), false, constant_states(4));
  single.settings.deltas = {1e-6};
  EXPECT_EQ(measure_token_clusters(single.samples, single.probe, single.settings).plateau[0], 0);
}

TEST(TokenClusters, have_the_energy_change_of_each_layer) {
  for (const int cells : {2, 4, 3}) {
    const ProbeSpec spec{.kind = cells == 2 ? ModelKind::transformer : ModelKind::pde,
                         .layers = 2,
                         .cells = cells,
                         .tokens_x = 6,
                         .tokens_y = 1};
    Measured m(random_samples(7, 6, 1, 3, 4, 1), false, probe_parameters(spec));
    const HeadKernels kernels(m.probe.parameters());
    for (int layer = 1; layer <= 2; ++layer)
      for (int head = 0; head < 2; ++head) {
        const Index at = (layer - 1) * 2 + head;
        if (cells == 3) {  // no cell ends in the middle
          EXPECT_TRUE(std::isnan(m.found.log_energy[at]) && std::isnan(m.found.energy_change[at]));
          continue;
        }
        const auto before = m.states((layer - 1) * cells / 2), after = m.states(layer * cells / 2);
        double first = 0, change = 0, falls = 0;
        for (std::size_t sample = 0; sample < 7; ++sample) {
          double one[2], other[2];
          kernels.put_log_energies(layer, before[sample], one);
          kernels.put_log_energies(layer, after[sample], other);
          first += one[head] / 7, change += (other[head] - one[head]) / 7;
          falls += other[head] < one[head] ? 1.0 / 7 : 0;
        }
        EXPECT_NEAR(m.found.log_energy[at], first, token_cluster_rounding);
        EXPECT_NEAR(m.found.energy_change[at], change, token_cluster_rounding);
        EXPECT_NEAR(m.found.energy_falls[at], falls, token_cluster_rounding);
      }
  }
}

TEST(TokenClusters,
     energy_rises_in_every_layer_under_the_hypotheses_of_theory_and_falls_with_values_of_other_sign) {
  for (const double value : {1.0, -0.5}) {
    ModelSpec model = small_model(2);
    model.norm = Norm::sphere;
    model.attention.layer_norm = false;
    model.attention.heads = 1;
    model.features = 3, model.tokens = 6, model.classes = 4, model.cells = 2;
    Parameters p(model);
    initialise_scaled_identity(p, 1.5, value);
    std::ranges::copy(random_vector(6 * 3, 4), p.view("embedding/W").begin());
    const auto found = Measured(random_samples(20, 6, 1, 3, 4, 1), false, p).found;
    // The embedded tokens are not on the sphere: layer 2 is that of theory.
    EXPECT_EQ(found.energy_falls[1], value > 0 ? 0 : 1);
    EXPECT_GT(value * found.energy_change[1], 0);
  }
}

TEST(HeadKernels, of_two_tokens_by_hand) {
  auto model = small_model(1);
  model.norm = Norm::sphere;
  model.attention.layer_norm = false;
  model.attention.heads = 1;
  Parameters p(model);
  initialise_scaled_identity(p, 1.5, 3);
  RowMatrix u = RowMatrix::Zero(2, 6);
  u(0, 0) = 1;
  u(1, 0) = std::cos(0.7), u(1, 1) = std::sin(0.7);
  const double beta = 2.25 / std::sqrt(6.0);
  double found = 0;
  HeadKernels(p).put_log_energies(1, u, &found);
  EXPECT_NEAR(found, beta + std::log((1 + std::exp(beta * (std::cos(0.7) - 1))) / 2), 1e-14);
  // Far beyond what an exponential can say: e^{10^6 beta} of each token with itself, and next to nothing of the pair.
  HeadKernels(p).put_log_energies(1, 1000 * u, &found);
  EXPECT_NEAR(found / (1e6 * beta - std::log(2)), 1, 1e-14);
  HeadKernels(p).put_log_energies(1, u.topRows(0), &found);
  EXPECT_TRUE(std::isnan(found));
}

TEST(HeadKernels, are_those_of_whole_matrices) {
  for (const auto kernel : {Kernel::dot, Kernel::l2})
    for (const auto map : {NormMap::layer, NormMap::rms}) {
      auto model = small_model(2);
      model.norm_map = map;
      model.attention.heads = 3;
      model.attention.groups = 1;
      model.attention.kernel = kernel;
      const auto p = random_parameters({.model = model});
      const Index d = 6, c = 2;
      const auto matrix = [&](const char* name, Index rows) {
        return RowMatrix(
            Eigen::Map<const RowMatrix>(p.view("layers/2/" + std::string(name)).data(), rows, d));
      };
      const auto gain =
          Eigen::Map<const Eigen::VectorXd>(p.view("layers/2/norm1_gain").data(), d).asDiagonal();
      const auto numbers = random_vector(5 * 6, 8);
      const RowMatrix u = Eigen::Map<const RowMatrix>(numbers.data(), 5, 6);
      double found[3];
      HeadKernels(p).put_log_energies(2, u, found);
      for (int head = 0; head < 3; ++head) {
        double sum = 0;
        for (Index i = 0; i < 5; ++i)
          for (Index j = 0; j < 5; ++j) {
            const auto normed = [&](Index t) {
              Eigen::VectorXd x = u.row(t);
              if (map == NormMap::layer) x.array() -= x.mean();
              return Eigen::VectorXd(gain * (x / std::sqrt(x.squaredNorm() / 6 + model.norm_eps)));
            };
            const Eigen::VectorXd q = matrix("W_Q", d).middleRows(head * c, c) * normed(i),
                                  k = matrix("W_K", c) * normed(j);
            sum += std::exp(kernel == Kernel::dot ? q.dot(k) / std::sqrt(2.0) : -(q - k).squaredNorm() / 2);
          }
        EXPECT_NEAR(found[head], std::log(sum / 25), 1e-13);
      }
    }
}

TEST(HeadMaps, of_scaled_identities_satisfy_the_hypotheses) {
  auto model = small_model(2);
  model.norm = Norm::sphere;
  model.attention.layer_norm = false;
  model.attention.heads = 1;
  Parameters p(model);
  initialise_scaled_identity(p, 1.5, 3);
  for (const auto& head : head_maps(p)) {
    EXPECT_NEAR(head.value_radius, 3, 1e-13);
    EXPECT_NEAR(head.value_scale, 3 / 2.25, 1e-13);
    EXPECT_NEAR(head.value_mismatch, 0, 1e-7);  // the root of round-off
    EXPECT_NEAR(head.antisymmetry, 0, 1e-7);
    EXPECT_NEAR(head.least_eigenvalue, 1, 1e-13);
  }
}

TEST(HeadMaps, are_those_of_whole_matrices) {
  for (const int heads : {1, 3}) {
    auto model = small_model(2);
    model.attention.heads = heads;
    model.attention.groups = 1;
    const auto p = random_parameters({.model = model});
    const auto maps = head_maps(p);
    ASSERT_EQ(std::ssize(maps), 2 * heads);
    const Index d = 6, c = 6 / heads;
    const auto matrix = [&](const char* name, Index rows, Index columns) {
      return RowMatrix(
          Eigen::Map<const RowMatrix>(p.view("layers/2/" + std::string(name)).data(), rows, columns));
    };
    const auto gain = Eigen::Map<const Eigen::VectorXd>(p.view("layers/2/norm1_gain").data(), d).asDiagonal();
    const Eigen::MatrixXd key = matrix("W_K", c, d) * gain, value = matrix("W_V", c, d) * gain;
    for (int head = 0; head < heads; ++head) {
      const Eigen::MatrixXd query = matrix("W_Q", d, d).middleRows(head * c, c) * gain;
      const Eigen::MatrixXd m = query.transpose() * key,
                            v = matrix("W_O", d, d).middleCols(head * c, c) * value;
      const double scale = m.cwiseProduct(v).sum() / m.squaredNorm();
      const Eigen::MatrixXd symmetric = (m + m.transpose()) / 2;
      const auto eigen = symmetric_eigen(symmetric, Eigen::EigenvaluesOnly).values;
      const auto& found = maps[heads + head];
      // Products of matrices of six rows; the two square roots lose half the digits only near 0.
      EXPECT_NEAR(found.value_scale, scale, 1e-12);
      EXPECT_NEAR(found.value_mismatch, (v - scale * m).norm() / v.norm(), 1e-11);
      EXPECT_NEAR(found.antisymmetry, (m - m.transpose()).norm() / (2 * m.norm()), 1e-11);
      EXPECT_NEAR(found.least_eigenvalue, eigen[0] / eigen.cwiseAbs().maxCoeff(), 1e-12);
      EXPECT_NEAR(found.value_radius, spectral_radius(v), 1e-12);
    }
  }
}

}  // namespace
}  // namespace fluxformer::clusters
