#pragma once

// Similarity of the attention of two models: scores of two rows, null controls, pairs of heads, and sums over
// samples; and what each head does by itself. Rows of attention are distributions p and q over the same n keys,
// those that their query sees: real tokens that causal order and the window of the layer leave. The scores are
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

#include <Eigen/Core>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "analysis/accumulator.hpp"
#include "base/index.hpp"
#include "base/random.hpp"
#include "operators/attention/reach.hpp"

namespace fluxformer::attention {

/// Scores of two rows; see the top of this file.
enum class RowScore : Index { cosine, kl, js, tv, centred };
inline constexpr Index row_score_count = 5;

/// True if a larger score means more similar rows.
bool is_similarity(RowScore score);

/// All scores of one pair of rows, in the order of RowScore.
struct RowScores {
  std::array<double, row_score_count> value;
  bool flat;  ///< true if `centred` is 0 because a row was uniform
};

/// One row, with everything that its comparisons share.
class AttentionRow {
 public:
  /// Sets the row to p[0 .. n), which is not negative. It is divided by its sum, which is 1 up to round-off
  /// (but not for Sinkhorn attention that ends on columns).
  void assign(const double* p, Index n);
  /// The weights p, whose sum is 1.
  const Eigen::ArrayXd& weights() const { return p_; }
  /// Entropy -sum p log p, nats.
  double entropy() const { return entropy_; }
  /// True if the row is uniform up to single precision: n p differs from 1 by less than 1e-6 (root mean
  /// square), so that the direction of the difference is round-off.
  bool uniform() const { return uniform_; }

 private:
  friend RowScores compare(const AttentionRow& p, const AttentionRow& q);
  // Eigen's own memory is aligned: the order of its sums depends on where their terms lie in memory.
  Eigen::ArrayXd p_, log_p_, centred_;
  double norm_ = 0, centred_norm_ = 0, entropy_ = 0;
  bool uniform_ = false;
};

/// Scores of p and q (kl: KL(p || q)), which have the same number of keys.
RowScores compare(const AttentionRow& p, const AttentionRow& q);

/// Uniform row: 1/n for each of n keys.
std::vector<double> uniform_row(Index n);

/// The tokens of a sample, and which of them its queries see in a layer.
struct VisibleKeys {
  int tokens = 1;    ///< of the line, with padding
  int length = 1;    ///< real ones, which come first
  Reach reach = {};  ///< that of the layer

  /// The keys that a real query sees, itself among them.
  KeyRange of(Index query) const { return reach.keys(query, length); }
  /// The number of queries that see at least two keys. The weight of a single key is 1, whatever the model.
  int compared_queries() const;
};

/// Puts the keys of rows in random order, all n! orders being equally likely. The order is keyed by (sample,
/// layer, head, query) with the global index of the sample: the same on any number of ranks, different for
/// each row.
class KeyShuffle {
 public:
  explicit KeyShuffle(std::uint64_t seed) : stream_(seed, "permuted attention keys") {}
  /// Fisher-Yates shuffle of one row. Pass only the visible keys, so that others do not change the order.
  void permute(long sample, int layer, int head, int query, std::span<double> row) const;

 private:
  RandomStream stream_;
};

/// Optimal assignment: the column of each row, all different, at the smallest sum of cost[row][column]
/// (row-major). With more rows than columns, the remaining rows get -1. A non-finite cost counts as larger
/// than the sum of all finite ones. Shortest augmenting paths, O(rows^2 columns). Sources: Kuhn 1955; Edmonds
/// and Karp 1972 (prices); Crouse 2016 (rectangular). Throws std::invalid_argument unless there are rows *
/// columns costs.
std::vector<int> optimal_assignment(const std::vector<double>& cost, int rows, int columns);

/// Matching of heads: the head of P for each head of T, layer by layer; -1: none.
using HeadMatch = std::vector<std::vector<int>>;

/// Counterparts of the heads of T: their matches, uniform rows, or their own rows with permuted keys.
enum class Against : Index { match, uniform, permuted };
inline constexpr Index against_count = 3;

/// Scores of each sample for heads that were matched beforehand: means over layers, heads of T (against
/// `match`: the matched ones) and queries. Their mean over samples is the mean over layers of matched_score,
/// and over layers and heads of the scores of the null controls. Samples may be distributed over ranks, each
/// whole on one rank; only `reduce` is collective.
class MatchedScores {
 public:
  /// `samples` is their number on all ranks.
  MatchedScores(Index samples, HeadMatch pairs);

  /// Adds the scores of a row of head `t` of T with one of head `p` of P; does nothing unless they are
  /// matched. `place` is the index of the sample among all samples, `layer` counts from 0, `weight` is 1 /
  /// number of queries.
  void add(Index place, int layer, int t, int p, const RowScores& scores, double weight);
  /// Adds the scores of a row of T with a row of a null control.
  void add(Index place, int layer, Against null, const RowScores& scores, double weight);
  /// Sets all numbers of a sample without scores to NaN.
  void leave_out(Index place);
  /// Sums over ranks (see Accumulator::reduce). Collective.
  void reduce(MPI_Comm comm) { table_.reduce(comm); }

  /// One number for each sample.
  std::vector<double> of(RowScore score, Against against) const;

 private:
  static constexpr Index columns = against_count * row_score_count;
  void put(Index place, Against against, const RowScores& scores, double share);

  HeadMatch pairs_;
  std::vector<double> share_;  // share of a matched head in the mean, by layer
  SampleTable table_;
};

/// Accumulates the scores of attention T (the reference: kl is KL(T || P)) with attention P, by layer and
/// pair of heads. Each number is the mean over the queries of a sample that see at least two keys, then over
/// samples. Rows are those of real tokens over the keys that they see, the same for T and P. Another P (an
/// untrained model, say) needs another accumulator. Samples may be distributed over ranks, each whole on one
/// rank; only `reduce` is collective.
class AttentionAccumulator : public Accumulator {
 public:
  /// Numbers of layers, and of heads of T and of P.
  struct Shape {
    int layers = 1, heads_t = 1, heads_p = 1;
  };
  /// `seed` keys the permutations of keys.
  AttentionAccumulator(const Shape& shape, std::uint64_t seed);
  /// Accumulator that also keeps the scores of each sample, in `each`.
  AttentionAccumulator(const Shape& shape, std::uint64_t seed, MatchedScores each)
      : AttentionAccumulator(shape, seed) {
    each_ = std::move(each);
  }

  /// Adds one sample at one layer: t and p are [head][query][key] with all tokens of the line, as from
  /// Attention::matrix. `sample` is the global index, `place` the row of the sample if each is kept. Rows that
  /// are not finite make the means not finite. Throws BadInput if no query sees two keys (before anything is
  /// added). Cost: O(heads_t heads_p n) for each query that sees n keys.
  void add(long sample, int layer, const VisibleKeys& keys, const double* t, const double* p,
           Index place = 0);
  /// Leaves out a sample in which no query sees two keys: its scores are NaN, and the means are without it.
  void leave_out(Index place) {
    if (each_) each_->leave_out(place);
  }
  /// Sums over ranks (see Accumulator::reduce). Collective.
  void reduce(MPI_Comm comm);

  /// Score of head `t` of T with head `p` of P.
  double score(RowScore s, int layer, int t, int p) const { return mean(layer, pair(t, p), s); }
  /// Number of pairs of rows (over all queries and samples) with a uniform row, for which `centred` counts as
  /// 0.
  long flat_rows(int layer, int t, int p) const;
  /// Null control: score of head `t` of T with uniform rows (centred: 0).
  double uniform_score(RowScore s, int layer, int t) const { return mean(layer, null_of(t), s); }
  /// Null control: score of head `t` of T with itself, the keys of each row permuted independently.
  double permuted_score(RowScore s, int layer, int t) const { return mean(layer, null_of(t) + block, s); }
  /// Number of samples added at a layer. All means are NaN without any.
  long samples(int layer) const;
  const Shape& shape() const { return shape_; }
  /// Scores of each sample; throws std::bad_optional_access unless they are kept.
  const MatchedScores& by_sample() const { return each_.value(); }

 private:
  // The sums of a layer: for the pairs of heads (t-major), then uniform and permuted for each t, a block of
  // the scores and the number of flat rows; samples.
  static constexpr Index block = row_score_count + 1;
  Index pair(int t, int p) const { return (Index{t} * shape_.heads_p + p) * block; }
  Index null_of(int t) const { return pair(shape_.heads_t, 0) + 2 * t * block; }
  Index layer_size() const { return null_of(shape_.heads_t) + 1; }
  const double* layer_sums(int layer) const { return total().data() + layer * layer_size(); }
  double mean(int layer, Index at, RowScore s) const;

  Shape shape_;
  KeyShuffle shuffle_;
  std::vector<AttentionRow> t_, p_;  // the rows of one query
  AttentionRow uniform_, permuted_;
  std::vector<double> shuffled_;
  std::optional<MatchedScores> each_;
};

/// Accumulates what each head of one model does by itself, by layer: the entropy of its rows, and how far it
/// looks along the line of tokens. Samples may be distributed over ranks, each whole on one rank; only `reduce`
/// is collective.
///
///   entropy         -sum_y p_y log p_y / log n, the mean over the queries of a sample that see n > 1 keys, then
///                   over samples
///   weight at D     the mean of p_y over all queries x and keys y that they see with |x - y| = D, of all samples
///   mean distance   the mean of sum_y |x - y| p_y over all queries of all samples
///
/// The sum over D of pairs at D times weight at D is the number of queries.
class HeadAccumulator : public Accumulator {
 public:
  /// Numbers of layers, of heads, and of tokens of a line.
  struct Shape {
    int layers = 1, heads = 1, tokens = 1;
  };
  /// Without samples yet, at distances 0 .. tokens - 1.
  explicit HeadAccumulator(const Shape& shape);

  /// Adds one sample at one layer: k is [head][query][key] with all tokens of the line, as from
  /// Attention::matrix. Cost: O(heads n) for each query that sees n keys.
  void add(int layer, const VisibleKeys& keys, const double* k);

  /// Row entropy / log n, in [0, 1]; 1 is uniform. NaN if no query saw two keys.
  double entropy(int layer, int head) const;
  /// Number of pairs of a query and a key that it sees, `distance` tokens apart. At 0 that of all queries.
  long pairs(int layer, int distance) const;
  /// Weight of a key at a distance; NaN without pairs. `uniform_weight`: the same of uniform rows.
  double weight(int layer, int head, int distance) const;
  double uniform_weight(int layer, int distance) const;
  /// Mean distance, in tokens. `uniform_distance`: the same of uniform rows.
  double mean_distance(int layer, int head) const;
  double uniform_distance(int layer) const;
  const Shape& shape() const { return shape_; }

 private:
  // The sums of a layer: by distance for each head, for uniform rows, and the number of pairs; entropies;
  // samples.
  Index by_distance(int row) const { return Index{row} * shape_.tokens; }
  int uniform() const { return shape_.heads; }
  Index entropies() const { return by_distance(uniform() + 2); }
  Index layer_size() const { return entropies() + shape_.heads + 1; }
  const double* layer_sums(int layer) const { return total().data() + layer * layer_size(); }
  double weight_of_row(int layer, int row, int distance) const;
  double mean_distance_of_row(int layer, int row) const;

  Shape shape_;
  AttentionRow row_;
};

/// Head of P for each head of T (-1: none left) that makes the mean of score `by` best, at one layer. The
/// choice itself makes matched heads look similar: match on validation samples, score on others.
std::vector<int> match_heads(const AttentionAccumulator& validation, int layer, RowScore by);

/// Mean of a score over the matched heads of T.
double matched_score(const AttentionAccumulator& test, int layer, const std::vector<int>& match, RowScore s);

/// Margin of `value` over the best of the null controls: positive is better, for similarities and distances
/// alike.
double margin_over(RowScore s, double value, const std::vector<double>& nulls);

}  // namespace fluxformer::attention
