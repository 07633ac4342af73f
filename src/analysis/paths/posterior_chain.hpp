#pragma once

// A chain of draws of the posterior of a network of attention paths, either of its weights (path_posterior.hpp, Hamiltonian Monte Carlo)
// or of its order parameters with the weights integrated out (nested_wishart.hpp, a random walk). Both are exact up to their own
// Monte-Carlo error, and neither knows of the other. Source: specification of attention paths, sections 2.8, 5.4 and 5.5.

#include <array>
#include <cstdint>
#include <vector>

#include "analysis/paths/order_parameters.hpp"
#include "analysis/paths/path_examples.hpp"
#include "analysis/paths/path_kernels.hpp"

namespace fluxformer::paths {

/// What is written down at each draw, all of it invariant under the rotations that the weights are free in.
enum class DrawnQuantity {
  readout,      ///< u_a
  trace,        ///< tr U_1
  energy,       ///< E of K(U_1)
  data_virial,  ///< y^T A^-1 K A^-1 y - tr A^-1 K, A = K(U_1) + T I
  potential     ///< -ln of the density that is drawn from, in its own coordinates
};
inline constexpr std::size_t drawn_quantities = 5;

/// What the chain draws from. All of it is borrowed.
struct PosteriorTarget {
  const PathNetwork& network;
  const PathExamples& examples;
  const PathKernels& kernels;  ///< of these examples
  double temperature;
};

/// How long it is.
struct ChainPlan {
  int warm_up = 200;  ///< draws in which steps adapt
  int draws = 1000;
  int steps = 300;         ///< leapfrog steps of a draw, or steps of the walk between two draws
  std::uint64_t seed = 1;  ///< a chain of its own for each
};

/// Its draws and their means.
struct PosteriorChain {
  std::array<std::vector<double>, drawn_quantities> traces;  ///< by draw
  OrderParameters order;                                     ///< mean
  RowMatrix input_weights;      ///< mean, Hs x D: what the predictor's mean is (path_examples.hpp, outputs)
  double acceptance = 0;        ///< mean probability, or share of the steps of the walk
  double step = 0;              ///< of the leapfrog; NaN for the walk
  double divergent = 0;         ///< trajectories; NaN for the walk
  std::vector<double> virials;  ///< means of ||V||^2/s^2 - dim V of V_0, V_1 .. V_L and a; NaN for the walk
};

/// Draws of all weights, from a draw of their prior on. Not collective. Throws BadInput where the network has widths that are no whole
/// numbers.
PosteriorChain weight_chain(const PosteriorTarget& posterior, const ChainPlan& plan);

/// Draws of order parameters, a draw every `steps` steps. Not collective. Throws BadInput where a width is below the number of paths.
PosteriorChain order_chain(const PosteriorTarget& posterior, const ChainPlan& plan);

// What several chains say together, and how far the theory is from it. Source: specification of attention paths, sections 5.4 and 5.5.

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
