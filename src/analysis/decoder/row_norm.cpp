#include "analysis/decoder/row_norm.hpp"

namespace fluxformer::decoder {

namespace {

// Rows P v_i
Matrix centred(const Matrix& v) {
  const Vector mean = v.rowwise().mean();
  return v.colwise() - mean;
}

Vector row_products(const Matrix& a, const Matrix& b) {
  return a.cwiseProduct(b).rowwise().sum();
}

}  // namespace

RowNorm::RowNorm(const Matrix& x, double epsilon) : y_(centred(x)) {
  inverse_ = (y_.rowwise().squaredNorm().array() / static_cast<double>(x.cols()) + epsilon).rsqrt();
  y_ = inverse_.asDiagonal() * y_;
}

Matrix RowNorm::times(const Matrix& v) const {
  const Vector along = row_products(y_, v) / static_cast<double>(v.cols());
  Matrix product = centred(v);
  product -= along.asDiagonal() * y_;
  return inverse_.asDiagonal() * product;
}

Matrix RowNorm::curvature_times(const Matrix& g, const Matrix& v) const {
  const double d = static_cast<double>(v.cols());
  const Matrix pg = centred(g), pv = centred(v);
  const Vector yv = row_products(y_, v), yg = row_products(y_, g), gpv = row_products(g, pv);
  const Vector along = 3 / d * yg.cwiseProduct(yv) - gpv;
  Matrix product = along.asDiagonal() * y_;
  product -= yv.asDiagonal() * pg;
  product -= yg.asDiagonal() * pv;
  return inverse_.cwiseAbs2().asDiagonal() * product / d;
}

Matrix RowNorm::times_one(const Matrix& v, Index row) const {
  const Vector along = v * y_.row(row).transpose() / static_cast<double>(v.cols());
  return inverse_(row) * (centred(v) - along * y_.row(row));
}

Matrix RowNorm::curvature(const Vector& g, Index row) const {
  const Index d = y_.cols();
  const double width = static_cast<double>(d);
  const Vector y = y_.row(row);
  const Vector pg = g.array() - g.mean();
  const double gy = g.dot(y);
  Matrix q = (3 * gy / width) * y * y.transpose() - pg * y.transpose() - y * pg.transpose();
  q.diagonal().array() -= gy;
  q.array() += gy / width;
  return q * (inverse_(row) * inverse_(row) / width);
}

}  // namespace fluxformer::decoder
