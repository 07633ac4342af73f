#include "analysis/attention/row_scores.hpp"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <limits>

namespace fluxformer::attention {
namespace {

using Array = Eigen::Map<const Eigen::ArrayXd>;

Array array(const std::vector<double>& x) {
  return {x.data(), static_cast<Eigen::Index>(x.size())};
}

constexpr double least = std::numeric_limits<double>::min();

}  // namespace

bool is_similarity(RowScore score) {
  return score == RowScore::cosine || score == RowScore::centred;
}

void AttentionRow::assign(const double* p, int n) {
  const auto size = static_cast<std::size_t>(n);
  for (auto* const x : {&p_, &log_p_, &centred_}) x->resize(size);
  const Array given(p, n);
  Eigen::Map<Eigen::ArrayXd> row(p_.data(), n), log_row(log_p_.data(), n), centred(centred_.data(), n);
  row = given / given.sum();
  // 0 log 0 = 0: the logarithm is finite, and so is the product.
  log_row = row.max(least).log();
  centred = row - 1.0 / n;
  norm_ = std::sqrt(row.square().sum());
  centred_norm_ = std::sqrt(centred.square().sum());
  entropy_ = -(row * log_row).sum();
  uniform_ = centred_norm_ * std::sqrt(static_cast<double>(n)) < 1e-6;
}

RowScores compare(const AttentionRow& p, const AttentionRow& q) {
  const Array x = array(p.p_), y = array(q.p_), log_x = array(p.log_p_), log_y = array(q.log_p_);
  double js = 0;
  constexpr Eigen::Index chunk = 64;
  Eigen::Array<double, chunk, 1> log_mean;
  for (Eigen::Index i = 0; i < x.size(); i += chunk) {
    const auto n = std::min(chunk, x.size() - i);
    log_mean.head(n) = (0.5 * (x.segment(i, n) + y.segment(i, n))).max(least).log();
    js += (x.segment(i, n) * (log_x.segment(i, n) - log_mean.head(n)) +
           y.segment(i, n) * (log_y.segment(i, n) - log_mean.head(n)))
              .sum();
  }
  const bool flat = p.uniform_ || q.uniform_;
  return {
      {(x * y).sum() / (p.norm_ * q.norm_), (x * (log_x - log_y)).sum(), 0.5 * js, 0.5 * (x - y).abs().sum(),
       flat ? 0.0 : (array(p.centred_) * array(q.centred_)).sum() / (p.centred_norm_ * q.centred_norm_)},
      flat};
}

}  // namespace fluxformer::attention
