#pragma once

// Hidden Token Attribution: how much each input token x_i contributes to a hidden token u_j, from the norms
// of the blocks of the Jacobian,
//
//   c_ij = |du_j/dx_i| / sum_k |du_j/dx_k|,     c >= 0, sum over i of c_ij = 1, no unit,
//
// and what is reported of c (n x n, rows i: input tokens, columns j: hidden tokens) by depth. Source: Brunner
// et al., arXiv 1908.04211, section 5; docs/model.md, section 10.7.

#include <array>
#include <cstddef>
#include <vector>

#include "analysis/accumulator.hpp"
#include "analysis/identifiability/sample_head.hpp"
#include "base/index.hpp"

namespace fluxformer::identifiability {

/// c from the norms |du_j/dx_i| (n x n), Frobenius or spectral: each column divided by its sum. A column
/// without any dependence is NaN. Throws BadInput for a norm below 0.
Matrix contributions_of_norms(const Matrix& norms);

/// Places of tokens: on a line (one row) or a lattice, token = row * columns + column, behind `leading`
/// tokens that have no place (a class token).
struct TokenLattice {
  int rows = 1, columns = 0, leading = 0;
};

/// Manhattan distance of two tokens, |i - j| on a line; -1 if one of them has no place on the lattice.
int token_distance(const TokenLattice& lattice, int i, int j);

/// Distances 0, 1, 2, 3, 4-5, 6-10, 11 and more.
inline constexpr std::size_t distance_groups = 7;
/// The group of a distance >= 0.
std::size_t distance_group(int distance);

/// One number per distance group.
using DistanceProfile = std::array<double, distance_groups>;

/// c by distance, of the hidden tokens of one sample. Columns that are NaN are left out.
struct ContributionByDistance {
  DistanceProfile sum{};    ///< sum of all c_ij in the group
  DistanceProfile pairs{};  ///< number of pairs in the group
};
/// Groups c by distance. Pairs of tokens without a place count nowhere. Throws BadInput if the lattice has
/// fewer places than there are tokens.
ContributionByDistance by_distance(const Matrix& c, const TokenLattice& lattice);

/// [hidden token]: the smallest r for which the input tokens within distance r contribute at least half of
/// what all tokens on the lattice do. NaN for a token without a place and for a column that is NaN.
std::vector<double> half_distances(const Matrix& c, const TokenLattice& lattice);

/// [hidden token]: 1 if its own input token contributes most, 1/k if it shares that with k - 1 others, else
/// 0; NaN for a column that is NaN.
std::vector<double> own_is_largest(const Matrix& c);

/// Quartiles of a set of numbers, interpolated linearly between neighbours in order.
struct Quartiles {
  double lower = 0, median = 0, upper = 0;
};

/// Summary of c by depth: shares, quartiles, distances. Samples may be spread over ranks, each whole on one
/// rank; only `reduce` is collective. Memory: samples * depths * tokens numbers for the quartiles.
class ContributionAccumulator {
 public:
  /// samples: number on all ranks; tokens: number in the longest. Throws BadInput for a number below 1.
  ContributionAccumulator(int samples, int depths, int tokens);

  /// Adds c of the sample at `place` among all samples, at one depth. Every sample must be added once at
  /// every depth. Throws BadInput for a matrix that is not square or has more tokens than there may be.
  void add(int place, int depth, const Matrix& c, const TokenLattice& lattice);
  /// Sums over the ranks. Collective.
  void reduce(MPI_Comm comm);

  /// [depth]: hidden tokens that count; those with NaN columns do not.
  std::vector<double> tokens() const { return column(counted); }
  /// [depth]: share of the own token, c_jj, mean over the tokens of all samples. NaN without tokens.
  std::vector<double> own_share() const;
  /// [depth]: quartiles of c_jj.
  std::vector<Quartiles> own_quartiles() const;
  /// [depth]: share of the tokens whose largest contributor is the token itself. NaN without tokens.
  std::vector<double> own_largest() const;
  /// [depth]: mean over tokens on the lattice of half_distances. NaN without any.
  std::vector<double> half_distance() const;
  /// [depth][group]: what a hidden token on the lattice gets from the group in the mean; all groups add up to
  /// 1 without tokens off the lattice.
  std::vector<DistanceProfile> by_group() const;
  /// [depth][group]: mean c_ij of the pairs in the group. NaN without pairs.
  std::vector<DistanceProfile> by_pair() const;

 private:
  enum Sum : std::size_t { counted, own, largest, half, placed, sums_of_groups };
  static constexpr std::size_t columns = sums_of_groups + 2 * distance_groups;
  std::vector<double> column(std::size_t which) const;
  std::vector<double> mean(std::size_t which, std::size_t over) const;

  Index samples_, depths_, tokens_;
  Sums sums_;           ///< [depth][the sums above | groups | pairs of groups]
  SampleTable shares_;  ///< [sample][depth][token]: c_jj; NaN where there is none
};

}  // namespace fluxformer::identifiability
