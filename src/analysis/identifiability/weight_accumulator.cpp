#include "analysis/identifiability/weight_accumulator.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "analysis/accumulator.hpp"
#include "analysis/identifiability/column_space.hpp"
#include "analysis/identifiability/effective_attention.hpp"
#include "analysis/identifiability/nullities.hpp"
#include "base/index.hpp"

namespace fluxformer::identifiability {
namespace {

constexpr std::size_t most_frequent = 20;

}  // namespace

std::vector<int> words_of(const data::Dataset& data, const Batch& batch, std::size_t b, int length) {
  std::vector<int> words;
  if (data.vocabulary() == 0) return words;
  const std::size_t step = data.features();
  const std::size_t per_sample = batch.input.size() / batch.weight.size();
  for (Index i = 0; i < length; ++i)
    // The input is [sample][token][feature]; the first feature of a token is its word.
    words.push_back(static_cast<int>(batch.input[b * per_sample + i * step]));
  return words;
}

WordClasses word_classes(const SampleSet& samples) {
  const auto& data = samples.data();
  if (data.vocabulary() == 0) return {};
  Sums counts(data.vocabulary());
  accumulate(
      samples,
      [&](const Batch& batch) {
        for_each_sample(batch, [&](std::size_t b, std::size_t) {
          const int length = batch.length.empty() ? samples.line().tokens() : batch.length[b];
          for (const int word : words_of(data, batch, b, length)) counts.local()[word] += 1;
        });
      },
      counts);
  WordClasses classes;
  const auto placeholders = data.placeholders();
  std::vector<int> order;
  for (int word = 0; word < data.vocabulary(); ++word)
    if (std::ranges::find(placeholders, word) == placeholders.end()) order.push_back(word);
  // Most frequent first; of equally frequent words the first of the vocabulary.
  std::ranges::stable_sort(order, [&](int a, int b) { return counts.total()[a] > counts.total()[b]; });
  order.resize(std::min(order.size(), most_frequent));
  classes.frequent = {order.begin(), order.end()};
  const auto names = data.words();
  for (std::size_t word = 0; word < names.size(); ++word) {
    const bool bare = std::ranges::none_of(names[word], [](char c) {
      const auto u = static_cast<unsigned char>(c);
      return std::isalnum(u) != 0 || u >= 128;  // letters beyond ASCII
    });
    if (bare && !names[word].empty()) classes.punctuation.insert(word);
  }
  return classes;
}

namespace {

std::size_t index(HeadNumber number) {
  return static_cast<std::size_t>(number);
}

/// Share of the absolute weights that lies on tokens of these words; NaN without words.
double share_on(const Matrix& weights, const std::vector<int>& words, const std::set<int>& chosen) {
  if (words.empty() || chosen.empty()) return std::numeric_limits<double>::quiet_NaN();
  // sum_{i, j of these words} |A_ij| / sum_ij |A_ij|, from what each key j gets of all queries i
  const Eigen::RowVectorXd on = weights.cwiseAbs().colwise().sum();
  double sum = 0;
  for (std::size_t j = 0; j < words.size(); ++j)
    if (chosen.contains(words[j])) sum += on[j];
  return sum / on.sum();
}

}  // namespace

WeightAccumulator::WeightAccumulator(int layers, int heads, int rows, std::uint64_t seed, WordClasses words)
    : Accumulator(2 * layers * (heads * head_number_count + 2)),
      layers_(layers),
      heads_(heads),
      rows_(rows),
      stream_(seed, "rows of attention"),
      words_(std::move(words)),
      add_up_(layers) {}

void WeightAccumulator::put(std::size_t place, double value) {
  // A sum and a count for each number: a sample where it is not defined is left out of its mean.
  if (std::isnan(value)) return;
  local()[2 * place] += value;
  local()[2 * place + 1] += 1;
}

double WeightAccumulator::mean(std::size_t place) const {
  return total()[2 * place] / total()[2 * place + 1];  // 0/0 is NaN
}

void WeightAccumulator::add(int layer, const LayerHeads& heads, const SampleWords& sample) {
  // Rows for the soft-max reachable freedom are keyed by sample, layer and head.
  const RandomStream of_layer = stream_.item(sample.index).item(layer);
  for (int h = 0; h < heads_; ++h) add_head(place_of_head(layer - 1, h), heads[h], sample, of_layer.item(h));
  // The rank of [H_1; H_2; ...] depends on the weights alone and is asked for once a layer.
  auto& add_up = add_up_[layer - 1];
  if (!add_up) add_up = heads_add_up(heads);
  // Freedom beyond the sum over heads is 0 where [H_1; H_2; ...] has full row rank.
  const auto excess = *add_up ? ExcessNullity{} : excess_nullity(heads);
  const std::size_t first = place_of_head(layers_, 0) + 2 * (layer - 1);
  put(first, excess.linear);
  put(first + 1, excess.simplex);
}

void WeightAccumulator::add_head(std::size_t first, const SampleHead& head, const SampleWords& sample,
                                 const RandomStream& draw) {
  const auto put_number = [&](HeadNumber number, double value) { put(first + index(number), value); };
  const auto put_nullity = [&](HeadNumber exact, HeadNumber epsilon, const Nullity& nullity) {
    put_number(exact, nullity.exact);
    for (std::size_t k = 0; k < nullity.epsilon.size(); ++k)
      put(first + index(epsilon) + k, nullity.epsilon[k]);
  };
  // Without a mask both column spaces come from one factorisation, which effective attention shares.
  std::optional<ValueSpace> space;
  if (!head.causal) space.emplace(head);
  const auto freedom = space ? nullities(*space) : nullities(head);
  put_nullity(HeadNumber::nullity_linear, HeadNumber::nullity_linear_epsilon, freedom.linear);
  put_nullity(HeadNumber::nullity_simplex, HeadNumber::nullity_simplex_epsilon, freedom.simplex);
  // Share of the two ranks that are a matter of the threshold
  put_number(HeadNumber::uncertain,
             ((freedom.linear.certain() ? 0 : 1) + (freedom.simplex.certain() ? 0 : 1)) / 2.0);
  if (rows_ > 0) {
    const auto reachable = ReachableNullities(head).query(sampled_rows(head.tokens(), rows_, draw));
    put_nullity(HeadNumber::nullity_reachable, HeadNumber::nullity_reachable_epsilon, reachable);
    put_number(HeadNumber::uncertain_reachable, reachable.certain() ? 0 : 1);
  }

  // The null control has the rank of T over all tokens, with or without a mask.
  const int rank = space ? space->linear().rank.rank : ValueSpace(head).linear().rank.rank;
  const auto effective_of = [&](EffectivePart part) {
    return space ? effective_attention(head.weights, *space, part) : effective_attention(head, part);
  };
  const Matrix effective = effective_of(EffectivePart::linear);
  const auto linear = effective_measures(head, effective);
  // Measures of A_eff = A U_r U_r^T, beside what a random space of the same rank would show
  const auto null = expected_null(head, rank, EffectivePart::linear);
  put_number(HeadNumber::correlation, linear.correlation);
  put_number(HeadNumber::correlation_null, null.correlation);
  put_number(HeadNumber::row_sum, linear.row_sum);
  put_number(HeadNumber::row_sum_null, null.row_sum);
  put_number(HeadNumber::kept_norm, linear.kept_norm);
  put_number(HeadNumber::negative_share, linear.negative_share);
  put_number(HeadNumber::entropy, linear.entropy);
  put_number(HeadNumber::effective_entropy, linear.effective_entropy);
  put_number(HeadNumber::moved_share, linear.moved_share);

  // The same with [T, 1] in place of T, so that rows keep their sum
  const auto simplex = effective_measures(head, effective_of(EffectivePart::simplex));
  put_number(HeadNumber::correlation_simplex, simplex.correlation);
  put_number(HeadNumber::correlation_simplex_null,
             expected_null(head, rank, EffectivePart::simplex).correlation);
  put_number(HeadNumber::kept_norm_simplex, simplex.kept_norm);
  put_number(HeadNumber::negative_share_simplex, simplex.negative_share);
  put_number(HeadNumber::moved_share_simplex, simplex.moved_share);

  // What lies on words that attention goes to for want of others, before and after the projection
  put_number(HeadNumber::frequent_raw, share_on(head.weights, sample.words, words_.frequent));
  put_number(HeadNumber::frequent_effective, share_on(effective, sample.words, words_.frequent));
  put_number(HeadNumber::punctuation_raw, share_on(head.weights, sample.words, words_.punctuation));
  put_number(HeadNumber::punctuation_effective, share_on(effective, sample.words, words_.punctuation));
}

std::vector<double> WeightAccumulator::of(HeadNumber number) const {
  std::vector<double> values;
  for (int l = 0; l < layers_; ++l)
    for (int h = 0; h < heads_; ++h) values.push_back(mean(place_of_head(l, h) + index(number)));
  return values;
}

std::vector<double> WeightAccumulator::over_epsilons(HeadNumber first) const {
  std::vector<double> values;
  for (int l = 0; l < layers_; ++l)
    for (int h = 0; h < heads_; ++h)
      for (std::size_t k = 0; k < nullity_epsilons.size(); ++k)
        values.push_back(mean(place_of_head(l, h) + index(first) + k));
  return values;
}

std::vector<double> WeightAccumulator::excess(std::size_t which) const {
  std::vector<double> values;
  values.reserve(layers_);
  for (int l = 0; l < layers_; ++l) values.push_back(mean(place_of_head(layers_, 0) + 2 * l + which));
  return values;
}

}  // namespace fluxformer::identifiability
