#pragma once

// What several chains say together, and how far the theory is from it. Source: specification of attention paths, sections 5.4 and 5.5.

#include <array>
#include <vector>

#include "analysis/paths/posterior_chain.hpp"

namespace fluxformer::paths {

/// Of chains of equal length.
struct SampledPosterior {
  OrderParameters order;                            ///< mean
  double order_error = 0;                           ///< of U_1, by the spread of the chains' means:
                                                    ///< Frobenius norm over that of U_1; NaN for one chain
  Eigen::VectorXd mean;                             ///< of the predictor of each example
  double mean_error = 0;                            ///< the same, mean over examples
  std::array<double, drawn_quantities> r_hat = {};  ///< split R-hat (chain_diagnostics.hpp)
  std::array<double, drawn_quantities> effective_draws = {};  ///< of all chains together
};

/// At least one chain; `inputs`: attentioned inputs of the examples that are predicted.
SampledPosterior sampled_posterior(const std::vector<PosteriorChain>& chains, const RowMatrix& inputs);

/// Between draws and theory.
struct TheoryError {
  double order = 0;  ///< |U_1 - theory's| / |U_1|, Frobenius norms
  double excess =
      0;  ///< the same less its bound Hs/(2 N_1) + 4 order_error; NaN if Hs > N_1: nothing is claimed there
  double mean = 0;         ///< mean |predictor - theory's|
  double correlation = 0;  ///< of the predictors, over examples
};
/// `u`, `mean`: U_1 and the predictor of the theory, for the examples of `sampled`; `width`: N_1.
TheoryError theory_error(const SampledPosterior& sampled, const Eigen::MatrixXd& u,
                         const Eigen::VectorXd& mean, double width);

}  // namespace fluxformer::paths
