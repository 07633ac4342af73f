#include "analysis/decoder/row_tail.hpp"

#include <cmath>
#include <utility>

namespace fluxformer::decoder {

Tail squared_error(Matrix target, double c) {
  return [target = std::move(target), c](Index row, const Vector& f) {
    const Vector residual = f - target.row(row).transpose();
    return RowLoss{c * residual.squaredNorm(),
                   2 * c * residual,
                   std::sqrt(2 * c) * Matrix::Identity(f.size(), f.size()),
                   {}};
  };
}

Tail cross_entropy(std::vector<int> labels, double weight) {
  return [labels = std::move(labels), weight](Index row, const Vector& f) {
    const Index label = labels[row];
    const double largest = f.maxCoeff();
    Vector p = (f.array() - largest).exp();
    const double sum = p.sum();
    p /= sum;
    RowLoss at{weight * (std::log(sum) + largest - f(label)), weight * p, {}, {}};
    at.gradient(label) -= weight;
    // diag p - p p^T = Phi^T Phi with Phi = (I - r r^T) diag r, r = sqrt p, because r r^T is a projector.
    const Vector root = p.cwiseSqrt();
    at.factor = -root * p.transpose();
    at.factor.diagonal() += root;
    at.factor *= std::sqrt(weight);
    return at;
  };
}

Tail behind(RowFunction map, Tail tail) {
  return [map = std::move(map), tail = std::move(tail)](Index row, const Vector& f) {
    const RowMap y = map(row, f);
    const RowLoss at = tail(row, y.value);
    RowLoss pulled{at.loss, y.pull(at.gradient.transpose()).transpose(), y.pull(at.factor), {}};
    if (at.functional.size() > 0) {
      const Matrix right = y.pull(at.functional);
      pulled.functional = y.pull(right.transpose());
    }
    if (y.curvature) {
      const Matrix own = y.curvature(at.gradient);
      pulled.functional = pulled.functional.size() > 0 ? Matrix(pulled.functional + own) : own;
    }
    return pulled;
  };
}

}  // namespace fluxformer::decoder
