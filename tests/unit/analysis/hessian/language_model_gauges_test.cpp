// Exact null directions of language models: rotary positions, groups of keys and RMSNorm change which directions
// of the weights have no effect.

#include <gtest/gtest.h>

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "analysis/model_probe.hpp"
#include "model/tasks/word_task.hpp"
#include "tests/support/classifier_hessian.hpp"
#include "tests/support/small_word_models.hpp"

namespace fluxformer::test {
namespace {

using RowsOfWeights = Eigen::Map<Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>;
using ConstRows = Eigen::Map<const Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>;

constexpr int channels = 4, heads = 4, groups = 2;  // of small_language_model

using Small = Eigen::Matrix<double, channels, channels, Eigen::RowMajor>;

/// The decoder of small_word_models without norms of queries and keys, of which the first `turned` channels are
/// turned.
SmallClassifier decoder(int turned) {
  auto all = small_word_models();
  auto c = *std::ranges::find(all, "decoder", &SmallClassifier::name);
  c.model.attention.qk_norm = false;
  c.model.biases = Biases::qkv;
  c.model.attention.rotary.channels = turned;
  c.model.rotary.theta.resize(turned);  // two tables of turned / 2 angles
  return c;
}

/// A matrix that commutes with every turn of `half` pairs (j, j + r/2): a turn with a stretch of each pair, and
/// anything on the channels that are not turned.
Small commuting(int turned, unsigned seed) {
  const auto numbers = random_vector(channels * channels, seed);
  Small a = ConstRows(numbers.data(), channels, channels);
  const int pairs = turned / 2;
  a.topRows(turned).setZero();
  a.leftCols(turned).setZero();
  for (int j = 0; j < pairs; ++j) {
    const double stretch = numbers[2 * j], turn = numbers[2 * j + 1];
    a(j, j) = a(j + pairs, j + pairs) = stretch;
    a(j, j + pairs) = -turn;
    a(j + pairs, j) = turn;
  }
  return a;
}

/// out's rows of a head or group += matrix times from's.
void add_rows(const Parameters& p, const std::string& path, int head, const Small& matrix,
              const std::vector<double>& from, std::vector<double>& out) {
  const auto& view = p.layout.at(path);
  const int columns = view.shape.size() == 2 ? view.shape[1] : 1;
  const Index at = view.offset + Index{head} * channels * columns;
  RowsOfWeights(out.data() + at, channels, columns) +=
      matrix * ConstRows(from.data() + at, channels, columns);
}

/// The direction q -> (1 + e A) q of all heads of each group, k -> (1 - e A^T) k of the group, one A for each
/// layer and group, and the product of the Hessian with it where it changes nothing: -M^T g.
struct Gauge {
  std::vector<double> direction, product;
};
template <class Generator>
Gauge gauge(ClassifierHessian& of, Generator&& generator) {
  const auto& p = of.run.parameters;
  const auto& g = of.hessian.gradient();
  Gauge made{std::vector<double>(p.values.size()), std::vector<double>(p.values.size())};
  for (int layer = 1; layer <= p.spec.layers; ++layer)
    for (int group = 0; group < groups; ++group) {
      const Small a = generator(static_cast<unsigned>(10 * layer + group));
      for (const std::string array : {"W", "b"}) {
        const auto path = "layers/" + std::to_string(layer) + "/" + array;
        for (int head = group * heads / groups; head < (group + 1) * heads / groups; ++head) {
          add_rows(p, path + "_Q", head, a, p.values, made.direction);
          add_rows(p, path + "_Q", head, -a.transpose(), g, made.product);
        }
        add_rows(p, path + "_K", group, -a.transpose(), p.values, made.direction);
        add_rows(p, path + "_K", group, a, g, made.product);
      }
    }
  return made;
}

TEST(LanguageModelGauges, are_matrices_that_commute_with_all_turns_one_for_each_group) {
  for (const int turned : {2, 4}) {
    ClassifierHessian of(MPI_COMM_SELF, 1, decoder(turned));
    const auto [v, expected] = gauge(of, [&](unsigned seed) { return commuting(turned, seed); });
    // As for gauges without rotary positions (training_hessian_test.cpp).
    EXPECT_LT(relative_difference(of.product(Curvature::hessian, v), expected), 1e-10) << turned;
    EXPECT_LT(norm(of.product(Curvature::gauss_newton, v)), 1e-12 * norm(v)) << turned;
    // Any matrix would do without rotary positions: with them it changes the loss.
    const auto other = gauge(of, [](unsigned seed) {
      const auto numbers = random_vector(channels * channels, seed);
      return Small(ConstRows(numbers.data(), channels, channels));
    });
    EXPECT_GT(norm(of.product(Curvature::gauss_newton, other.direction)), 1e-4 * norm(other.direction));
  }
}

TEST(LanguageModelGauges, shifts_of_all_keys_have_no_effect_in_channels_that_are_not_turned) {
  constexpr int turned = 2;
  ClassifierHessian of(MPI_COMM_SELF, 1, decoder(turned));
  const auto& p = of.run.parameters;
  const auto shift = [&](int first, int last) {
    std::vector<double> v(p.values.size(), 0.0);
    for (const char* layer : {"layers/1/b_K", "layers/2/b_K"})
      for (int group = 0; group < groups; ++group)
        for (int c = first; c < last; ++c)
          v[p.layout.at(layer).offset + group * channels + c] = std::sin(3.0 * group + c + 1);
    return v;
  };
  const double scale = norm(of.product(Curvature::hessian, random_vector(p.values.size(), 5))) /
                       std::sqrt(static_cast<double>(p.values.size()));
  for (const auto part : {Curvature::hessian, Curvature::gauss_newton}) {
    const auto still = shift(turned, channels), moving = shift(0, turned);
    EXPECT_LT(norm(of.product(part, still)), 1e-12 * scale * norm(still));
    EXPECT_GT(norm(of.product(part, moving)), 1e-6 * scale * norm(moving));
  }
}

TEST(LanguageModelGauges, rms_norm_takes_a_common_factor_of_embedding_and_output_matrices) {
  auto c = decoder(channels);
  c.model.norm_eps = 0;
  c.model.word_head.own_matrix = true;
  ClassifierHessian of(MPI_COMM_SELF, 1, c);
  const auto& p = of.run.parameters;
  const auto& g = of.hessian.gradient();
  // M theta: embedding, W_O and W_2 themselves, and 0 for all others
  std::vector<double> v(p.values.size(), 0.0), expected(p.values.size(), 0.0);
  for (const auto& view : p.layout.views()) {
    if (view.path() != "embedding/words" && view.name != "W_O" && view.name != "W_2") continue;
    for (Index j = view.offset; j < view.offset + view.size(); ++j) {
      v[j] = p.values[j];
      expected[j] = -g[j];
    }
  }
  double along = 0;
  for (std::size_t j = 0; j < v.size(); ++j) along += g[j] * v[j];
  EXPECT_LT(std::abs(along), 1e-14 * norm(g) * norm(v));
  EXPECT_LT(relative_difference(of.product(Curvature::hessian, v), expected), 1e-10);
  EXPECT_LT(norm(of.product(Curvature::gauss_newton, v)), 1e-12 * norm(v));
}

/// The logits of all rows of a model whose words, W_O, W_2 and their biases, all that is added to the residual
/// stream, are multiplied by `factor`, and the eps of its norms by `eps_factor`.
std::vector<double> logits_of_scaled(SmallClassifier c, double factor, double eps_factor) {
  c.model.norm_eps *= eps_factor;
  auto p = c.parameters();
  for (const auto& view : p.layout.views()) {
    const auto& name = view.name;
    if (view.path() != "embedding/words" && name != "W_O" && name != "b_O" && name != "W_2" && name != "b_2")
      continue;
    for (Index j = view.offset; j < view.offset + view.size(); ++j) p.values[j] *= factor;
  }
  const auto line = TokenLine::even(MPI_COMM_SELF, SmallClassifier::tokens_x, SmallClassifier::tokens_y, 1);
  const auto batch = small_batch(c.model);
  ModelProbe probe(on_cells(p, c.cells), line, static_cast<int>(batch.label.size()), Precision::float64);
  std::vector<double> u;
  probe.embed(batch, u);
  probe.forward(u);
  const int rows = probe.context().rows();
  std::vector<double> z(static_cast<std::size_t>(rows * c.model.vocabulary));
  WordLogits(p, Precision::float64)(rows, u.data(), z.data());
  return z;
}

TEST(LanguageModelGauges, a_factor_of_all_that_rms_norm_reads_changes_no_logit) {
  for (const double eps : {0.0, 1e-3}) {
    auto c = decoder(channels);
    c.model.norm_eps = eps;
    c.model.word_head.own_matrix = true;
    c.model.biases = Biases::all;
    const auto plain = logits_of_scaled(c, 1, 1);
    // N of c x with c^2 eps is N of x with eps: some roundings in each of two layers.
    for (const double factor : {1e-3, 0.3, 3.0, 1e3})
      EXPECT_LT(relative_difference(logits_of_scaled(c, factor, factor * factor), plain), 1e-12)
          << factor << ", eps " << eps;
    // A power of two is a factor of every number on the way, without a rounding.
    for (const double factor : {0.125, 8.0})
      EXPECT_EQ(logits_of_scaled(c, factor, factor * factor), plain) << factor << ", eps " << eps;
    if (eps > 0) {
      EXPECT_GT(relative_difference(logits_of_scaled(c, 3, 1), plain), 1e-6) << "eps is not scaled";
    }
  }
}

}  // namespace
}  // namespace fluxformer::test
