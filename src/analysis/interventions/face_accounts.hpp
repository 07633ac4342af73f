#pragma once

// Accounts of replaced faces beyond first order. With D the change of a face, D_i its part at token i, H the Hessian of J
// in the state of the face:
//
//   curvature    D_i^T H D_j for all pairs of tokens; second order: first + 1/2 D_i^T H D_i; to second order
//                E_ij - E_i - E_j = D_i^T H D_j
//   integrated   D_i . integral over t in [0, 1] of dJ/du at u + t D (Sundararajan et al. 2017, integrated gradients)

#include <vector>

#include "analysis/interventions/run_slab.hpp"
#include "analysis/interventions/sites.hpp"

namespace fluxformer::interventions {

/// Integrated gradients of a face, and how good they are.
struct Integrated {
  std::vector<double> effects = {};  ///< [global token]; their sum is J(put) - J(own) up to `gap`
  double gap = 0;                    ///< |sum - (J(put) - J(own))|
  double estimate = 0;               ///< estimated error of the quadrature of the sum
  int nodes = 0;                     ///< gradients computed
};

/// Second derivatives and path integrals of one face, whose runs are those of a slab (borrowed), for the sample that it
/// shows. Second derivatives need the march by layer maps.
class FaceAccounts {
 public:
  explicit FaceAccounts(RunSlab& slab) : slab_(slab) {}

  /// D_i^T H D_j, [token i][token j] by global index, symmetric up to round-off. `own` and `put`: the states of the face,
  /// [local token][channel]. One product with H for each of `tokens` (global indices; empty: all real ones); rows of
  /// others are NaN. Collective over the token line. Throws BadInput for another march than that by layer maps and for
  /// models without second derivatives, std::invalid_argument for a token that does not exist.
  RowMatrix curvature(int face, const Question& question, const RowMatrix& own, const RowMatrix& put,
                      const std::vector<int>& tokens = {});
  /// Gauss-Kronrod quadrature (7, 15), intervals halved until the estimated error of the sum is below `tolerance` times
  /// max(1, |J(put) - J(own)|) or `most_nodes` are used. Collective over the token line.
  Integrated integrated(int face, const Question& question, const RowMatrix& own, const RowMatrix& put,
                        double tolerance, int most_nodes = 4096);
  /// The same with 1, 2, 4, 8, 16, 32 or 64 Gauss-Legendre nodes on the whole line (else BadInput): for comparison.
  Integrated fixed(int face, const Question& question, const RowMatrix& own, const RowMatrix& put, int nodes);

 private:
  /// Numbers of this rank's tokens, [global token], as those of all tokens.
  std::vector<double> over_tokens(std::vector<double> mine) const;
  /// The products of the rows of this rank's tokens, [global token].
  std::vector<double> own_numbers(const RowMatrix& one, const RowMatrix& other) const;
  /// D_i . dJ/du at own + t D for each t of `at`, [t][token].
  std::vector<std::vector<double>> slopes(int face, const Question& question, const RowMatrix& own,
                                          const RowMatrix& change, const std::vector<double>& at);
  /// J(put) - J(own).
  double difference(int face, const Question& question, const RowMatrix& own, const RowMatrix& put);

  RunSlab& slab_;
};

}  // namespace fluxformer::interventions
