#include "analysis/identifiability/token_mlp.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "base/index.hpp"
#include "base/random.hpp"

namespace fluxformer::identifiability {
namespace {

using Eigen::Index;
using Eigen::RowVectorXd;

std::size_t entries(Index rows, Index columns) {
  return static_cast<std::size_t>(rows * columns);
}

/// 1 where all numbers are equal: only differences of round-off would be scaled up.
double scale_of(double variance) {
  return variance > 0 ? std::sqrt(variance) : 1;
}

}  // namespace

MlpMap::MlpMap(const RidgeSums& moments, int hidden, std::uint64_t seed)
    : mean_state_(moments.mean_state()),
      mean_description_(moments.mean_description()),
      state_scale_(scale_of(moments.state_variance())),
      description_scale_(scale_of(moments.description_variance())),
      width_(mean_state_.size()),
      hidden_(hidden),
      described_(mean_description_.size()),
      weights_(0) {
  if (hidden < 1) throw BadInput("a map with a hidden layer needs at least one hidden unit");
  weights_.assign(entries(width_ + 1, hidden_) + entries(hidden_ + 1, described_), 0.0);
  const RandomStream stream(seed, "weights of a token map");
  const auto draw = [&](std::size_t first, std::size_t count, Index inputs) {
    for (std::size_t k = first; k < first + count; ++k)
      weights_[k] = stream.normal(k) / std::sqrt(static_cast<double>(inputs));
  };
  draw(0, entries(width_, hidden_), width_);
  draw(entries(width_ + 1, hidden_), entries(hidden_, described_), hidden_);
}

MlpMap::Weights MlpMap::block(std::size_t first, Index rows, Index columns) const {
  return {weights_.data() + first, rows, columns};
}

Matrix MlpMap::hidden_of(const Matrix& scaled) const {
  Matrix h(scaled.rows(), hidden_);
  h.noalias() = scaled * block(0, width_, hidden_);
  h.rowwise() += block(entries(width_, hidden_), 1, hidden_).row(0);
  return h.array().tanh();
}

Matrix MlpMap::output_of(const Matrix& hidden) const {
  const std::size_t second = entries(width_ + 1, hidden_);
  Matrix g(hidden.rows(), described_);
  g.noalias() = hidden * block(second, hidden_, described_);
  g.rowwise() += block(second + entries(hidden_, described_), 1, described_).row(0);
  return (description_scale_ * g).rowwise() + mean_description_;
}

Matrix MlpMap::operator()(const Matrix& states) const {
  return output_of(hidden_of((states.rowwise() - mean_state_) / state_scale_));
}

double MlpMap::loss_of(const Matrix& g, const Matrix& x, TokenDistance distance, Matrix* derivative) const {
  if (distance == TokenDistance::l2) {
    const double unit = static_cast<double>(described_) * description_scale_ * description_scale_;
    if (derivative) *derivative = (2 / unit) * (g - x);
    return (g - x).squaredNorm() / unit;
  }
  double sum = 0;
  if (derivative) derivative->setZero(g.rows(), g.cols());
  for (Index i = 0; i < g.rows(); ++i) {
    const double length = g.row(i).norm(), other = x.row(i).norm();
    sum += 1;  // cos = 0 where a length is 0
    if (length == 0 || other == 0) continue;
    const double cosine = g.row(i).dot(x.row(i)) / (length * other);
    sum -= cosine;
    if (derivative)
      derivative->row(i) = (cosine / (length * length)) * g.row(i) - x.row(i) / (length * other);
  }
  return sum;
}

double MlpMap::loss(const TokenExample& sample, TokenDistance distance) const {
  return loss_of((*this)(sample.states), sample.descriptions, distance, nullptr);
}

double MlpMap::add_gradient(const TokenExample& sample, TokenDistance distance,
                            std::vector<double>& gradient) const {
  const Matrix scaled = (sample.states.rowwise() - mean_state_) / state_scale_;
  const Matrix h = hidden_of(scaled);
  Matrix by_g;
  const double sum = loss_of(output_of(h), sample.descriptions, distance, &by_g);
  by_g *= description_scale_;

  const std::size_t bias = entries(width_, hidden_), second = entries(width_ + 1, hidden_),
                    last = second + entries(hidden_, described_);
  const auto part = [&](std::size_t first, Index rows, Index columns) {
    return Eigen::Map<Matrix>(gradient.data() + first, rows, columns);
  };
  part(second, hidden_, described_).noalias() += h.transpose() * by_g;
  part(last, 1, described_) += by_g.colwise().sum();
  Matrix by_h(h.rows(), hidden_);
  by_h.noalias() = by_g * block(second, hidden_, described_).transpose();
  by_h.array() *= 1 - h.array().square();
  part(0, width_, hidden_).noalias() += scaled.transpose() * by_h;
  part(bias, 1, hidden_) += by_h.colwise().sum();
  return sum;
}

std::vector<char> MlpMap::decays() const {
  std::vector<char> all(size(), 1);
  const auto none = [&](std::size_t first, Index count) { std::fill_n(all.begin() + first, count, char{0}); };
  none(entries(width_, hidden_), hidden_);
  none(entries(width_ + 1, hidden_) + entries(hidden_, described_), described_);
  return all;
}

}  // namespace fluxformer::identifiability
