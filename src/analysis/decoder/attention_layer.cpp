#include "analysis/decoder/attention_layer.hpp"

#include <numeric>
#include <utility>

namespace fluxformer::decoder {

std::vector<Index> every_row(Index tokens) {
  std::vector<Index> rows(tokens);
  std::iota(rows.begin(), rows.end(), Index{0});
  return rows;
}

AttentionLayer::AttentionLayer(AttentionMap map, const Tail& tail, std::vector<Index> scored)
    : map_(std::move(map)), scored_(std::move(scored)) {
  const Matrix f = map_.values();
  for (const Index row : scored_) losses_.push_back(tail(row, f.row(row)));
}

double AttentionLayer::loss() const {
  double sum = 0;
  for (const RowLoss& at : losses_) sum += at.loss;
  return sum;
}

// Rows g_i, zero where a row is not scored.
Matrix AttentionLayer::gradients() const {
  Matrix g = Matrix::Zero(map_.tokens().rows(), map_.weights().value.cols());
  for (std::size_t i = 0; i < scored_.size(); ++i) g.row(scored_[i]) = losses_[i].gradient;
  return g;
}

Matrix AttentionLayer::hessian(Part part) const {
  Matrix h = Matrix::Zero(size(), size());
  for (std::size_t i = 0; i < scored_.size(); ++i) {
    const RowLoss& at = losses_[i];
    const Matrix j = map_.jacobian(scored_[i]);
    if (part != Part::functional) h += (at.factor * j).transpose() * (at.factor * j);
    if (part == Part::outer) continue;
    if (at.functional.size() > 0) h += j.transpose() * (at.functional * j);
    map_.add_curvature(scored_[i], at.gradient, 0, h);
  }
  h.triangularView<Eigen::StrictlyLower>() = h.transpose();
  return h;
}

Vector AttentionLayer::product(Part part, const Vector& direction) const {
  const Matrix f_dot = map_.tangent(direction);
  Matrix b = Matrix::Zero(f_dot.rows(), f_dot.cols());
  for (std::size_t i = 0; i < scored_.size(); ++i) {
    const RowLoss& at = losses_[i];
    const Vector dot = f_dot.row(scored_[i]);
    Vector row = Vector::Zero(dot.size());
    if (part != Part::functional) row += at.factor.transpose() * (at.factor * dot);
    if (part != Part::outer && at.functional.size() > 0) row += at.functional * dot;
    b.row(scored_[i]) = row;
  }
  const Vector product = map_.adjoint(b);
  return part == Part::outer ? product : Vector(product + map_.curvature_times(gradients(), direction));
}

Matrix block(const Matrix& hessian, const AttentionMap& map, Weight rows, Weight columns) {
  return hessian.block(map.begin(rows), map.begin(columns), map.size(rows), map.size(columns));
}

}  // namespace fluxformer::decoder
