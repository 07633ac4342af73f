#pragma once

// Chains of draws of the posterior of a network of attention paths, either of its weights (Hamiltonian Monte
// Carlo) or of its order parameters with the weights integrated out (a random walk); what several chains say
// together, and how far the theory is from it. Both samplers are exact up to their own Monte-Carlo error, and
// neither knows of the other. Source: docs/model.md, sections 11.7 to 11.9.

#include <array>
#include <cstdint>
#include <vector>

#include "analysis/paths/order_parameters.hpp"
#include "analysis/paths/path_examples.hpp"
#include "analysis/paths/path_kernels.hpp"

namespace fluxformer {

// Convergence of Markov chains: have they forgotten their initial values, and how many independent draws are
// they worth? Source: Gelman et al., Bayesian Data Analysis, 3rd ed. (2013), sections 11.4 and 11.5. Not
// collective.

/// Values of one quantity along chains of equal length, [chain][draw].
using Chains = std::vector<std::vector<double>>;

/// Split R-hat: square root of the variance between and within half chains over the variance within. It is 1
/// if all halves agree or nothing varies, infinite if constant halves differ, and NaN for fewer than four
/// draws.
double split_r_hat(const Chains& chains);

/// Effective number of draws of all chains together: number of draws over 1 + 2 sum of autocorrelations. The
/// sum is over pairs of lags while these are positive and made monotone (Geyer). At most the number of draws
/// times its logarithm (base 10); NaN if nothing varies or for fewer than four draws.
double effective_draws(const Chains& chains);

}  // namespace fluxformer

namespace fluxformer::paths {

/// The numbers that are kept of each draw, all invariant under the rotations that the weights are free in.
enum class DrawnQuantity {
  readout,      ///< u_a
  trace,        ///< tr U_1
  energy,       ///< E of K(U_1)
  data_virial,  ///< y^T A^-1 K A^-1 y - tr A^-1 K, A = K(U_1) + T I
  potential     ///< -ln of the sampled density, in the sampler's coordinates
};
inline constexpr std::size_t drawn_quantities = 5;

/// The posterior that a chain draws from. All of it is borrowed.
struct PosteriorTarget {
  const PathNetwork& network;
  const PathExamples& examples;
  const PathKernels& kernels;  ///< kernels of these examples
  double temperature;
};

/// The length of a chain.
struct ChainPlan {
  int warm_up = 200;  ///< draws in which the step adapts
  int draws = 1000;
  int steps = 300;         ///< leapfrog steps of a draw, or steps of the walk between two draws
  std::uint64_t seed = 1;  ///< seed of the stream; each chain has its own
};

/// The draws of a chain and their means.
struct PosteriorChain {
  std::array<std::vector<double>, drawn_quantities> traces;  ///< [quantity][draw]
  OrderParameters order;                                     ///< mean order parameters over draws
  RowMatrix input_weights;  ///< mean input weights over draws, Hs x D; `outputs` makes the predictor
  double acceptance = 0;    ///< mean probability of acceptance, or accepted share of the steps of the walk
  double step = 0;          ///< step of the leapfrog; NaN for the walk
  double divergent = 0;     ///< number of divergent trajectories; NaN for the walk
  std::vector<double> virials;  ///< means of ||V||^2/s^2 - dim V of V_0, V_1 .. V_L and a; NaN for the walk
};

/// Draws all weights, beginning at a draw of their prior. Not collective. Throws BadInput for widths that are
/// no whole numbers.
PosteriorChain weight_chain(const PosteriorTarget& posterior, const ChainPlan& plan);

/// Draws order parameters, one every `steps` steps of the walk. Not collective. Throws BadInput where a width
/// is below the number of paths.
PosteriorChain order_chain(const PosteriorTarget& posterior, const ChainPlan& plan);

/// Means over chains of equal length. Errors come from the spread of the chains' means, NaN for one chain.
struct SampledPosterior {
  OrderParameters order;                            ///< mean order parameters
  double order_error = 0;                           ///< error of U_1: Frobenius norm over that of U_1
  Eigen::VectorXd mean;                             ///< mean of the predictor of each example
  double mean_error = 0;                            ///< error of the predictor, mean over examples
  std::array<double, drawn_quantities> r_hat = {};  ///< split R-hat (split_r_hat)
  std::array<double, drawn_quantities> effective_draws =
      {};  ///< effective number of draws of all chains together
};

/// Combines chains, at least one. `inputs`: attentioned inputs of the examples that are predicted.
SampledPosterior sampled_posterior(const std::vector<PosteriorChain>& chains, const RowMatrix& inputs);

/// The distance between draws and theory.
struct TheoryError {
  double order = 0;  ///< |U_1 - theory's| / |U_1|, Frobenius norms
  double excess =
      0;  ///< `order` less its bound Hs/(2 N_1) + 4 order_error; NaN if Hs > N_1: nothing is claimed there
  double mean = 0;         ///< mean |predictor - theory's|
  double correlation = 0;  ///< correlation of the predictors over examples
};
/// `u`, `mean`: U_1 and the predictor of the theory, for the examples of `sampled`; `width`: N_1.
TheoryError theory_error(const SampledPosterior& sampled, const Eigen::MatrixXd& u,
                         const Eigen::VectorXd& mean, double width);

}  // namespace fluxformer::paths
