#include "analysis/decoder/row_maps.hpp"

#include <cmath>
#include <utility>

namespace fluxformer::decoder {

namespace {

// Rows P v_i, P = I - 1 1^T / d
Matrix centred(const Matrix& v) {
  const Vector mean = v.rowwise().mean();
  return v.colwise() - mean;
}

Vector row_products(const Matrix& a, const Matrix& b) {
  return a.cwiseProduct(b).rowwise().sum();
}

}  // namespace

RowNorm::RowNorm(const Matrix& x, double epsilon) : y_(centred(x)) {
  // 1 / s = (|c|^2 / d + eps)^(-1/2),  y = c / s
  const double d = x.cols();
  inverse_ = (y_.rowwise().squaredNorm().array() / d + epsilon).rsqrt();
  y_ = inverse_.asDiagonal() * y_;
}

// J v = (P v - y (y . v) / d) / s
Matrix RowNorm::times(const Matrix& v) const {
  const double d = v.cols();
  const Vector along = row_products(y_, v) / d;
  Matrix product = centred(v);
  product -= along.asDiagonal() * y_;
  return inverse_.asDiagonal() * product;
}

// Q(g) v = [(3 (y . g) (y . v) / d - g . P v) y - (y . v) P g - (y . g) P v] / (d s^2)
Matrix RowNorm::curvature_times(const Matrix& g, const Matrix& v) const {
  const double d = v.cols();
  const Matrix pg = centred(g), pv = centred(v);
  const Vector yv = row_products(y_, v), yg = row_products(y_, g), gpv = row_products(g, pv);
  const Vector along = 3 / d * yg.cwiseProduct(yv) - gpv;
  Matrix product = along.asDiagonal() * y_;
  product -= yv.asDiagonal() * pg;
  product -= yg.asDiagonal() * pv;
  return inverse_.cwiseAbs2().asDiagonal() * product / d;
}

// Rows v J = (v P - (v . y) y^T / d) / s
Matrix RowNorm::times_one(const Matrix& v, Index row) const {
  const double d = v.cols();
  const Vector along = v * y_.row(row).transpose() / d;
  return inverse_(row) * (centred(v) - along * y_.row(row));
}

// Q(g) = [3 (g . y) y y^T / d - (P g) y^T - y (P g)^T - (g . y) (I - 1 1^T / d)] / (d s^2)
Matrix RowNorm::curvature(const Vector& g, Index row) const {
  const double width = y_.cols();
  const Vector y = y_.row(row);
  const Vector pg = g.array() - g.mean();
  const double gy = g.dot(y);
  Matrix q = (3 * gy / width) * y * y.transpose() - pg * y.transpose() - y * pg.transpose();
  q.diagonal().array() -= gy;
  q.array() += gy / width;
  return q * (inverse_(row) * inverse_(row) / width);
}

Tail squared_error(Matrix target, double c) {
  return [target = std::move(target), c](Index row, const Vector& f) {
    // l = c |f - y|^2,  g = 2 c (f - y),  B^o = 2 c I = Phi^T Phi
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
    // l = w (ln sum_a exp f_a - f_label),  g = w (p - onehot); the largest f is taken out of exp.
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
    // g = J^T g_y,  Phi = Phi_y J,  B^f = J^T B^f_y J + sum_a (g_y)_a d2 phi_a
    RowLoss pulled{at.loss, y.pull(at.gradient.transpose()).transpose(), y.pull(at.factor), {}};
    if (at.functional.size() > 0) {
      // B^f_y is symmetric, so that J^T B^f_y J = (B^f_y J)^T J.
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

namespace {

// phi, phi' and phi''; an empty curvature is zero
struct Activated {
  Vector value, slope, curvature;
};

Activated activated(Nonlinearity kind, const Vector& x) {
  if (kind == Nonlinearity::relu) {
    const Vector on = (x.array() > 0).cast<double>();
    return {x.cwiseProduct(on), on, {}};
  }
  // phi' = 1 - phi^2,  phi'' = -2 phi phi'
  const Vector y = x.array().tanh();
  const Vector slope = 1 - y.array().square();
  return {y, slope, -2 * y.array() * slope.array()};
}

}  // namespace

RowFunction projection(Matrix w) {
  return [w = std::move(w)](Index, const Vector& f) {
    return RowMap{w.transpose() * f, [&w](const Matrix& rows) -> Matrix { return rows * w.transpose(); }};
  };
}

RowFunction shifted(Matrix shift) {
  return [shift = std::move(shift)](Index row, const Vector& f) {
    return RowMap{f + shift.row(row).transpose(), [](const Matrix& rows) { return rows; }};
  };
}

RowFunction layer_norm(double epsilon) {
  return [epsilon](Index, const Vector& f) {
    const RowNorm norm(f.transpose(), epsilon);
    return RowMap{norm.values().transpose(), [norm](const Matrix& rows) { return norm.times_one(rows, 0); },
                  [norm](const Vector& g) { return norm.curvature(g, 0); }};
  };
}

RowFunction residual_mlp(MlpWeights weights) {
  return [w = std::move(weights)](Index, const Vector& r) {
    std::optional<RowNorm> norm;
    if (w.norm_epsilon) norm.emplace(r.transpose(), *w.norm_epsilon);
    const Vector n = norm ? Vector(norm->values().transpose()) : r;
    const Activated phi = activated(w.nonlinearity, w.in.transpose() * n + w.in_bias);

    // y = r + W_out^T phi(a) + b_out, a = W_in^T n + b_in:  J = I + W_out^T diag(phi') W_in^T dn/dr
    RowMap map;
    map.value = r + w.out.transpose() * phi.value + w.out_bias;
    map.pull = [&w, norm, slope = phi.slope](const Matrix& rows) -> Matrix {
      const Matrix hidden = rows * w.out.transpose() * slope.asDiagonal();
      const Matrix inner = hidden * w.in.transpose();
      return rows + (norm ? norm->times_one(inner, 0) : inner);
    };
    if (!norm && phi.curvature.size() == 0) return map;
    // g . d2 y = (W_in (phi' o W_out g)) . d2 n + (da/dr)^T diag(phi'' o W_out g) da/dr
    map.curvature = [&w, norm, phi](const Vector& g) -> Matrix {
      const Vector hidden = w.out * g;
      Matrix q = Matrix::Zero(g.size(), g.size());
      if (norm) q += norm->curvature(w.in * phi.slope.cwiseProduct(hidden), 0);
      if (phi.curvature.size() == 0) return q;
      const Matrix pulled = norm ? norm->times_one(w.in.transpose(), 0) : Matrix(w.in.transpose());
      return q + pulled.transpose() * phi.curvature.cwiseProduct(hidden).asDiagonal() * pulled;
    };
    return map;
  };
}

}  // namespace fluxformer::decoder
