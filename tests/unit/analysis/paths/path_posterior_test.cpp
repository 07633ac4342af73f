// The posterior of the weights: against the network token by token, finite differences and its prior. Specification of attention paths, sections 5.1 and 5.5.

#include "analysis/paths/path_posterior.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "analysis/paths/frozen_attention.hpp"
#include "base/error.hpp"
#include "tests/unit/analysis/paths/random_paths.hpp"

namespace fluxformer::paths {
namespace {

using namespace test;
using Eigen::MatrixXd;
using Eigen::VectorXd;

std::vector<double> random_weights(std::size_t count, std::uint64_t seed) {
  const auto all = random_matrix(1, static_cast<Eigen::Index>(count), seed);
  return {all.data(), all.data() + count};
}

/// Reads matrices from whitened weights, one after another.
class Reader {
 public:
  explicit Reader(const std::vector<double>& q) : at_(q.data()) {}
  MatrixXd next(double rows, double columns, double variance) {
    const Eigen::Map<const RowMatrix> read(at_, static_cast<Eigen::Index>(rows),
                                           static_cast<Eigen::Index>(columns));
    at_ += read.size();
    return std::sqrt(variance) * read;
  }

 private:
  const double* at_;
};

/// f(x) by section 1.1, from the tokens and one attention matrix after another.
double token_by_token(const PathNetwork& network, const FrozenAttention& attention,
                      const std::vector<double>& q, const MatrixXd& x) {
  Reader weights(q);
  MatrixXd z = weights.next(network.widths[0], static_cast<double>(x.rows()), network.input_variance) * x /
               std::sqrt(x.rows());
  for (int l = 0; l < network.layers(); ++l) {
    const auto at = static_cast<std::size_t>(l);
    MatrixXd sum = MatrixXd::Zero(static_cast<Eigen::Index>(network.widths[at + 1]), x.cols());
    for (int h = 0; h < network.heads[at]; ++h)
      sum += weights.next(network.widths[at + 1], network.widths[at], network.variances[at]) * z *
             attention_columns(attention.head(l, h), x, x);
    z = sum / std::sqrt(network.heads[at] * network.widths[at]);
  }
  const MatrixXd a = weights.next(1, network.readout_width(), network.readout_variance);
  return (a * z.rightCols(1)).value() / std::sqrt(network.readout_width());
}

TEST(PathPosterior, is_the_network_of_the_tokens) {
  constexpr int dimension = 5, tokens = 4, examples = 3;
  const auto whole = uneven_network();
  for (std::size_t layers = 1; layers <= 3; ++layers) {
    PathNetwork network = whole;
    network.heads.resize(layers);
    network.variances.resize(layers);
    network.widths.resize(layers + 1);
    std::vector<std::vector<FrozenHead>> heads(layers);
    std::uint64_t seed = 10 * layers;
    for (std::size_t l = 0; l < layers; ++l)
      for (int h = 0; h < network.heads[l]; ++h)
        heads[l].emplace_back(BilinearHead{random_matrix(dimension, dimension, ++seed)});
    const FrozenAttention attention(heads, ReadOut::last_token);
    const auto x = [&](int k) -> MatrixXd {
      return random_matrix(dimension, tokens, 100 + static_cast<std::uint64_t>(k));
    };
    const PathExamples all{attentioned_inputs(attention, examples, x), VectorXd::Ones(examples)};
    PathPosterior posterior(network, all, 0.5);
    const auto q = random_weights(posterior.weights(), 7);
    const VectorXd f = outputs(all.inputs, posterior.input_weights(q));
    double squares = 0;
    for (int k = 0; k < examples; ++k) {
      const double expected = token_by_token(network, attention, q, x(k));
      squares += (expected - 1) * (expected - 1);
      EXPECT_NEAR(f[k], expected, 1e-13 * std::max(1.0, std::abs(expected)))
          << layers;  // sums of some 1000 products
    }
    std::vector<double> slope(q.size());
    const VectorXd weights = Eigen::Map<const VectorXd>(q.data(), static_cast<Eigen::Index>(q.size()));
    EXPECT_NEAR(posterior.value(q, slope), weights.squaredNorm() / 2 + squares / (2 * 0.5), 1e-10);
  }
}

TEST(PathPosterior, has_the_gradient_of_its_value) {
  const auto network = uneven_network();
  const auto examples = random_examples(9, network.paths(), 4, 3);
  PathPosterior posterior(network, examples, 0.3);
  auto q = random_weights(posterior.weights(), 5);
  std::vector<double> slope(q.size()), scratch(q.size());
  posterior.value(q, slope);
  for (std::uint64_t trial = 0; trial < 5; ++trial) {
    const auto direction = random_weights(q.size(), 20 + trial);
    constexpr double h = 1e-5;
    double expected = 0;
    auto moved = q;
    for (std::size_t k = 0; k < q.size(); ++k) expected += slope[k] * direction[k];
    const auto at = [&](double step) {
      for (std::size_t k = 0; k < q.size(); ++k) moved[k] = q[k] + step * direction[k];
      return posterior.value(moved, scratch);
    };
    // Central differences: h^2 of third derivatives, and round-off of 1e3 over h: 1e-8 of the largest of them.
    EXPECT_NEAR((at(h) - at(-h)) / (2 * h), expected, 1e-7 * std::max(1.0, std::abs(expected)));
  }
  // One by one, the first and the last of every matrix.
  for (std::size_t k = 0; k < q.size(); k += k < 60 ? 1 : 37) {
    const double here = q[k];
    q[k] = here + 1e-5;
    const double up = posterior.value(q, scratch);
    q[k] = here - 1e-5;
    const double down = posterior.value(q, scratch);
    q[k] = here;
    EXPECT_NEAR((up - down) / 2e-5, slope[k], 1e-6 * std::max(1.0, std::abs(slope[k]))) << k;
  }
}

TEST(PathPosterior, has_the_order_parameters_of_the_prior_without_data) {
  const auto network = uneven_network();
  auto examples = random_examples(2, network.paths(), 3, 3);
  examples.inputs.setZero();
  PathPosterior posterior(network, examples, 1);
  const auto rest = gaussian_process_point(network);
  std::vector<MatrixXd> mean;
  for (const auto& u : rest.u) mean.push_back(MatrixXd::Zero(u.rows(), u.cols()));
  double readout = 0;
  constexpr int draws = 4000;
  for (int draw = 0; draw < draws; ++draw) {
    const auto order = posterior.order(random_weights(posterior.weights(), static_cast<std::uint64_t>(draw)));
    for (std::size_t l = 0; l < mean.size(); ++l) mean[l] += order.u[l] / draws;
    readout += order.readout / draws;
  }
  // Entries vary by about their size: standard error 0.016.
  EXPECT_NEAR(readout, rest.readout, 4 * rest.readout * std::sqrt(2.0 / 15 / draws));
  for (std::size_t l = 0; l < mean.size(); ++l)
    EXPECT_LT((mean[l] - rest.u[l]).cwiseAbs().maxCoeff(),
              0.08 * network.prior_variance(static_cast<int>(l) + 1));
}

TEST(PathPosterior, refuses_what_does_not_fit) {
  const auto network = network_of_width({2}, 4);
  const auto examples = random_examples(3, 2, 2, 1);
  EXPECT_THROW(PathPosterior(network, examples, 0), BadInput);
  EXPECT_THROW(PathPosterior(network_of_width({2}, 4.5), examples, 1), BadInput);
  EXPECT_THROW(PathPosterior(network_of_width({3}, 4), examples, 1), BadInput);
}

}  // namespace
}  // namespace fluxformer::paths
