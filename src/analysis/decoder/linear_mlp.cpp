#include "analysis/decoder/linear_mlp.hpp"

#include <utility>

namespace fluxformer::decoder {

LinearMlp::LinearMlp(Matrix x, const Matrix& target, double c, std::vector<Matrix> weights)
    : c_(c), weights_(std::move(weights)), before_{std::move(x)}, behind_(weights_.size()) {
  for (const Matrix& w : weights_) before_.push_back(before_.back() * w);
  residual_ = before_.back() - target;
  Matrix rest = Matrix::Identity(residual_.cols(), residual_.cols());
  for (std::size_t l = weights_.size(); l-- > 0;) {
    behind_[l] = rest;
    rest = weights_[l] * rest;
  }
}

double LinearMlp::loss() const {
  return c_ * residual_.squaredNorm();
}

Matrix LinearMlp::hessian(Part part) const {
  std::vector<Index> begin{0};
  for (const Matrix& w : weights_) begin.push_back(begin.back() + w.size());
  Matrix h = Matrix::Zero(begin.back(), begin.back());
  for (std::size_t l = 0; l < weights_.size(); ++l) {
    Matrix between = Matrix::Identity(weights_[l].cols(), weights_[l].cols());  // W_{l+1} .. W_{m-1}
    for (std::size_t m = l; m < weights_.size(); ++m) {
      const Matrix inputs = 2 * c_ * before_[l].transpose() * before_[m];
      const Matrix outputs = behind_[l] * behind_[m].transpose();
      const Matrix pulled = 2 * c_ * before_[l].transpose() * residual_ * behind_[m].transpose();
      const Index rows = weights_[l].cols(), columns = weights_[m].cols();
      for (Index a = 0; a < inputs.rows(); ++a) {
        for (Index b = 0; b < inputs.cols(); ++b) {
          auto part_of_block = h.block(begin[l] + a * rows, begin[m] + b * columns, rows, columns);
          if (part != Part::functional) part_of_block += inputs(a, b) * outputs;
          if (part != Part::outer && m > l) part_of_block += between.col(b) * pulled.row(a);
        }
      }
      if (m > l) between = between * weights_[m];
    }
  }
  h.triangularView<Eigen::StrictlyLower>() = h.transpose();
  return h;
}

double LinearMlp::diagonal_norm(std::size_t layer) const {
  const Matrix inputs = before_[layer].transpose() * before_[layer];
  const Matrix outputs = behind_[layer] * behind_[layer].transpose();
  return 2 * c_ * inputs.stableNorm() * outputs.stableNorm();
}

}  // namespace fluxformer::decoder
