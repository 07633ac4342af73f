#include "analysis/decoder/block_norms.hpp"

#include <algorithm>
#include <cmath>

namespace fluxformer::decoder {

namespace {

using ConstMap = Eigen::Map<const Matrix>;
using FlatRow = Eigen::Map<const Eigen::RowVectorXd>;

FlatRow flat_row(const Matrix& a) {
  return {a.data(), a.size()};
}

// B^o, B^f or both
Matrix curvature(const RowLoss& at, Part part) {
  const Index e = at.gradient.size();
  Matrix b = Matrix::Zero(e, e);
  if (part != Part::functional) b += at.factor.transpose() * at.factor;
  if (part != Part::outer && at.functional.size() > 0) b += at.functional;
  return b;
}

// One row's factors.
BlockFactors row_factors(const AttentionLayer& layer, std::size_t scored, Weight rows, Weight columns,
                         Part part) {
  const AttentionMap& map = layer.map();
  const AttentionWeights& w = map.weights();
  const RowLoss& at = layer.losses()[scored];
  const Index i = layer.scored()[scored];
  const double tau = map.tau();
  const Matrix m = map.moments().first().row(i), x = map.tokens().row(i), q = map.queries().row(i);
  const Matrix b = curvature(at, part);
  if (columns == Weight::value) return {rows, columns, m, {}, flat_row(b), {}, {}};

  const Matrix c = map.moments().second(i);
  const Matrix r = w.value.transpose() * c;
  const Matrix br = b * r;
  const bool curved = part != Part::outer;
  if (rows == Weight::value) {
    const Matrix n = columns == Weight::query ? Matrix(tau * br * w.key) : Matrix(tau * br);
    BlockFactors one{rows, columns, columns == Weight::query ? x : q, m, flat_row(n), {}, {}};
    if (curved) {
      const Matrix e = columns == Weight::query ? Matrix(tau * c * w.key) : Matrix(tau * c);
      one.gradients = at.gradient.transpose();
      one.moments = flat_row(e);
    }
    return one;
  }
  const Vector h = w.value * at.gradient;
  Matrix d = tau * tau * r.transpose() * br;
  if (curved) d += tau * tau * map.moments().third(i, h);
  if (rows == Weight::key) return {rows, columns, q, {}, flat_row(d), {}, {}};
  const Matrix kd = w.key.transpose() * d;
  if (columns == Weight::query) {
    const Matrix kdk = kd * w.key;
    return {rows, columns, x, {}, flat_row(kdk), {}, {}};
  }
  BlockFactors one{rows, columns, x, q, flat_row(kd), {}, {}};
  if (curved) {
    one.gradients = Matrix::Constant(1, 1, std::sqrt(static_cast<double>(w.key.cols())));
    one.moments = (tau * c * h).transpose();
  }
  return one;
}

// c_ij of VQ and VK, i of a and j of b, by tiles of j: (E_j^T m_i) . (N_i^T g_j)
Matrix value_cross(const BlockFactors& a, const BlockFactors& b) {
  const Index d = a.left.cols(), e = b.gradients.cols(), k = b.moments.cols() / d;
  const Index n = a.left.rows(), count = b.gradients.rows(), tile = 64;
  Matrix cross(n, count);
  for (Index begin = 0; begin < count; begin += tile) {
    const Index width = std::min(tile, count - begin);
    const Matrix g = b.gradients.middleRows(begin, width);
    Matrix with_n(n, width * k);  // [i][j][k]
    for (Index i = 0; i < n; ++i) {
      const Matrix product = g * ConstMap(a.products.row(i).data(), e, k);
      with_n.row(i) = flat_row(product);
    }
    for (Index j = 0; j < width; ++j) {
      const Matrix with_e = a.left * ConstMap(b.moments.row(begin + j).data(), d, k);
      cross.col(begin + j) = with_e.cwiseProduct(with_n.middleCols(j * k, k)).rowwise().sum();
    }
  }
  return cross;
}

// c_ij of QK: q_i^T N_i v'_j
Matrix query_key_cross(const BlockFactors& a, const BlockFactors& b) {
  const Index k = a.left.cols(), d = b.moments.cols();
  Matrix with_n(a.left.rows(), d);
  for (Index i = 0; i < with_n.rows(); ++i) {
    with_n.row(i) = a.left.row(i) * ConstMap(a.products.row(i).data(), k, d);
  }
  return with_n * b.moments.transpose();
}

// Divides by a power of two, which is returned, so that the largest entry is of order 1: products keep their bits.
double taken_out(Matrix& a) {
  const double largest = a.cwiseAbs().maxCoeff();
  if (!(largest > 0) || std::isinf(largest)) return 1;
  const double scale = std::exp2(std::ilogb(largest));
  a /= scale;
  return scale;
}

Matrix cross_terms(const BlockFactors& a, const BlockFactors& b) {
  return a.rows == Weight::value ? value_cross(a, b) : query_key_cross(a, b);
}

}  // namespace

BlockFactors block_factors(const std::vector<AttentionLayer>& sequences, Weight rows, Weight columns,
                           Part part) {
  std::vector<BlockFactors> one_by_one;
  for (const AttentionLayer& layer : sequences) {
    for (std::size_t i = 0; i < layer.scored().size(); ++i) {
      one_by_one.push_back(row_factors(layer, i, rows, columns, part));
    }
  }
  BlockFactors all{rows, columns, {}, {}, {}, {}, {}};
  for (Matrix BlockFactors::*piece : {&BlockFactors::common, &BlockFactors::left, &BlockFactors::products,
                                      &BlockFactors::gradients, &BlockFactors::moments}) {
    if (one_by_one.empty()) break;
    (all.*piece)
        .resize((one_by_one[0].*piece).rows() * static_cast<Index>(one_by_one.size()),
                (one_by_one[0].*piece).cols());
    for (std::size_t i = 0; i < one_by_one.size() && (all.*piece).size() > 0; ++i) {
      (all.*piece).row(static_cast<Index>(i)) = one_by_one[i].*piece;
    }
  }
  return all;
}

double inner_product(const BlockFactors& a, const BlockFactors& b) {
  const Matrix common = a.common * b.common.transpose();
  Matrix pairs = a.products * b.products.transpose();
  if (a.rows == a.columns) return common.cwiseAbs2().cwiseProduct(pairs).sum();
  pairs = pairs.cwiseProduct(a.left * b.left.transpose());
  if (a.moments.size() > 0) {
    const Matrix gradients = a.gradients * b.gradients.transpose(),
                 moments = a.moments * b.moments.transpose();
    const Matrix cross = cross_terms(a, b);
    pairs += gradients.cwiseProduct(moments) + cross;
    pairs += &a == &b ? Matrix(cross.transpose()) : Matrix(cross_terms(b, a).transpose());
  }
  return common.cwiseProduct(pairs).sum();
}

double block_norm(const std::vector<AttentionLayer>& sequences, Weight rows, Weight columns, Part part) {
  BlockFactors factors = block_factors(sequences, rows, columns, part);
  // Squares leave the range of numbers long before norms do.
  const double common = rows == columns ? taken_out(factors.common) : 1,
               products = rows == columns ? taken_out(factors.products) : 1;
  const double square = inner_product(factors, factors);
  // Below 0 by round-off; what is not finite stays so.
  return square < 0 ? 0.0 : std::sqrt(square) * common * common * products;
}

}  // namespace fluxformer::decoder
