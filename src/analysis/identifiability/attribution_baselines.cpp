#include "analysis/identifiability/attribution_baselines.hpp"

#include <algorithm>
#include <string>

#include "base/error.hpp"

namespace fluxformer::identifiability {
namespace {

using Eigen::Index;

Index tokens_of(const LayerHeads& heads) {
  if (heads.empty()) throw BadInput("the attention of a layer needs at least one head");
  const Index n = heads.front().weights.rows();
  for (const auto& head : heads)
    if (head.weights.rows() != n || head.weights.cols() != n)
      throw BadInput("the heads of a layer see different numbers of tokens");
  return n;
}

}  // namespace

Matrix raw_attention(const LayerHeads& heads) {
  const Index n = tokens_of(heads);
  Matrix sum = Matrix::Zero(n, n);
  for (const auto& head : heads) sum += head.weights;
  return sum / static_cast<double>(heads.size());
}

Matrix with_residual(const Matrix& attention, double step) {
  Matrix mixed = step / (1 + step) * attention;
  mixed.diagonal().array() += 1 / (1 + step);
  return mixed;
}

std::vector<Matrix> rollout(const std::vector<Matrix>& attention, double step) {
  std::vector<Matrix> layers;
  for (const auto& a : attention) {
    const Matrix mixed = with_residual(a, step);
    layers.push_back(layers.empty() ? mixed : Matrix(mixed * layers.back()));
  }
  return layers;
}

Matrix norm_based_attention(const LayerHeads& heads) {
  const Index n = tokens_of(heads), d = heads.front().output.cols();
  const auto count = static_cast<Index>(heads.size());
  std::vector<Matrix> moved;  // T^h
  for (const auto& head : heads) moved.emplace_back(head.values * head.output);

  Matrix norms(n, n), weights(n, count), vectors(count, d), sums(n, d);
  for (Index i = 0; i < n; ++i) {  // one input token: all output tokens in one product
    for (Index h = 0; h < count; ++h) {
      const auto at = static_cast<std::size_t>(h);
      weights.col(h) = heads[at].weights.col(i);
      vectors.row(h) = moved[at].row(i);
    }
    sums.noalias() = weights * vectors;
    norms.col(i) = sums.rowwise().norm();
  }
  return norms;
}

std::vector<double> scores_of_inputs(const Matrix& method, std::span<const int> outputs) {
  if (outputs.empty()) throw BadInput("a score of input tokens needs at least one output token");
  Eigen::RowVectorXd sum = Eigen::RowVectorXd::Zero(method.cols());
  for (const int j : outputs) {
    if (j < 0 || j >= method.rows())
      throw BadInput("output token " + std::to_string(j) + " is none of " + std::to_string(method.rows()));
    sum += method.row(j);
  }
  sum /= static_cast<double>(outputs.size());
  return {sum.data(), sum.data() + sum.size()};
}

}  // namespace fluxformer::identifiability
