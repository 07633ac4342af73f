#include "analysis/decoder/attention_moments.hpp"

namespace fluxformer::decoder {

namespace {

Matrix masked(Matrix a, Mask mask) {
  if (mask == Mask::causal) a.triangularView<Eigen::StrictlyUpper>().setZero();
  return a;
}

}  // namespace

// The largest score of a row is subtracted first, so that exp cannot overflow.
Matrix softmax_rows(const Matrix& scores, Mask mask) {
  Matrix a = Matrix::Zero(scores.rows(), scores.cols());
  for (Index i = 0; i < scores.rows(); ++i) {
    const Index seen = mask == Mask::causal ? i + 1 : scores.cols();
    auto row = a.row(i).head(seen);
    row = (scores.row(i).head(seen).array() - scores.row(i).head(seen).maxCoeff()).exp();
    row /= row.sum();
  }
  return a;
}

AttentionMoments::AttentionMoments(const Matrix& x, const Matrix& u, Scores scores, Mask mask)
    : scores_(scores), x_(x) {
  if (scores == Scores::softmax) {
    const Eigen::RowVectorXd mean = x.colwise().mean();
    x_.rowwise() -= mean;
    weights_ = softmax_rows(u * x_.transpose(), mask);
    centre_ = weights_ * x_;
    first_ = centre_.rowwise() + mean;
  } else {
    weights_ = masked(Matrix::Ones(x.rows(), x.rows()), mask);
    centre_ = Matrix::Zero(x.rows(), x.cols());
    first_ = second_times(u);
  }
}

Matrix AttentionMoments::deviations(Index row) const {
  return x_.rowwise() - centre_.row(row);
}

Matrix AttentionMoments::second(Index row) const {
  const Matrix deviation = deviations(row);
  const Matrix weighted = weights_.row(row).transpose().asDiagonal() * deviation;
  return deviation.transpose() * weighted;
}

Matrix AttentionMoments::third(Index row, const Vector& h) const {
  if (scores_ == Scores::linear) return Matrix::Zero(x_.cols(), x_.cols());
  const Matrix deviation = deviations(row);
  const Vector weight = weights_.row(row).transpose().cwiseProduct(deviation * h);
  const Matrix weighted = weight.asDiagonal() * deviation;
  return deviation.transpose() * weighted;
}

// (x_j - centre_i) . y_i
Matrix AttentionMoments::projections(const Matrix& y) const {
  Matrix s = y * x_.transpose();
  s.colwise() -= y.cwiseProduct(centre_).rowwise().sum();
  return s;
}

// Rows sum_j s_ij (x_j - centre_i)
Matrix AttentionMoments::weighted_deviations(const Matrix& s) const {
  Matrix sums = s * x_;
  const Vector total = s.rowwise().sum();
  sums -= total.asDiagonal() * centre_;
  return sums;
}

Matrix AttentionMoments::second_times(const Matrix& y) const {
  return weighted_deviations(weights_.cwiseProduct(projections(y)));
}

Matrix AttentionMoments::third_times(const Matrix& h, const Matrix& y) const {
  if (scores_ == Scores::linear) return Matrix::Zero(y.rows(), y.cols());
  return weighted_deviations(weights_.cwiseProduct(projections(h)).cwiseProduct(projections(y)));
}

}  // namespace fluxformer::decoder
