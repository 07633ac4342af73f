// Clusters among the tokens of models: components by hand, measures of a model against their definitions, hypotheses on its heads.

#include "analysis/clusters/token_clusters.hpp"

#include <gtest/gtest.h>

#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "analysis/clusters/growth_rates.hpp"
#include "analysis/clusters/head_maps.hpp"
#include "analysis/dense_matrices.hpp"
#include "analysis/state_examples.hpp"
#include "model/initialise.hpp"
#include "tests/support/listed_samples.hpp"
#include "tests/support/small_problem.hpp"
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
      : data(std::move(listed)),
        line(token_line(MPI_COMM_SELF, data)),
        samples(MPI_COMM_SELF, line, data, all_of(data), 3),
        probe(probe_parameters({.tokens_x = 6, .tokens_y = 1}), line, 3, Precision::float64),
        settings{.betas = {0.5, 3}, .deltas = {0.4}, .nulls = nulls, .seed = 5},
        found(measure_token_clusters(samples, probe, settings)) {}
  /// Tokens of each sample at a row, as they are or less the mean of all.
  std::vector<RowMatrix> tokens(int at, bool centred) {
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
      sum -= std::log(1 / n + (1 - 1 / n) * kernel_eigenvalue(6, m.settings.betas[beta], 0));
    }
    EXPECT_NEAR(m.found.number_2_uniform[beta], std::exp(sum / 400), 1e-12);
  }
  // At depth 0 the states of normal features are normal themselves: an affine map of them, but for positions. So are the tokens less
  // their positions' spread; the numbers of 400 samples of both agree within some percent, those of permuted channels do not.
  for (const int beta : {0, 1}) {
    const Index centred = (0 * 2 + 1) * 2 + beta;
    EXPECT_NEAR(m.found.number_2_normal[centred] / m.found.number_2[centred], 1, 0.02) << beta;
    EXPECT_GT(m.found.number_2_permuted[centred] / m.found.number_2[centred], 1.02) << beta;
    // As they are, with the mean.
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
      EXPECT_NEAR(found.value_radius,
                  Eigen::EigenSolver<Eigen::MatrixXd>(v).eigenvalues().cwiseAbs().maxCoeff(), 1e-12);
    }
  }
}

}  // namespace
}  // namespace fluxformer::clusters
