#include "analysis/decoder/row_maps.hpp"

#include <utility>

#include "analysis/decoder/row_norm.hpp"

namespace fluxformer::decoder {

namespace {

struct Activated {
  Vector value, slope, curvature;  // phi, phi', phi''; no bend: zero
};

Activated activated(Nonlinearity kind, const Vector& x) {
  if (kind == Nonlinearity::relu) {
    const Vector on = (x.array() > 0).cast<double>();
    return {x.cwiseProduct(on), on, {}};
  }
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

    RowMap map;
    map.value = r + w.out.transpose() * phi.value + w.out_bias;
    map.pull = [&w, norm, slope = phi.slope](const Matrix& rows) -> Matrix {
      const Matrix hidden = rows * w.out.transpose() * slope.asDiagonal();
      const Matrix inner = hidden * w.in.transpose();
      return rows + (norm ? norm->times_one(inner, 0) : inner);
    };
    if (!norm && phi.curvature.size() == 0) return map;
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
