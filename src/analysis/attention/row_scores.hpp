#pragma once

// How alike two rows of attention are: distributions p and q over the same n keys.
//
//   cosine    p.q / (|p| |q|)
//   kl        KL(p || q) = sum p log(p / q), nats; q is taken as 2^-1022 at least
//   js        (KL(p || m) + KL(q || m)) / 2, m = (p + q) / 2; nats, at most log 2; a divergence, not its root
//   tv        total variation, sum |p - q| / 2
//   centred   cosine of p - 1/n and q - 1/n; 0 if one of them is uniform
//
// For rows close to uniform, p = (1 + a)/n and q = (1 + b)/n with small a and b, kl is about <(a - b)^2> / 2
// and 1 - cosine about the same, whatever the rows are about; only the centred cosine asks that. Sources: Lin
// 1991 (js); Kullback and Leibler 1951.

#include <array>
#include <cstddef>
#include <vector>

namespace fluxformer::attention {

enum class RowScore : std::size_t { cosine, kl, js, tv, centred };
inline constexpr std::size_t row_score_count = 5;

/// Whether more of it means more alike.
bool is_similarity(RowScore score);

struct RowScores {
  std::array<double, row_score_count> value;
  bool flat;  ///< a row was uniform, and `centred` is 0 for that reason
};

/// One row, with what every comparison needs of it.
class AttentionRow {
 public:
  /// p[0 .. n): not negative, of sum 1 up to round-off; divided by its sum (the rows of Sinkhorn attention
  /// that ends on columns have other sums).
  void assign(const double* p, int n);
  /// -sum p log p, nats.
  double entropy() const { return entropy_; }
  /// Uniform as far as attention in single precision can tell: n p differs from 1 by less than 1e-6 (root
  /// mean square), so that its direction is round-off.
  bool uniform() const { return uniform_; }

 private:
  friend RowScores compare(const AttentionRow& p, const AttentionRow& q);
  std::vector<double> p_, log_p_, centred_;
  double norm_ = 0, centred_norm_ = 0, entropy_ = 0;
  bool uniform_ = false;
};

/// Of p with q (kl: of q from p). Both have as many keys.
RowScores compare(const AttentionRow& p, const AttentionRow& q);

}  // namespace fluxformer::attention
