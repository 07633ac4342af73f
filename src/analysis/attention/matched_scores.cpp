#include "analysis/attention/matched_scores.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace fluxformer::attention {

MatchedScores::MatchedScores(std::size_t samples, HeadMatch pairs)
    : pairs_(std::move(pairs)), table_(samples, columns) {
  const auto layers = static_cast<double>(pairs_.size());
  for (const auto& heads : pairs_) {
    const auto matched = std::ranges::count_if(heads, [](int p) { return p >= 0; });
    share_.push_back(1 / (layers * static_cast<double>(matched)));
  }
}

void MatchedScores::put(std::size_t place, Against against, const RowScores& scores, double share) {
  double* const sums = table_.row(place) + static_cast<std::size_t>(against) * row_score_count;
  for (std::size_t i = 0; i < row_score_count; ++i) sums[i] += share * scores.value[i];
}

void MatchedScores::add(std::size_t place, int layer, int t, int p, const RowScores& scores, double weight) {
  const auto l = static_cast<std::size_t>(layer);
  if (pairs_[l][t] == p) put(place, Against::match, scores, weight * share_[l]);
}

void MatchedScores::add(std::size_t place, int layer, Against null, const RowScores& scores, double weight) {
  const auto heads = pairs_[layer].size();
  put(place, null, scores, weight / static_cast<double>(pairs_.size() * heads));
}

void MatchedScores::leave_out(std::size_t place) {
  std::fill_n(table_.row(place), columns, std::numeric_limits<double>::quiet_NaN());
}

std::vector<double> MatchedScores::of(RowScore score, Against against) const {
  const auto column = static_cast<std::size_t>(against) * row_score_count + static_cast<std::size_t>(score);
  std::vector<double> each;
  for (std::size_t at = column; at < table_.numbers().size(); at += columns)
    each.push_back(table_.numbers()[at]);
  return each;
}

}  // namespace fluxformer::attention
