#pragma once

// The attention weights of a model, head by head: how many there are with the same output (nullities.hpp),
// and the part that acts beside its null control (effective_attention.hpp). Means over samples.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "analysis/accumulator.hpp"
#include "analysis/identifiability/sample_head.hpp"
#include "base/index.hpp"
#include "base/random.hpp"
#include "data/dataset.hpp"
#include "model/sample_set.hpp"

namespace fluxformer::identifiability {

/// Words that attention may go to for want of others, by index; empty for images.
struct WordClasses {
  std::set<int> frequent;     ///< the twenty most frequent ones, without placeholders
  std::set<int> punctuation;  ///< words without a letter or digit
};

/// [token]: the words of sample `b` of a batch, of which `length` tokens are real; empty for images.
std::vector<int> words_of(const data::Dataset& data, const Batch& batch, std::size_t b, int length);

/// The word classes of some samples. Collective over their ranks.
WordClasses word_classes(const SampleSet& samples);

/// A number of each head and sample. The `_simplex` ones are those of the effective attention that keeps sums
/// of rows.
enum class HeadNumber : std::size_t {
  nullity_linear,
  nullity_simplex,
  nullity_reachable,
  uncertain,
  uncertain_reachable,
  nullity_linear_epsilon,  ///< first of three numbers, one for each of nullity_epsilons
  nullity_simplex_epsilon = nullity_linear_epsilon + 3,
  nullity_reachable_epsilon = nullity_simplex_epsilon + 3,
  correlation = nullity_reachable_epsilon + 3,
  correlation_null,
  row_sum,
  row_sum_null,
  kept_norm,
  negative_share,
  entropy,
  effective_entropy,
  moved_share,
  correlation_simplex,
  correlation_simplex_null,
  kept_norm_simplex,
  negative_share_simplex,
  moved_share_simplex,
  frequent_raw,  ///< share of the absolute weights that lies on the words of WordClasses
  frequent_effective,
  punctuation_raw,
  punctuation_effective
};
inline constexpr Index head_number_count = Index(HeadNumber::punctuation_effective) + 1;

/// The words of one sample, without padding.
struct SampleWords {
  std::uint64_t index = 0;      ///< index of the sample in the data set
  std::vector<int> words = {};  ///< [token]; empty for images
};

/// Means over samples of the numbers of every head; a sample in which a number is not defined (NaN) is left
/// out of its mean. Samples may be spread over ranks; only `reduce` is collective.
class WeightAccumulator : public Accumulator {
 public:
  /// `rows`: number of rows of every head on which soft-max reachable freedom is counted, keyed by `seed`,
  /// sample, layer and head.
  WeightAccumulator(int layers, int heads, int rows, std::uint64_t seed, WordClasses words);

  /// Adds one sample's heads of layer l = 1 .. S.
  void add(int layer, const LayerHeads& heads, const SampleWords& sample);

  /// [layer][head] of a number that is not over epsilon; NaN where no sample counts.
  std::vector<double> of(HeadNumber number) const;
  /// [layer][head][epsilon] of a number that is over epsilon.
  std::vector<double> over_epsilons(HeadNumber first) const;
  /// [layer]: ExcessNullity.
  std::vector<double> excess_linear() const { return excess(0); }
  std::vector<double> excess_simplex() const { return excess(1); }

 private:
  /// Adds to the sum and the count of a number.
  void put(std::size_t place, double value);
  double mean(std::size_t place) const;
  void add_head(std::size_t first, const SampleHead& head, const SampleWords& sample,
                const RandomStream& draw);
  std::vector<double> excess(std::size_t which) const;
  std::size_t place_of_head(int layer, int head) const { return (layer * heads_ + head) * head_number_count; }

  int layers_, heads_, rows_;
  RandomStream stream_;
  WordClasses words_;
  std::vector<std::optional<bool>> add_up_;  ///< [layer]: heads_add_up, the same for every sample
};

}  // namespace fluxformer::identifiability
