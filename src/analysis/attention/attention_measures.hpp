#pragma once

// Similarity of the attention of two models, per layer and pair of heads, with null controls.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "analysis/accumulator.hpp"
#include "analysis/attention/matched_scores.hpp"
#include "analysis/attention/null_rows.hpp"
#include "analysis/attention/row_scores.hpp"

namespace fluxformer::attention {

/// Accumulates the scores of attention T (the reference: kl is KL(T || P)) with attention P. Each number is
/// the mean over the queries of a sample, then over samples. Queries and keys are real tokens; there is no
/// causal mask. Another P (an untrained model, say) needs another meter. Samples may be spread over ranks,
/// each whole on one rank; only `reduce` is collective.
class AttentionMeter : public Accumulator {
 public:
  /// What is compared: layers, and heads of T and of P.
  struct Shape {
    int layers = 1, heads_t = 1, heads_p = 1;
  };
  /// seed: of the permuted keys.
  AttentionMeter(const Shape& shape, std::uint64_t seed);
  /// The same, and keeps the scores of each of the samples.
  AttentionMeter(const Shape& shape, std::uint64_t seed, MatchedScores each) : AttentionMeter(shape, seed) {
    each_ = std::move(each);
  }

  /// Adds one sample at one layer: t and p are [head][query][key] with `tokens` queries and keys, of which
  /// the first `length` are real, as from Attention::matrix. `sample` is the global index, `place` the row of
  /// the sample if each is kept. Rows that are not finite make the means not finite. Throws BadInput for fewer
  /// than 2 real tokens (before anything is added). Cost: O(heads_t heads_p length^2).
  void add(long sample, int layer, int tokens, int length, const double* t, const double* p,
           std::size_t place = 0);
  /// For a sample of fewer tokens: its scores are NaN, and the means are without it.
  void leave_out(std::size_t place) {
    if (each_) each_->leave_out(place);
  }
  /// As Accumulator::reduce. Collective.
  void reduce(MPI_Comm comm);

  /// Head `t` of T with head `p` of P.
  double score(RowScore s, int layer, int t, int p) const { return mean(layer, pair(t, p), s); }
  /// Pairs of rows (over all queries and samples) with a uniform row, for which `centred` counts as 0.
  long flat_rows(int layer, int t, int p) const;
  /// Null control: head `t` of T with uniform rows (centred: 0).
  double uniform_score(RowScore s, int layer, int t) const { return mean(layer, null_of(t), s); }
  /// Null control: head `t` of T with itself, the keys of each row permuted independently.
  double permuted_score(RowScore s, int layer, int t) const { return mean(layer, null_of(t) + block, s); }
  /// Row entropy / log n of a head, in [0, 1]; 1 is uniform.
  double entropy_t(int layer, int head) const;
  double entropy_p(int layer, int head) const;
  /// Samples added at a layer. All means are NaN without any.
  long samples(int layer) const;
  const Shape& shape() const { return shape_; }
  /// Of a meter that keeps them.
  const MatchedScores& by_sample() const { return each_.value(); }

 private:
  // The sums of a layer: for the pairs of heads (t-major), then uniform and permuted for each t, a block of
  // the scores and the number of flat rows; entropies of T, of P; samples.
  static constexpr std::size_t block = row_score_count + 1;
  std::size_t pair(int t, int p) const { return static_cast<std::size_t>(t * shape_.heads_p + p) * block; }
  std::size_t null_of(int t) const {
    return pair(shape_.heads_t, 0) + static_cast<std::size_t>(2 * t) * block;
  }
  std::size_t entropies() const { return null_of(shape_.heads_t); }
  std::size_t layer_size() const {
    return entropies() + static_cast<std::size_t>(shape_.heads_t + shape_.heads_p) + 1;
  }
  const double* layer_sums(int layer) const {
    return total().data() + static_cast<std::size_t>(layer) * layer_size();
  }
  double mean(int layer, std::size_t at, RowScore s) const;

  Shape shape_;
  KeyShuffle shuffle_;
  std::vector<AttentionRow> t_, p_;  // the rows of one query
  AttentionRow uniform_, permuted_;
  std::vector<double> shuffled_;
  std::optional<MatchedScores> each_;
};

/// The head of P for each head of T (-1: none left) that makes the mean of score `by` best, at one layer. The
/// choice itself makes matched heads look similar: match on validation samples, score on others.
std::vector<int> match_heads(const AttentionMeter& validation, int layer, RowScore by);

/// Mean of a score over the matched heads of T.
double matched_score(const AttentionMeter& test, int layer, const std::vector<int>& match, RowScore s);

/// How much better `value` is than the best of the null controls: positive is better, for similarities and
/// distances alike.
double margin_over(RowScore s, double value, const std::vector<double>& nulls);

}  // namespace fluxformer::attention
