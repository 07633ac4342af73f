#pragma once

// Clusters of tokens on the unit sphere, without comparing all pairs: how many components the graph `angle <= delta` has, N(delta).
//
// In the order of the tokens, one that is farther than r from all leaders before it becomes a leader of radius r itself; so each token is
// within r of a leader. With L(r, s), the components of the leaders of radius r when those at most s apart are joined,
//
//   L(delta, 3 delta) <= N(delta) <= L(delta / 3, delta)
//
// Proof. Two tokens at most delta apart have leaders at most delta + delta + delta apart: each component of tokens lies in one of the first
// kind, and each of these holds a token. Leaders are tokens, and each token is within delta / 3 of one: each component of the second kind,
// with its tokens, lies in one component of tokens, and each of these holds a leader. (Own.)
//
// Angles are 2 asin(|x - y| / 2), compared by |x - y|^2: to round-off also where they are small, where those by <x, y> are not. Not collective
// unless said.

#include <mpi.h>

#include <vector>

#include "analysis/clusters/evenly_spread.hpp"
#include "base/index.hpp"

namespace fluxformer::clusters {

/// |x - y|^2 of unit vectors that are `angle` apart, in radians; infinite from pi on, which no two are beyond.
double squared_chord(double angle);

/// An angle delta for attention of this inverse temperature, in radians: 0.3 / sqrt(beta), but at most 1. Within it tokens draw together, the
/// kernel being about 1 / sqrt(beta) wide.
double width_of_kernel(double beta);

/// The leaders of tokens that ranks share.
struct Leaders {
  Tokens tokens = {};  ///< unit vectors, [leader][channel]
  std::vector<Index> of =
      {};              ///< the first leader within the radius, for each of this rank's tokens; not of a cloud
  bool cloud = false;  ///< there are more than asked for
};
/// The leaders of radius `radius`, in radians, of this and all other ranks' tokens, unit vectors in the order of the ranks. Ends once there
/// are more than `most`. Cost: n K d for K leaders, one rank after another. Collective; the same list on all ranks, whatever their number.
Leaders leaders_of(const Tokens& tokens, double radius, Index most, MPI_Comm comm);

/// The components of tokens at most delta apart, as far as leaders tell.
struct SphereClusters {
  Index fewest = 0, most = 0;       ///< fewest <= N(delta) <= most; 0: too many leaders to say
  double compact_share = 0;         ///< share of tokens in compact components
  std::vector<double> masses = {};  ///< share of the tokens in each component, the largest first
};
/// One of these bounds as a number; NaN where it is 0.
double known_count(Index bound);

/// Counts components of this and all other ranks' tokens, which are unit vectors, between L(delta, 3 delta) and L(delta / 3, delta). Shares
/// are those of the components of L(delta, 3 delta), which are no narrower than those of the tokens; compact is one whose tokens are within
/// 3/2 delta of its first leader, so that it is at most 3 delta wide. `leaders`: the most to look at. Throws std::invalid_argument unless
/// 0 < delta < pi. Collective; the same on all ranks, whatever their number.
SphereClusters clusters_on_sphere(const Tokens& tokens, double delta, Index leaders, MPI_Comm comm);

}  // namespace fluxformer::clusters
