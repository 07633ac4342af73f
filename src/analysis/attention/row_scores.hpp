#pragma once

// Similarity of two rows of attention: distributions p and q over the same n keys.
//
//   cosine    p.q / (|p| |q|)
//   kl        KL(p || q) = sum p log(p / q), nats; q is at least 2^-1022
//   js        (KL(p || m) + KL(q || m)) / 2, m = (p + q) / 2; nats, at most log 2; a divergence, not its root
//   tv        total variation, sum |p - q| / 2
//   centred   cosine of p - 1/n and q - 1/n; 0 if p or q is uniform
//
// For rows close to uniform, p = (1 + a)/n and q = (1 + b)/n with small a and b, kl and 1 - cosine are both
// about <(a - b)^2> / 2 and small, whether or not a and b agree; only the centred cosine measures that.
// Sources: Lin 1991 (js); Kullback and Leibler 1951.

#include <array>
#include <cstddef>
#include <vector>

namespace fluxformer::attention {

enum class RowScore : std::size_t { cosine, kl, js, tv, centred };
inline constexpr std::size_t row_score_count = 5;

/// Whether a larger score means more similar rows.
bool is_similarity(RowScore score);

/// All scores of one pair of rows, in the order of RowScore.
struct RowScores {
  std::array<double, row_score_count> value;
  bool flat;  ///< `centred` is 0 because a row was uniform
};

/// One row, with everything that its comparisons share.
class AttentionRow {
 public:
  /// p[0 .. n): not negative; divided by its sum, which is 1 up to round-off (not for Sinkhorn attention that
  /// ends on columns).
  void assign(const double* p, int n);
  /// -sum p log p, nats.
  double entropy() const { return entropy_; }
  /// Whether it is uniform up to single precision: n p differs from 1 by less than 1e-6 (root mean square),
  /// so that the direction of the difference is round-off.
  bool uniform() const { return uniform_; }

 private:
  friend RowScores compare(const AttentionRow& p, const AttentionRow& q);
  std::vector<double> p_, log_p_, centred_;
  double norm_ = 0, centred_norm_ = 0, entropy_ = 0;
  bool uniform_ = false;
};

/// Scores of p and q (kl: KL(p || q)). Both have the same number of keys.
RowScores compare(const AttentionRow& p, const AttentionRow& q);

}  // namespace fluxformer::attention
