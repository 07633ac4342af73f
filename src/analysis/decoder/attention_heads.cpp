#include "analysis/decoder/attention_heads.hpp"

#include <utility>

namespace fluxformer::decoder {

AttentionHeads::AttentionHeads(std::vector<AttentionHead> heads, const Tail& tail, std::vector<Index> scored)
    : heads_(std::move(heads)), scored_(std::move(scored)) {
  const AttentionHead& first = heads_.at(0);
  Matrix r = Matrix::Zero(first.map.tokens().rows(), first.output.cols());
  for (const AttentionHead& head : heads_) {
    values_.push_back(head.map.values());
    r += values_.back() * head.output;
  }
  for (const Index row : scored_) losses_.push_back(tail(row, r.row(row)));
}

Index AttentionHeads::begin(std::size_t head) const {
  Index sum = 0;
  for (std::size_t h = 0; h < head; ++h) sum += heads_[h].size();
  return sum;
}

double AttentionHeads::loss() const {
  double sum = 0;
  for (const RowLoss& at : losses_) sum += at.loss;
  return sum;
}

// dr_i / d theta, d x p
Matrix AttentionHeads::jacobian(Index row) const {
  const Index d = heads_[0].output.cols();
  Matrix j = Matrix::Zero(d, size());
  Index at = 0;
  for (std::size_t h = 0; h < heads_.size(); ++h) {
    const AttentionHead& head = heads_[h];
    j.middleCols(at, head.map.size()) = head.output.transpose() * head.map.jacobian(row);
    at += head.map.size();
    for (Index t = 0; t < head.output.rows(); ++t, at += d) {
      j.middleCols(at, d).diagonal().setConstant(values_[h](row, t));
    }
  }
  return j;
}

Vector AttentionHeads::gradient() const {
  Vector sum = Vector::Zero(size());
  for (std::size_t i = 0; i < scored_.size(); ++i) {
    sum += jacobian(scored_[i]).transpose() * losses_[i].gradient;
  }
  return sum;
}

Matrix AttentionHeads::hessian(Part part) const {
  const Index d = heads_[0].output.cols();
  Matrix h = Matrix::Zero(size(), size());
  for (std::size_t i = 0; i < scored_.size(); ++i) {
    const RowLoss& at = losses_[i];
    const Matrix j = jacobian(scored_[i]);
    const Matrix outputs = at.factor * j;
    if (part != Part::functional) h += outputs.transpose() * outputs;
    if (part == Part::outer) continue;
    if (at.functional.size() > 0) h += j.transpose() * (at.functional * j);
    for (std::size_t n = 0; n < heads_.size(); ++n) {
      const AttentionHead& head = heads_[n];
      const Index theta = begin(n), output = theta + head.map.size();
      head.map.add_curvature(scored_[i], head.output * at.gradient, theta, h);
      const Matrix z = head.map.jacobian(scored_[i]);
      for (Index t = 0; t < z.rows(); ++t) {
        h.block(theta, output + t * d, z.cols(), d) += z.row(t).transpose() * at.gradient.transpose();
      }
    }
  }
  h.triangularView<Eigen::StrictlyLower>() = h.transpose();
  return h;
}

}  // namespace fluxformer::decoder
