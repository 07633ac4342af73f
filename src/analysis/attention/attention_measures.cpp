#include "analysis/attention/attention_measures.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "analysis/attention/assignment.hpp"
#include "base/error.hpp"

namespace fluxformer::attention {
namespace {

/// Adds to a block of sums: scores times the weight of a query, and the count of flat rows.
void add_scores(const RowScores& scores, double weight, double* sums) {
  for (std::size_t i = 0; i < row_score_count; ++i) sums[i] += weight * scores.value[i];
  if (scores.flat) sums[row_score_count] += 1;
}

}  // namespace

AttentionMeter::AttentionMeter(const Shape& shape, std::uint64_t seed)
    : shape_(shape),
      shuffle_(seed),
      t_(static_cast<std::size_t>(shape.heads_t)),
      p_(static_cast<std::size_t>(shape.heads_p)) {
  set_size(static_cast<std::size_t>(shape.layers) * layer_size());
}

void AttentionMeter::reduce(MPI_Comm comm) {
  Accumulator::reduce(comm);
  if (each_) each_->reduce(comm);
}

void AttentionMeter::add(long sample, int layer, int tokens, int length, const double* t, const double* p,
                         std::size_t place) {
  if (length < 2)
    throw BadInput("attention of sample " + std::to_string(sample) + ": " + std::to_string(length) +
                   " token; comparing attention takes at least 2");
  double* const sums = local() + static_cast<std::size_t>(layer) * layer_size();
  const double weight = 1.0 / length, per_entropy = weight / std::log(length);
  uniform_.assign(uniform_row(length).data(), length);
  for (int query = 0; query < length; ++query) {
    const auto row = [&](const double* k, int head) {
      return k + (static_cast<std::ptrdiff_t>(head) * tokens + query) * tokens;
    };
    double* entropy = sums + entropies();
    const auto take = [&](const double* k, std::vector<AttentionRow>& rows) {
      for (std::size_t head = 0; head < rows.size(); ++head) {
        rows[head].assign(row(k, static_cast<int>(head)), length);
        *entropy++ += per_entropy * rows[head].entropy();
      }
    };
    take(t, t_);
    take(p, p_);
    for (int i = 0; i < shape_.heads_t; ++i) {
      const AttentionRow& mine = t_[i];
      for (int j = 0; j < shape_.heads_p; ++j) {
        const auto scores = compare(mine, p_[j]);
        add_scores(scores, weight, sums + pair(i, j));
        if (each_) each_->add(place, layer, i, j, scores, weight);
      }
      const auto add_null = [&](Against null, const AttentionRow& other, double* to) {
        const auto scores = compare(mine, other);
        add_scores(scores, weight, to);
        if (each_) each_->add(place, layer, null, scores, weight);
      };
      add_null(Against::uniform, uniform_, sums + null_of(i));
      shuffled_.assign(row(t, i), row(t, i) + length);
      shuffle_.permute(sample, layer, i, query, shuffled_);
      permuted_.assign(shuffled_.data(), length);
      add_null(Against::permuted, permuted_, sums + null_of(i) + block);
    }
  }
  sums[layer_size() - 1] += 1;
}

double AttentionMeter::mean(int layer, std::size_t at, RowScore s) const {
  const double* const sums = layer_sums(layer);
  return sums[at + static_cast<std::size_t>(s)] / sums[layer_size() - 1];
}

long AttentionMeter::flat_rows(int layer, int t, int p) const {
  return std::lround(layer_sums(layer)[pair(t, p) + row_score_count]);
}

double AttentionMeter::entropy_t(int layer, int head) const {
  const double* const sums = layer_sums(layer);
  return sums[entropies() + static_cast<std::size_t>(head)] / sums[layer_size() - 1];
}

double AttentionMeter::entropy_p(int layer, int head) const {
  return entropy_t(layer, shape_.heads_t + head);
}

long AttentionMeter::samples(int layer) const {
  return std::lround(layer_sums(layer)[layer_size() - 1]);
}

std::vector<int> match_heads(const AttentionMeter& validation, int layer, RowScore by) {
  const auto& shape = validation.shape();
  const double sign = is_similarity(by) ? -1 : 1;
  std::vector<double> cost;
  for (int t = 0; t < shape.heads_t; ++t)
    for (int p = 0; p < shape.heads_p; ++p) cost.push_back(sign * validation.score(by, layer, t, p));
  return optimal_assignment(cost, shape.heads_t, shape.heads_p);
}

double matched_score(const AttentionMeter& test, int layer, const std::vector<int>& match, RowScore s) {
  double sum = 0;
  int heads = 0;
  for (std::size_t t = 0; t < match.size(); ++t)
    if (match[t] >= 0) sum += test.score(s, layer, static_cast<int>(t), match[t]), ++heads;
  return sum / heads;
}

double margin_over(RowScore s, double value, const std::vector<double>& nulls) {
  const double sign = is_similarity(s) ? 1 : -1;
  double margin = std::numeric_limits<double>::infinity();
  for (const double null : nulls) {
    const double here = sign * (value - null);
    if (std::isnan(here)) return here;
    margin = std::min(margin, here);
  }
  return margin;
}

}  // namespace fluxformer::attention
