#include "analysis/attention/attention_measures.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>

#include "base/error.hpp"

namespace fluxformer::attention {

namespace {

// The smallest normal number, 2^-1022: logarithms are of this or more, so that they stay finite.
constexpr double least = std::numeric_limits<double>::min();

}  // namespace

bool is_similarity(RowScore score) {
  return score == RowScore::cosine || score == RowScore::centred;
}

void AttentionRow::assign(const double* p, Index n) {
  p_ = Eigen::Map<const Eigen::ArrayXd>(p, n);
  p_ /= p_.sum();
  // 0 log 0 = 0, because log_p_ is finite.
  log_p_ = p_.max(least).log();
  centred_ = p_ - 1.0 / n;
  // |p|, |p - 1/n| and -sum p log p. The root mean square of n p - 1 is sqrt(n) |p - 1/n|.
  norm_ = std::sqrt(p_.square().sum());
  centred_norm_ = std::sqrt(centred_.square().sum());
  entropy_ = -(p_ * log_p_).sum();
  uniform_ = centred_norm_ * std::sqrt(n) < 1e-6;
}

RowScores compare(const AttentionRow& p, const AttentionRow& q) {
  const auto &x = p.p_, &y = q.p_, &log_x = p.log_p_, &log_y = q.log_p_;
  // 2 js = sum x log(x / m) + y log(y / m), m = (x + y) / 2, in chunks that need no memory of their own
  double js = 0;
  constexpr Index chunk = 64;
  Eigen::Array<double, chunk, 1> log_mean;
  for (Index i = 0; i < x.size(); i += chunk) {
    const auto n = std::min(chunk, x.size() - i);
    log_mean.head(n) = (0.5 * (x.segment(i, n) + y.segment(i, n))).max(least).log();
    js += (x.segment(i, n) * (log_x.segment(i, n) - log_mean.head(n)) +
           y.segment(i, n) * (log_y.segment(i, n) - log_mean.head(n)))
              .sum();
  }
  // In the order of RowScore: p.q / (|p| |q|),  sum p log(p / q),  js,  sum |p - q| / 2,  and the cosine of
  // p - 1/n and q - 1/n.
  const bool flat = p.uniform_ || q.uniform_;
  return {
      {(x * y).sum() / (p.norm_ * q.norm_), (x * (log_x - log_y)).sum(), 0.5 * js, 0.5 * (x - y).abs().sum(),
       flat ? 0.0 : (p.centred_ * q.centred_).sum() / (p.centred_norm_ * q.centred_norm_)},
      flat};
}

std::vector<double> uniform_row(Index n) {
  return std::vector<double>(n, 1.0 / n);
}

int VisibleKeys::compared_queries() const {
  int queries = 0;
  for (int query = 0; query < length; ++query)
    if (of(query).count() > 1) ++queries;
  return queries;
}

void KeyShuffle::permute(long sample, int layer, int head, int query, std::span<double> row) const {
  // The key at last - 1 changes places with one of the first `last`, each with the probability 1 / last.
  const auto draw = stream_.item(sample).item(layer).item(head).item(query);
  for (std::size_t last = row.size(); last > 1; --last) std::swap(row[last - 1], row[draw.below(last, last)]);
}

namespace {

/// Matches rows one after another. Prices keep every reduced cost, cost - row price - column price, >= 0, and
/// = 0 on the matching; this proves that the matching is the cheapest one of the rows so far.
class Matching {
 public:
  Matching(const std::vector<double>& cost, Index rows, Index columns)
      : cost_(cost), columns_(columns), row_price_(rows), column_price_(columns), owner_(columns, none) {}

  /// Dijkstra over alternating paths from `row` to the nearest free column.
  void insert(Index row) {
    constexpr double far = std::numeric_limits<double>::infinity();
    std::vector<double> distance(columns_, far);
    std::vector<Index> before(columns_, none);  // the column whose owner leads here
    std::vector<bool> reached(columns_);
    double length = 0;
    Index from = row, column = none;
    do {
      Index nearest = none;
      // `length` is the distance of row `from`; the step to column j adds the reduced cost, which is >= 0.
      for (Index j = 0; j < columns_; ++j) {
        if (reached[j]) continue;
        const double there = length + cost_[from * columns_ + j] - row_price_[from] - column_price_[j];
        if (there < distance[j]) distance[j] = there, before[j] = column;
        if (nearest == none || distance[j] < distance[nearest]) nearest = j;
      }
      column = nearest;
      length = distance[column];
      reached[column] = true;
      from = owner_[column];
    } while (from != none);

    // The prices change by what each column is nearer than the end of the path: reduced costs stay >= 0.
    row_price_[row] += length;
    for (Index j = 0; j < columns_; ++j)
      if (reached[j] && j != column) {
        row_price_[owner_[j]] += length - distance[j];
        column_price_[j] -= length - distance[j];
      }
    // Every column of the path goes to the row that leads to it.
    for (; before[column] != none; column = before[column]) owner_[column] = owner_[before[column]];
    owner_[column] = row;
  }

  /// Row of each column, or `none`.
  const std::vector<Index>& owner() const { return owner_; }
  static constexpr Index none = -1;

 private:
  const std::vector<double>& cost_;
  Index columns_;
  std::vector<double> row_price_, column_price_;
  std::vector<Index> owner_;
};

}  // namespace

std::vector<int> optimal_assignment(const std::vector<double>& cost, int rows, int columns) {
  const Index r = rows, c = columns;
  if (rows < 0 || columns < 0 || std::ssize(cost) != r * c)
    throw std::invalid_argument("optimal_assignment: not rows * columns costs");
  // Sums of finite costs differ by at most 2 sum |x|: with 1 + 2 sum |x| in the place of a cost that is not
  // finite, the cheapest assignment has as few of them as possible.
  double all = 1;
  for (const double x : cost)
    if (std::isfinite(x)) all += 2 * std::abs(x);
  // Matching needs at least as many columns as rows: the matrix is transposed if it has fewer.
  const bool turned = rows > columns;
  std::vector<double> kept(cost.size());
  for (Index i = 0; i < r; ++i)
    for (Index j = 0; j < c; ++j) {
      const double x = cost[i * c + j];
      kept[turned ? j * r + i : i * c + j] = std::isfinite(x) ? x : all;
    }
  const Index few = turned ? c : r, many = turned ? r : c;
  Matching matching(kept, few, many);
  for (Index i = 0; i < few; ++i) matching.insert(i);

  std::vector<int> column_of(r, -1);
  for (Index j = 0; j < many; ++j) {
    const Index i = matching.owner()[j];
    if (i == Matching::none) continue;
    if (turned)
      column_of[j] = i;
    else
      column_of[i] = j;
  }
  return column_of;
}

MatchedScores::MatchedScores(Index samples, HeadMatch pairs)
    : pairs_(std::move(pairs)), table_(samples, columns) {
  // A matched head has the share 1 / (layers * matched heads of its layer) in the mean over layers and heads.
  const double layers = std::ssize(pairs_);
  for (const auto& heads : pairs_) {
    const auto matched = std::ranges::count_if(heads, [](int p) { return p >= 0; });
    share_.push_back(1 / (layers * matched));
  }
}

void MatchedScores::put(Index place, Against against, const RowScores& scores, double share) {
  double* const sums = table_.row(place) + static_cast<Index>(against) * row_score_count;
  for (Index i = 0; i < row_score_count; ++i) sums[i] += share * scores.value[i];
}

void MatchedScores::add(Index place, int layer, int t, int p, const RowScores& scores, double weight) {
  if (pairs_[layer][t] == p) put(place, Against::match, scores, weight * share_[layer]);
}

void MatchedScores::add(Index place, int layer, Against null, const RowScores& scores, double weight) {
  // Null controls exist for all heads of T: each has the share 1 / (layers * heads).
  put(place, null, scores, weight / (std::ssize(pairs_) * std::ssize(pairs_[layer])));
}

void MatchedScores::leave_out(Index place) {
  std::fill_n(table_.row(place), columns, std::numeric_limits<double>::quiet_NaN());
}

std::vector<double> MatchedScores::of(RowScore score, Against against) const {
  const Index column = static_cast<Index>(against) * row_score_count + static_cast<Index>(score);
  std::vector<double> each;
  for (Index at = column; at < std::ssize(table_.numbers()); at += columns)
    each.push_back(table_.numbers()[at]);
  return each;
}

namespace {

/// Adds to a block of sums: scores times the weight of a query, and the count of flat rows.
void add_scores(const RowScores& scores, double weight, double* sums) {
  for (Index i = 0; i < row_score_count; ++i) sums[i] += weight * scores.value[i];
  if (scores.flat) sums[row_score_count] += 1;
}

}  // namespace

AttentionAccumulator::AttentionAccumulator(const Shape& shape, std::uint64_t seed)
    : shape_(shape), shuffle_(seed), t_(shape.heads_t), p_(shape.heads_p) {
  set_size(shape.layers * layer_size());
}

void AttentionAccumulator::reduce(MPI_Comm comm) {
  Accumulator::reduce(comm);
  if (each_) each_->reduce(comm);
}

namespace {

/// The weights of the keys `seen` in row k(x,.) of a head: k is [head][query][key].
const double* row_of(const double* k, int tokens, int head, int query, const KeyRange& seen) {
  return k + (Index{head} * tokens + query) * tokens + seen.first;
}

}  // namespace

void AttentionAccumulator::add(long sample, int layer, const VisibleKeys& keys, const double* t,
                               const double* p, Index place) {
  const int queries = keys.compared_queries();
  if (queries == 0)
    throw BadInput("attention of sample " + std::to_string(sample) +
                   ": no token sees another one; comparing attention takes at least 2 keys");
  double* const sums = local() + layer * layer_size();
  // The mean over the queries of a sample
  const double weight = 1.0 / queries;
  Index uniform_keys = 0;
  for (int query = 0; query < keys.length; ++query) {
    const auto seen = keys.of(query);
    const Index n = seen.count();
    if (n < 2) continue;
    if (n != uniform_keys) uniform_.assign(uniform_row(n).data(), n), uniform_keys = n;
    const auto row = [&](const double* k, int head) { return row_of(k, keys.tokens, head, query, seen); };
    for (int head = 0; head < shape_.heads_t; ++head) t_[head].assign(row(t, head), n);
    for (int head = 0; head < shape_.heads_p; ++head) p_[head].assign(row(p, head), n);
    for (int i = 0; i < shape_.heads_t; ++i) {
      const AttentionRow& mine = t_[i];
      for (int j = 0; j < shape_.heads_p; ++j) {
        const auto scores = compare(mine, p_[j]);
        add_scores(scores, weight, sums + pair(i, j));
        if (each_) each_->add(place, layer, i, j, scores, weight);
      }
      // Null controls (docs/model.md, 8): q uniform, and q = p with its keys permuted
      const auto add_null = [&](Against null, const AttentionRow& other, double* to) {
        const auto scores = compare(mine, other);
        add_scores(scores, weight, to);
        if (each_) each_->add(place, layer, null, scores, weight);
      };
      add_null(Against::uniform, uniform_, sums + null_of(i));
      shuffled_.assign(row(t, i), row(t, i) + n);
      shuffle_.permute(sample, layer, i, query, shuffled_);
      permuted_.assign(shuffled_.data(), n);
      add_null(Against::permuted, permuted_, sums + null_of(i) + block);
    }
  }
  sums[layer_size() - 1] += 1;
}

double AttentionAccumulator::mean(int layer, Index at, RowScore s) const {
  const double* const sums = layer_sums(layer);
  return sums[at + static_cast<Index>(s)] / sums[layer_size() - 1];
}

long AttentionAccumulator::flat_rows(int layer, int t, int p) const {
  return std::lround(layer_sums(layer)[pair(t, p) + row_score_count]);
}

long AttentionAccumulator::samples(int layer) const {
  return std::lround(layer_sums(layer)[layer_size() - 1]);
}

HeadAccumulator::HeadAccumulator(const Shape& shape) : shape_(shape) {
  set_size(shape.layers * layer_size());
}

void HeadAccumulator::add(int layer, const VisibleKeys& keys, const double* k) {
  double* const sums = local() + layer * layer_size();
  double *const flat = sums + by_distance(uniform()), *const pairs = sums + by_distance(uniform() + 1);
  const int compared = keys.compared_queries();
  for (int query = 0; query < keys.length; ++query) {
    const auto seen = keys.of(query);
    const Index n = seen.count();
    const auto distance = [&](Index key) { return std::abs(query - key); };
    for (Index key = seen.first; key < seen.end; ++key)
      flat[distance(key)] += 1.0 / n, pairs[distance(key)] += 1;
    for (int head = 0; head < shape_.heads; ++head) {
      row_.assign(row_of(k, keys.tokens, head, query, seen), n);
      double* const weights = sums + by_distance(head);
      for (Index key = seen.first; key < seen.end; ++key)
        weights[distance(key)] += row_.weights()[key - seen.first];
      // The mean over the queries of a sample, of row entropies over log n
      if (n > 1) sums[entropies() + head] += 1.0 / compared / std::log(n) * row_.entropy();
    }
  }
  if (compared > 0) sums[layer_size() - 1] += 1;
}

double HeadAccumulator::entropy(int layer, int head) const {
  const double* const sums = layer_sums(layer);
  return sums[entropies() + head] / sums[layer_size() - 1];
}

long HeadAccumulator::pairs(int layer, int distance) const {
  return std::lround(layer_sums(layer)[by_distance(uniform() + 1) + distance]);
}

double HeadAccumulator::weight_of_row(int layer, int row, int distance) const {
  return layer_sums(layer)[by_distance(row) + distance] / static_cast<double>(pairs(layer, distance));
}

double HeadAccumulator::weight(int layer, int head, int distance) const {
  return weight_of_row(layer, head, distance);
}

double HeadAccumulator::uniform_weight(int layer, int distance) const {
  return weight_of_row(layer, uniform(), distance);
}

double HeadAccumulator::mean_distance_of_row(int layer, int row) const {
  double sum = 0;
  for (int distance = 0; distance < shape_.tokens; ++distance)
    sum += distance * layer_sums(layer)[by_distance(row) + distance];
  // Every query sees itself: the pairs at distance 0 are the queries.
  return sum / static_cast<double>(pairs(layer, 0));
}

double HeadAccumulator::mean_distance(int layer, int head) const {
  return mean_distance_of_row(layer, head);
}

double HeadAccumulator::uniform_distance(int layer) const {
  return mean_distance_of_row(layer, uniform());
}

std::vector<int> match_heads(const AttentionAccumulator& validation, int layer, RowScore by) {
  const auto& shape = validation.shape();
  // The cost of a pair is its distance, or its similarity with the sign turned.
  const double sign = is_similarity(by) ? -1 : 1;
  std::vector<double> cost;
  for (int t = 0; t < shape.heads_t; ++t)
    for (int p = 0; p < shape.heads_p; ++p) cost.push_back(sign * validation.score(by, layer, t, p));
  return optimal_assignment(cost, shape.heads_t, shape.heads_p);
}

double matched_score(const AttentionAccumulator& test, int layer, const std::vector<int>& match, RowScore s) {
  double sum = 0;
  int heads = 0;
  for (int t = 0; t < std::ssize(match); ++t)
    if (match[t] >= 0) sum += test.score(s, layer, t, match[t]), ++heads;
  return sum / heads;
}

double margin_over(RowScore s, double value, const std::vector<double>& nulls) {
  const double sign = is_similarity(s) ? 1 : -1;
  double margin = std::numeric_limits<double>::infinity();
  for (const double null : nulls) {
    // Positive where `value` is better than this control. The least of them counts, and NaN is passed on.
    const double here = sign * (value - null);
    if (std::isnan(here)) return here;
    margin = std::min(margin, here);
  }
  return margin;
}

}  // namespace fluxformer::attention
