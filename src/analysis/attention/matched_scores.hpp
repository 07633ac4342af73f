#pragma once

// The scores of attention sample by sample, with the heads that were matched beforehand.

#include <cstddef>
#include <vector>

#include "analysis/accumulator.hpp"
#include "analysis/attention/row_scores.hpp"

namespace fluxformer::attention {

/// The head of P for each head of T, layer by layer; -1: none.
using HeadMatch = std::vector<std::vector<int>>;

/// With what the heads of T are compared: with their matches, with uniform rows, with their own rows under
/// permuted keys.
enum class Against : std::size_t { match, uniform, permuted };
inline constexpr std::size_t against_count = 3;

/// For each sample and score the mean over layers, heads of T (against `match`: those that have one) and
/// queries. Their mean over samples is the mean over layers of matched_score, and over layers and heads of the
/// scores of the null controls. Samples may be spread over ranks, each whole on one rank; only `reduce` is
/// collective.
class MatchedScores {
 public:
  /// `samples`: their number on all ranks.
  MatchedScores(std::size_t samples, HeadMatch pairs);

  /// Adds a row of head `t` of T compared with one of head `p` of P; does nothing unless they are matched.
  /// `place`: of the sample among all of them; `layer` from 0; `weight`: 1 / number of queries.
  void add(std::size_t place, int layer, int t, int p, const RowScores& scores, double weight);
  /// The same for a row of a null control.
  void add(std::size_t place, int layer, Against null, const RowScores& scores, double weight);
  /// For a sample without scores: all of its numbers are NaN.
  void leave_out(std::size_t place);
  /// As Accumulator::reduce. Collective.
  void reduce(MPI_Comm comm) { table_.reduce(comm); }

  /// One number for each sample.
  std::vector<double> of(RowScore score, Against against) const;

 private:
  static constexpr std::size_t columns = against_count * row_score_count;
  void put(std::size_t place, Against against, const RowScores& scores, double share);

  HeadMatch pairs_;
  std::vector<double> share_;  // of a matched head in the mean, by layer
  SampleTable table_;
};

}  // namespace fluxformer::attention
