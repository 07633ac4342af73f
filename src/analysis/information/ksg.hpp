#pragma once

// Mutual information from distances to the k-th neighbour, in nats; psi is the digamma function, distances
// are in the maximum norm, N is the number of samples:
//
//   I(A;B) = psi(k) + psi(N) - < psi(n_a + 1) + psi(n_b + 1) >       (Kraskov et al., algorithm 1)
//     r_i: distance of i to its k-th neighbour in (A, B); n_a, n_b: numbers of others closer than r_i in A
//     and in B
//   I(T;Y) = psi(N) + psi(k) - < psi(N_y) + psi(m) >                 (Ross)
//     r_i: distance of i to its k-th neighbour of the same label; N_y: samples of that label; m: number
//     of others within r_i, of any label
//
// Where k neighbours coincide with i, k is replaced by the number of samples at i (itself included), and
// n + 1 and m by those at i in A, B, T (Gao et al.). This is right for discrete numbers and gives zero for a
// constant state. No noise is added. Ties at non-zero distance (numbers on a lattice) are not corrected: add
// noise below the spacing. The number of samples needed grows with the dimension; beyond about ten components
// values are too low. Negative values are kept: the scatter around 0 shows the error. Sources: Kraskov,
// Stoegbauer, Grassberger, Phys. Rev. E 69 (2004) 066138, equation 8; Ross, PLoS ONE 9 (2014) e87357,
// equation 2; Gao, Kannan, Oh, Viswanath, NIPS 2017, arXiv 1709.06212.

#include <span>

#include "analysis/information/information.hpp"
#include "base/index.hpp"

namespace fluxformer::information {

/// I(A;B) of vectors. A and B are each scaled by a power of two to a root mean square deviation of about 1 (I
/// does not depend on the scale, its estimate hardly). Cost: N ln N steps in few dimensions, N^2 m in many;
/// for N = 10^4 less than 0.1 s on one core for two components each, 1 s for eight, 24 s for 64. Independent
/// of the order of the samples, bit for bit. Not collective. Throws BadInput unless 1 <= k < N, for A and B
/// of different counts, and as require_points does.
double ksg_information(const Points& a, const Points& b, Index k);

/// I(T;Y) of vectors and labels. For a label with n <= k samples k is n - 1; a label that occurs once is left
/// out. Cost and independence of the order are those of I(A;B). Not collective. Throws BadInput unless 1 <= k
/// < N, if every label occurs once, and as require_points and require_labels do.
double ksg_information(const Points& t, std::span<const int> labels, Index k);

}  // namespace fluxformer::information
