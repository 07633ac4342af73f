#include "analysis/identifiability/token_map.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "analysis/dense_matrices.hpp"
#include "base/error.hpp"

namespace fluxformer::identifiability {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::RowVectorXd;
using Eigen::VectorXd;

Matrix LinearMap::operator()(const Matrix& states) const {
  Matrix g(states.rows(), slope.cols());
  g.noalias() = states * slope;
  g.rowwise() += offset;
  return g;
}

RidgeSums::RidgeSums(int width, int described)
    : RidgeSums(RowVectorXd::Zero(width).eval(), RowVectorXd::Zero(described).eval()) {}

RidgeSums::RidgeSums(RowVectorXd states, RowVectorXd descriptions)
    : state_(std::move(states)), description_(std::move(descriptions)) {
  const auto d = static_cast<std::size_t>(state_.size()), m = static_cast<std::size_t>(description_.size());
  described_ = 1 + d;
  squares_ = described_ + m;
  own_ = squares_ + 1;
  cross_ = own_ + d * d;
  set_size(cross_ + d * m);
}

void RidgeSums::add(const Matrix& states, const Matrix& descriptions) {
  const Index d = state_.size(), m = description_.size();
  if (states.rows() != descriptions.rows() || states.cols() != d || descriptions.cols() != m)
    throw BadInput("states and descriptions of a sample do not have the shapes of the regression");
  const Matrix u = states.rowwise() - state_, x = descriptions.rowwise() - description_;
  double* const s = local();
  s[0] += static_cast<double>(u.rows());
  Eigen::Map<RowVectorXd>(s + 1, d) += u.colwise().sum();
  Eigen::Map<RowVectorXd>(s + described_, m) += x.colwise().sum();
  s[squares_] += x.squaredNorm();
  Eigen::Map<Matrix>(s + own_, d, d).noalias() += u.transpose() * u;
  Eigen::Map<Matrix>(s + cross_, d, m).noalias() += u.transpose() * x;
}

RowVectorXd RidgeSums::mean_state() const {
  return state_ + sum(1, state_.size()) / tokens();
}

RowVectorXd RidgeSums::mean_description() const {
  return description_ + sum(described_, description_.size()) / tokens();
}

double RidgeSums::state_variance() const {
  const Index d = state_.size();
  const Eigen::Map<const Matrix> own(total().data() + own_, d, d);
  const double moved = (sum(1, d) / tokens()).squaredNorm();
  return (own.trace() / tokens() - moved) / static_cast<double>(d);
}

double RidgeSums::description_variance() const {
  const Index m = description_.size();
  const double moved = (sum(described_, m) / tokens()).squaredNorm();
  return (total()[squares_] / tokens() - moved) / static_cast<double>(m);
}

std::vector<LinearMap> RidgeSums::solve(const std::vector<double>& lambdas) const {
  const Index d = state_.size(), m = description_.size();
  if (tokens() == 0) throw NumericalFailure("a linear map is fitted to no tokens");
  const RowVectorXd u = sum(1, d) / tokens(), x = sum(described_, m) / tokens();
  const MatrixXd c = Eigen::Map<const Matrix>(total().data() + own_, d, d) / tokens() - u.transpose() * u;
  const MatrixXd b = Eigen::Map<const Matrix>(total().data() + cross_, d, m) / tokens() - u.transpose() * x;
  if (!c.allFinite() || !b.allFinite())
    throw NumericalFailure("a linear map is fitted to states that are not finite");
  const auto spectrum = symmetric_eigen(c);
  if (!spectrum.converged) throw NumericalFailure("the spectrum of the states did not converge");

  const VectorXd w = spectrum.values.cwiseMax(0);
  const double least = static_cast<double>(d) * std::numeric_limits<double>::epsilon() * w.maxCoeff();
  const MatrixXd projected = spectrum.vectors.transpose() * b;
  const RowVectorXd mean_u = mean_state(), mean_x = mean_description();
  std::vector<LinearMap> maps;
  for (const double lambda : lambdas) {
    if (!(lambda >= 0)) throw BadInput("the ridge parameter lambda must not be negative");
    const double ridge = lambda * w.mean();
    VectorXd factor(d);
    for (Index k = 0; k < d; ++k) factor[k] = std::max(w[k], ridge) > least ? 1 / (w[k] + ridge) : 0;
    LinearMap map;
    map.slope = spectrum.vectors * factor.asDiagonal() * projected;
    map.offset = mean_x - mean_u * map.slope;
    maps.push_back(std::move(map));
  }
  return maps;
}

}  // namespace fluxformer::identifiability
