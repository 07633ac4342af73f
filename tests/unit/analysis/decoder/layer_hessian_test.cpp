// The closed form of a layer's Hessian against hyper-dual numbers in a plain forward pass, block by block:
// the query/key blocks are a thousand times smaller than the value block and hide in the whole.

#include <gtest/gtest.h>

#include "analysis/decoder/row_maps.hpp"
#include "tests/support/plain_attention.hpp"
#include "tests/unit/analysis/decoder/layer_comparison.hpp"

namespace fluxformer::decoder {
namespace {

using namespace test;

const LayerCase small{}, uneven{5, 4, 3, 2, 3};
const std::pair<Scores, Mask> layer_hessian_kinds[] = {{Scores::softmax, Mask::none},
                                                       {Scores::softmax, Mask::causal},
                                                       {Scores::linear, Mask::none},
                                                       {Scores::linear, Mask::causal}};

// F of all sequences, one below the other, from theta.
template <class T>
Table<T> layer_values(const LayerCase& at, const AttentionForm& form, const std::vector<T>& theta,
                      const std::vector<Table<T>>& sequences) {
  std::size_t position = 0;
  const auto d = sequences[0].cols, e = static_cast<std::size_t>(at.values),
             k = static_cast<std::size_t>(at.inner);
  const Table<T> v = take(theta, position, d, e), q = take(theta, position, d, k),
                 key = take(theta, position, d, k);
  Table<T> all(0, e);
  for (const auto& x : sequences) {
    const Table<T> f = attend(times(x, q), times(x, key), times(x, v), form);
    all.entries.insert(all.entries.end(), f.entries.begin(), f.entries.end());
    all.rows += f.rows;
  }
  return all;
}

Matrix stacked(const LayerCase& at, const std::function<Matrix(Index)>& of) {
  Matrix all(0, of(0).cols());
  for (Index n = 0; n < at.sequences; ++n) {
    all.conservativeResize(all.rows() + at.tokens, Eigen::NoChange);
    all.bottomRows(at.tokens) = of(n);
  }
  return all;
}

// Compares the closed form with the tail of `tail_of`(sequence) with loss(readout(F)) by hyper-dual numbers.
template <class Readout, class Loss>
void expect_equal(const LayerCase& at, const AttentionForm& form, const std::function<Matrix(Index)>& tokens,
                  const std::function<Tail(Index)>& tail_of, const Readout& readout, const Loss& loss) {
  std::vector<AttentionLayer> layers;
  for (Index n = 0; n < at.sequences; ++n) {
    layers.emplace_back(AttentionMap(tokens(n), at.weights(), form), tail_of(n), every_row(at.tokens));
  }
  const auto outputs = [&](const auto& theta) {
    using T = typename std::decay_t<decltype(theta)>::value_type;
    std::vector<Table<T>> sequences;
    for (Index n = 0; n < at.sequences; ++n) sequences.emplace_back(tokens(n));
    return readout(layer_values(at, form, theta, sequences)).entries;
  };
  compare_blocks(layers, numeric_derivatives(outputs, loss, flattened(at.weights())));
}

const auto nothing = [](const auto& f) { return f; };

TEST(LayerHessian, equals_hyper_dual_numbers_with_mean_squared_error) {
  for (const LayerCase& at : {small, uneven}) {
    for (const auto& [scores, mask] : layer_hessian_kinds) {
      const Matrix target = stacked(at, [&](Index n) { return at.target_of(n, at.values); });
      const double c = at.mean(at.values);
      expect_equal(
          at, at.form(scores, mask), [&](Index n) { return at.tokens_of(n); },
          [&](Index n) { return squared_error(at.target_of(n, at.values), c); }, nothing,
          [&](const auto& y) { return squared_error_of(y, target, c); });
    }
  }
}

TEST(LayerHessian, equals_hyper_dual_numbers_with_a_cross_entropy_readout) {
  const LayerCase& at = uneven;
  const Matrix readout = 0.85 * fill(19, at.values, 5);
  const auto labels = cycling_labels(at.tokens * at.sequences, 5);
  const auto of_sequence = [&](Index n) {
    const auto begin = labels.begin() + n * at.tokens;
    return std::vector<int>(begin, begin + at.tokens);
  };
  for (const auto& [scores, mask] : layer_hessian_kinds) {
    expect_equal(
        at, at.form(scores, mask), [&](Index n) { return at.tokens_of(n); },
        [&](Index n) { return behind(projection(readout), cross_entropy(of_sequence(n), 1 / 15.0)); },
        [&](const auto& f) { return times(f, std::decay_t<decltype(f)>(readout)); },
        [&](const auto& y) { return cross_entropy_of(y, labels, 1 / 15.0); });
  }
}

TEST(LayerHessian, equals_hyper_dual_numbers_before_and_behind_layer_norm) {
  // Post-LN of f + rho x needs e = d; rho = 0 is post-LN without a residual.
  for (const double rho : {0.0, 0.7}) {
    for (const double epsilon : {0.0, 1e-2}) {
      const LayerCase at{5, 4, 3, 4, 3};
      const double c = at.mean(at.values);
      const Matrix target = stacked(at, [&](Index n) { return at.target_of(n, at.values); });
      const Matrix residual = stacked(at, [&](Index n) -> Matrix { return rho * at.tokens_of(n); });
      // Pre-LN: the layer sees LN(X), the residual X.
      expect_equal(
          at, at.form(Scores::softmax, Mask::causal),
          [&](Index n) { return RowNorm(at.tokens_of(n), epsilon).values(); },
          [&](Index n) {
            return behind(shifted(rho * at.tokens_of(n)),
                          behind(layer_norm(epsilon), squared_error(at.target_of(n, at.values), c)));
          },
          [&](const auto& f) { return normed(plus(f, std::decay_t<decltype(f)>(residual)), epsilon); },
          [&](const auto& y) { return squared_error_of(y, target, c); });
    }
  }
}

// The rest of a Transformer block: W_O, residual, MLP, unembedding; LayerNorm in front of the last two.
TEST(LayerHessian, equals_hyper_dual_numbers_in_front_of_a_transformer_block) {
  const LayerCase& at = uneven;
  const double rho = 0.8, epsilon = 1e-3;
  const auto labels = cycling_labels(at.tokens * at.sequences, 6);
  const Matrix w_o = 0.8 * fill(31, at.values, at.width), w_u = 0.8 * fill(34, at.width, 6);
  const Matrix residual = stacked(at, [&](Index n) -> Matrix { return rho * at.tokens_of(n); });
  for (const Nonlinearity kind : {Nonlinearity::relu, Nonlinearity::tanh}) {
    for (const bool with_norm : {false, true}) {
      MlpWeights mlp{0.8 * fill(32, at.width, 7), 0.1 * fill(35, 7, 1), 0.8 * fill(33, 7, at.width),
                     0.1 * fill(36, at.width, 1), kind};
      if (with_norm) mlp.norm_epsilon = epsilon;
      const auto tail = [&](Index n) {
        const auto begin = labels.begin() + n * at.tokens;
        Tail readout = behind(projection(w_u), cross_entropy({begin, begin + at.tokens}, 1 / 15.0));
        if (with_norm) readout = behind(layer_norm(epsilon), readout);
        return behind(projection(w_o),
                      behind(shifted(rho * at.tokens_of(n)), behind(residual_mlp(mlp), readout)));
      };
      const auto readout = [&](const auto& z) {
        using A = std::decay_t<decltype(z)>;
        const A r1 = plus(times(z, A(w_o)), A(residual));
        const A pre =
            plus_row(times(with_norm ? normed(r1, epsilon) : r1, A(mlp.in)), A(mlp.in_bias.transpose()));
        const A hidden = kind == Nonlinearity::relu ? relu(pre) : tanh_of(pre);
        const A r2 = plus(r1, plus_row(times(hidden, A(mlp.out)), A(mlp.out_bias.transpose())));
        return times(with_norm ? normed(r2, epsilon) : r2, A(w_u));
      };
      for (const Scores scores : {Scores::softmax, Scores::linear}) {
        expect_equal(
            at, at.form(scores, Mask::causal), [&](Index n) { return at.tokens_of(n); }, tail, readout,
            [&](const auto& y) { return cross_entropy_of(y, labels, 1 / 15.0); });
      }
    }
  }
}

TEST(LayerHessian, covers_biases_by_a_column_of_ones) {
  LayerCase at = uneven;
  at.width = 5;  // the last of them is the column of ones, the last rows of the weights are the biases
  const auto with_ones = [&](Index n) {
    Matrix x = at.tokens_of(n);
    x.col(4).setOnes();
    return x;
  };
  const AttentionForm form = at.form(Scores::softmax, Mask::causal);
  const double c = at.mean(at.values);
  std::vector<AttentionLayer> layers;
  for (Index n = 0; n < at.sequences; ++n) {
    layers.emplace_back(AttentionMap(with_ones(n), at.weights(), form),
                        squared_error(at.target_of(n, at.values), c), every_row(at.tokens));
  }
  const Matrix target = stacked(at, [&](Index n) { return at.target_of(n, at.values); });
  const auto outputs = [&](const auto& theta) {
    using T = typename std::decay_t<decltype(theta)>::value_type;
    std::size_t position = 0;
    const Table<T> v = take(theta, position, 4, 2), b_v = take(theta, position, 1, 2);
    const Table<T> q = take(theta, position, 4, 3), b_q = take(theta, position, 1, 3);
    const Table<T> k = take(theta, position, 4, 3), b_k = take(theta, position, 1, 3);
    std::vector<T> all;
    for (Index n = 0; n < at.sequences; ++n) {
      const Table<T> x(Matrix(with_ones(n).leftCols(4)));
      const auto f =
          attend(plus_row(times(x, q), b_q), plus_row(times(x, k), b_k), plus_row(times(x, v), b_v), form);
      all.insert(all.end(), f.entries.begin(), f.entries.end());
    }
    return all;
  };
  compare_blocks(layers, numeric_derivatives(
                             outputs, [&](const auto& y) { return squared_error_of(y, target, c); },
                             flattened(at.weights())));
}

}  // namespace
}  // namespace fluxformer::decoder
