#include "analysis/decoder/attention_layer.hpp"

#include <algorithm>
#include <cmath>
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

Matrix AttentionLayer::hessian(HessianTerm part) const {
  Matrix h = Matrix::Zero(size(), size());
  // H_o = sum_i (Phi_i J_i)^T (Phi_i J_i),  H_f = sum_i J_i^T B^f_i J_i + g_i . d2 f_i
  for (std::size_t i = 0; i < scored_.size(); ++i) {
    const RowLoss& at = losses_[i];
    const Matrix j = map_.jacobian(scored_[i]);
    if (part != HessianTerm::functional) h += (at.factor * j).transpose() * (at.factor * j);
    if (part == HessianTerm::outer) continue;
    if (at.functional.size() > 0) h += j.transpose() * (at.functional * j);
    map_.add_curvature(scored_[i], at.gradient, 0, h);
  }
  // add_curvature leaves out the blocks below the diagonal: they mirror those above.
  h.triangularView<Eigen::StrictlyLower>() = h.transpose();
  return h;
}

Vector AttentionLayer::product(HessianTerm part, const Vector& direction) const {
  const Matrix f_dot = map_.tangent(direction);
  // sum_i J_i^T b_i with b_i = B_i f_dot_i, where B_i is B^o_i, B^f_i or their sum. H and H_f also have the
  // curvature of the layer, (sum_i g_i . d2 f_i) theta_dot.
  Matrix b = Matrix::Zero(f_dot.rows(), f_dot.cols());
  for (std::size_t i = 0; i < scored_.size(); ++i) {
    const RowLoss& at = losses_[i];
    const Vector dot = f_dot.row(scored_[i]);
    Vector row = Vector::Zero(dot.size());
    if (part != HessianTerm::functional) row += at.factor.transpose() * (at.factor * dot);
    if (part != HessianTerm::outer && at.functional.size() > 0) row += at.functional * dot;
    b.row(scored_[i]) = row;
  }
  const Vector product = map_.adjoint(b);
  return part == HessianTerm::outer ? product
                                    : Vector(product + map_.curvature_times(gradients(), direction));
}

Matrix block(const Matrix& hessian, const AttentionMap& map, Weight rows, Weight columns) {
  return hessian.block(map.begin(rows), map.begin(columns), map.size(rows), map.size(columns));
}

DecoderHeads::DecoderHeads(std::vector<DecoderHead> heads, const Tail& tail, std::vector<Index> scored)
    : heads_(std::move(heads)), scored_(std::move(scored)) {
  const DecoderHead& first = heads_.at(0);
  Matrix r = Matrix::Zero(first.map.tokens().rows(), first.output.cols());
  // r_i = sum_h W_O,h^T z_h,i with the rows z_h,i of A_h X W_V,h
  for (const DecoderHead& head : heads_) {
    values_.push_back(head.map.values());
    r += values_.back() * head.output;
  }
  for (const Index row : scored_) losses_.push_back(tail(row, r.row(row)));
}

Index DecoderHeads::begin(Index head) const {
  Index sum = 0;
  for (Index h = 0; h < head; ++h) sum += heads_[h].size();
  return sum;
}

double DecoderHeads::loss() const {
  double sum = 0;
  for (const RowLoss& at : losses_) sum += at.loss;
  return sum;
}

// Jacobian dr_i / d theta, d x p. The columns of a head are W_O,h^T J_h, then z_h,i^T (x) I, because
// dr_i / dW_O[t,s] = z_it e_s.
Matrix DecoderHeads::jacobian(Index row) const {
  const Index d = heads_[0].output.cols();
  Matrix j = Matrix::Zero(d, size());
  Index at = 0;
  for (std::size_t h = 0; h < heads_.size(); ++h) {
    const DecoderHead& head = heads_[h];
    j.middleCols(at, head.map.size()) = head.output.transpose() * head.map.jacobian(row);
    at += head.map.size();
    for (Index t = 0; t < head.output.rows(); ++t, at += d) {
      j.middleCols(at, d).diagonal().setConstant(values_[h](row, t));
    }
  }
  return j;
}

Vector DecoderHeads::gradient() const {
  Vector sum = Vector::Zero(size());
  for (std::size_t i = 0; i < scored_.size(); ++i) {
    sum += jacobian(scored_[i]).transpose() * losses_[i].gradient;
  }
  return sum;
}

Matrix DecoderHeads::hessian(HessianTerm part) const {
  const Index d = heads_[0].output.cols();
  Matrix h = Matrix::Zero(size(), size());
  for (std::size_t i = 0; i < scored_.size(); ++i) {
    const RowLoss& at = losses_[i];
    const Matrix j = jacobian(scored_[i]);
    // (Phi_i J_i)^T (Phi_i J_i) and J_i^T B^f_i J_i couple all heads.
    const Matrix outputs = at.factor * j;
    if (part != HessianTerm::functional) h += outputs.transpose() * outputs;
    if (part == HessianTerm::outer) continue;
    if (at.functional.size() > 0) h += j.transpose() * (at.functional * j);
    // Within a head the layer's curvature is contracted with W_O g_i, and [theta, (t,s)] = J_h[t,theta] g_is.
    for (Index n = 0; n < std::ssize(heads_); ++n) {
      const DecoderHead& head = heads_[n];
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

namespace {

using ConstMap = Eigen::Map<const Matrix>;
using FlatRow = Eigen::Map<const Eigen::RowVectorXd>;

FlatRow flat_row(const Matrix& a) {
  return {a.data(), a.size()};
}

// B^o, B^f or their sum, for H_o, H_f or H
Matrix curvature(const RowLoss& at, HessianTerm part) {
  const Index e = at.gradient.size();
  Matrix b = Matrix::Zero(e, e);
  if (part != HessianTerm::functional) b += at.factor.transpose() * at.factor;
  if (part != HessianTerm::outer && at.functional.size() > 0) b += at.functional;
  return b;
}

// Factors of one row, in the notation of the header.
BlockFactors row_factors(const AttentionLayer& layer, Index scored, Weight rows, Weight columns,
                         HessianTerm part) {
  const AttentionMap& map = layer.map();
  const DecoderAttentionWeights& w = map.weights();
  const RowLoss& at = layer.losses()[scored];
  const Index i = layer.scored()[scored];
  const double tau = map.tau();
  const Matrix m = map.moments().first().row(i), x = map.tokens().row(i), q = map.queries().row(i);
  const Matrix b = curvature(at, part);
  // VV = (m m^T) (x) B
  if (columns == Weight::value) return {rows, columns, m, {}, flat_row(b), {}, {}};

  const Matrix c = map.moments().second(i);
  const Matrix r = w.value.transpose() * c;
  const Matrix br = b * r;
  const bool curved = part != HessianTerm::outer;
  // VQ [(a,b),(c,r)] = x_c (m_a N_br + g_b E_ar),  VK [(a,b),(c,r)] = q_r (m_a N_bc + g_b E_ac)
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
  // D = tau^2 (R^T B R + S(h)),  KK = D (x) (q q^T),  QQ = (x x^T) (x) (W_K^T D W_K),
  // QK [(a,r),(c,s)] = x_a [(W_K^T D)_rc q_s + v'_c delta_rs]; delta has the norm sqrt(k).
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
    one.gradients = Matrix::Constant(1, 1, std::sqrt(w.key.cols()));
    one.moments = (tau * c * h).transpose();
  }
  return one;
}

// c_ij = (E_j^T m_i) . (N_i^T g_j) of VQ and VK, i of a and j of b. For the rows j of a tile, row i of
// `with_n` holds all N_i^T g_j, and row i of `with_e` is E_j^T m_i. Tiles bound `with_n` to n x 64 k numbers.
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

// c_ij = q_i^T N_i v'_j of QK; row i of `with_n` is q_i^T N_i.
Matrix query_key_cross(const BlockFactors& a, const BlockFactors& b) {
  const Index k = a.left.cols(), d = b.moments.cols();
  Matrix with_n(a.left.rows(), d);
  for (Index i = 0; i < with_n.rows(); ++i) {
    with_n.row(i) = a.left.row(i) * ConstMap(a.products.row(i).data(), k, d);
  }
  return with_n * b.moments.transpose();
}

// Divides `a` by a power of two, which is returned, so that its largest entry is of order 1: products keep
// their bits.
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
                           HessianTerm part) {
  std::vector<BlockFactors> one_by_one;
  for (const AttentionLayer& layer : sequences) {
    for (Index i = 0; i < std::ssize(layer.scored()); ++i) {
      one_by_one.push_back(row_factors(layer, i, rows, columns, part));
    }
  }
  BlockFactors all{rows, columns, {}, {}, {}, {}, {}};
  for (Matrix BlockFactors::*piece : {&BlockFactors::common, &BlockFactors::left, &BlockFactors::products,
                                      &BlockFactors::gradients, &BlockFactors::moments}) {
    if (one_by_one.empty()) break;
    (all.*piece)
        .resize((one_by_one[0].*piece).rows() * std::ssize(one_by_one), (one_by_one[0].*piece).cols());
    for (Index i = 0; i < std::ssize(one_by_one) && (all.*piece).size() > 0; ++i) {
      (all.*piece).row(i) = one_by_one[i].*piece;
    }
  }
  return all;
}

double inner_product(const BlockFactors& a, const BlockFactors& b) {
  // sum_ij <U_i,U_j> <N_i,N_j> (docs/model.md, 9), where <U_i,U_j> = (o_i.o_j)^2 for a diagonal block
  const Matrix common = a.common * b.common.transpose();
  Matrix pairs = a.products * b.products.transpose();
  if (a.rows == a.columns) return common.cwiseAbs2().cwiseProduct(pairs).sum();
  // sum_ij (o_i.o_j) [(l_i.l_j) <N_i,N_j> + (g_i.g_j) <E_i,E_j> + c_ij + c_ji], l the rows of `left`; for QK
  // sqrt(k) stands for g and v' for E.
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

double block_norm(const std::vector<AttentionLayer>& sequences, Weight rows, Weight columns,
                  HessianTerm part) {
  BlockFactors factors = block_factors(sequences, rows, columns, part);
  // Squares leave the range of numbers long before norms do. The norm of (o o^T) (x) N is of second order
  // in o and of first order in N.
  const double common = rows == columns ? taken_out(factors.common) : 1,
               products = rows == columns ? taken_out(factors.products) : 1;
  const double square = inner_product(factors, factors);
  // A square below 0 is round-off; one that is not finite stays so.
  return square < 0 ? 0.0 : std::sqrt(square) * common * common * products;
}

}  // namespace fluxformer::decoder
