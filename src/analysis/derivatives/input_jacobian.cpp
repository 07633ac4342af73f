#include "analysis/derivatives/input_jacobian.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "analysis/dense_matrices.hpp"
#include "base/index.hpp"
#include "base/random.hpp"

namespace fluxformer::derivatives {
namespace {

/// Directions of all input tokens, one token after the other, `each` for every token.
struct Directions {
  int each;
  bool random;
  RandomStream signs;

  /// Adds direction number k of a token to its channels.
  void add(int token, int k, int width, double* channels) const {
    if (!random) {
      channels[k] += 1;
      return;
    }
    const RandomStream of_one = signs.item(token).item(k);
    for (int c = 0; c < width; ++c) channels[c] += of_one.below(c, 2) == 0 ? 1 : -1;
  }
};

/// Sums over columns of |column|^2 and |column|^4, for every block.
struct SquareSums {
  RowMatrix sum, sum_of_squares;

  void add(Index i, Index j, double square) {
    sum(i, j) += square;
    sum_of_squares(i, j) += square * square;
  }
  BlockNorms result(const BlockNormPlan& plan) const {
    if (plan.probes == 0) return {sum.cwiseSqrt(), sum, {}};
    // |block|_F^2 = E x for x = |block v|^2: mean of the probes, and its standard error
    const double p = plan.probes;
    const RowMatrix mean = sum / p;
    // s^2 / P with s^2 = (sum x^2 - P mean^2) / (P - 1); round-off may make it negative where all are equal
    const RowMatrix variance = (sum_of_squares / p - mean.cwiseAbs2()).cwiseMax(0.0) / (p - 1);
    return {mean.cwiseSqrt(), mean, variance.cwiseSqrt()};
  }
};

}  // namespace

InputJacobian::InputJacobian(const Parameters& parameters, const TokenLine& line, int columns)
    : context_{&line, columns, parameters.spec.width, {{}, parameters.spec.causal, {}}, nullptr},
      model_(make_depth_model(parameters, context_, Precision::float64)),
      march_(*model_, parameters.spec.depth(), 1) {
  need_whole_line(line, "Jacobians by token");
}

void InputJacobian::linearise(const double* u_0, int length) {
  const Index width = context_.width, copies = context_.samples, size = context_.size();
  context_.mask.length.assign(copies, length);
  slab_.resize(size);
  // Token x of u_0 goes to the rows x copies .. x copies + copies - 1 of the slab, one for each copy.
  for (Index row = 0; row * width < size; ++row)
    std::copy_n(u_0 + row / copies * width, width, slab_.data() + row * width);
  march_.forward(slab_.data(), Keep::activations, {});
}

void InputJacobian::push(const RowVisitor& visit) {
  // du_i = (dG_i/du) du_{i-1}, for all directions of the slab at once
  visit(0, slab_.data());
  march_.push(slab_.data(), {}, visit);
}

std::vector<BlockNorms> InputJacobian::norms(const double* u_0, int length, const BlockNormPlan& plan,
                                             long key) {
  const bool spectral = plan.norm == BlockNorm::spectral;
  if (plan.probes == 1 || (spectral && plan.probes > 0))
    throw std::invalid_argument("spectral norms need all directions, random ones at least 2");
  linearise(u_0, length);
  const int width = context_.width, copies = context_.samples;
  const Directions directions{plan.probes > 0 ? plan.probes : width, plan.probes > 0,
                              RandomStream(plan.seed, "directions of tokens").item(key)};
  const auto at = [&](int token, int copy) { return (Index{token} * copies + copy) * width; };
  std::vector<SquareSums> sums(rows(), {RowMatrix::Zero(length, length), RowMatrix::Zero(length, length)});
  std::vector<std::vector<Eigen::MatrixXd>> blocks;  // [row][j], blocks of the present input token
  if (spectral) blocks.assign(rows(), std::vector<Eigen::MatrixXd>(length, Eigen::MatrixXd(width, width)));

  // Directions number first .. first + count - 1 of all tokens, one in each copy of the sample.
  const int total = length * directions.each;
  for (int first = 0; first < total; first += copies) {
    const int count = std::min(copies, total - first);
    slab_.assign(context_.size(), 0.0);
    for (int k = 0; k < count; ++k) {
      const int token = (first + k) / directions.each;
      directions.add(token, (first + k) % directions.each, width, slab_.data() + at(token, k));
    }
    push([&](int row, const double* tangents) {
      for (int j = 0; j < length; ++j)
        for (int k = 0; k < count; ++k) {
          // (du_j/dx_i) v at this depth, v direction c of token i. Over all channels v = e_c, the squares of
          // these columns sum to the squared Frobenius norm of the block.
          const Eigen::Map<const Eigen::VectorXd> column(tangents + at(j, k), width);
          const int i = (first + k) / directions.each, c = (first + k) % directions.each;
          if (!spectral) {
            sums[row].add(i, j, column.squaredNorm());
            continue;
          }
          auto& block = blocks[row][j];
          block.col(c) = column;
          if (c + 1 == width) {
            // The last column completes the block: |du_j/dx_i|_2 is its largest singular value.
            const double largest = singular_values_of(block)[0];
            sums[row].add(i, j, largest * largest);
          }
        }
    });
  }
  std::vector<BlockNorms> all;
  all.reserve(sums.size());
  for (const auto& one : sums) all.push_back(one.result(plan));
  return all;
}

}  // namespace fluxformer::derivatives
