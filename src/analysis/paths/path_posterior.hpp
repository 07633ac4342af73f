#pragma once

// The posterior of a network of attention paths, without any approximation, twice: of its weights, and of its
// order parameters with the weights integrated out. Source: docs/model.md, sections 11.2, 11.7 and 11.8.

#include <span>
#include <vector>

#include "analysis/paths/order_parameters.hpp"
#include "analysis/paths/path_examples.hpp"
#include "base/index.hpp"

namespace fluxformer::paths {

/// The posterior exp(-Phi) of the weights, in weights over their standard deviations q, so that the prior has
/// variance 1:
///
///     Phi = sum of ||V||^2/(2 s^2) over all weights + (1/2T) sum_mu (f(x_mu) - y_mu)^2
///
/// Tokens are gone: with w_{L+1} = a, w_l^{(h, rest)} = V_{l,h}^T w_{l+1}^{rest}/sqrt(N_{l+1}) and w = w_1,
///
///     f(x) = (1/sqrt(N_1)) sum_pi w^pi . V_0 xi^pi/sqrt(D Hs)
///
/// Order of the weights: V_0 (N_1 x D), V_{1,1} .. V_{1,H_1} (each N_2 x N_1), ..., V_{L,H_L}, a (N_a);
/// matrices by rows. Not collective. Holds work space: one object for each thread.
class PathPosterior {
 public:
  /// The examples are borrowed. Throws BadInput for temperatures that are not positive, widths that are no
  /// whole numbers, and where network and examples do not fit.
  PathPosterior(PathNetwork network, const PathExamples& examples, double temperature);

  /// Number of weights.
  Index weights() const { return offsets_.back(); }
  /// Phi; writes dPhi/dq to `gradient`. 4 P Hs D flops, and 6 (D Hs + sum of n_l N_{l+1}) N_l for the layers.
  double value(std::span<const double> q, std::span<double> gradient);
  /// The network as a linear function of attentioned inputs, Hs x D (`outputs` of path_examples.hpp).
  const RowMatrix& input_weights(std::span<const double> q);
  /// U_l = w_l w_l^T/N_l, and u_a = |a|^2/N_a.
  OrderParameters order(std::span<const double> q);
  /// ||V||^2/s^2 less the number of weights, for V_0, V_1 .. V_L (all heads of a layer together) and a, then
  /// sum_mu f_mu (y_mu - f_mu)/T: in the mean over the posterior all are equal.
  std::vector<double> virials(std::span<const double> q);

 private:
  /// Fills w_ and the output f_ of the examples.
  void forward(std::span<const double> q);
  void effective_weights(const double* q);
  Index layers() const { return std::ssize(network_.heads); }
  /// Width of layer + 1.
  Index width(Index layer) const { return static_cast<Index>(network_.widths[layer]); }

  PathNetwork network_;
  const PathExamples& examples_;
  double temperature_;
  Index dimension_;
  double output_scale_;                 ///< s_0/sqrt(D Hs N_1)
  std::vector<double> scales_;          ///< s_l/sqrt(N_{l+1}) of V_l
  std::vector<Index> offsets_;          ///< first weight of V_0, V_1, ..., V_L, a, and the end
  std::vector<RowMatrix> w_, w_slope_;  ///< n_l x N_l for l = 1 .. L, then a (1 x N_a)
  RowMatrix mixed_, mixed_slope_;       ///< Hs x D
  Eigen::VectorXd f_, error_;
};

/// The posterior of the order parameters at finite width. With V_0 integrated out the weights enter through
///
///     u_a = s_a^2 c^2/N_a, c ~ chi(N_a);   U_L ~ W(N_L, s_L^2 u_a I/N_L);
///     U_l | U_{l+1} ~ W(N_l, s_l^2 I (x) U_{l+1}/N_l)
///
/// with the weight exp(-E(U_1)/2) of the data. Coordinates for a random walk are those of Bartlett's factors,
/// U = F B B^T F^T/N with F F^T = s^2 I (x) U_{l+1}, B lower triangular, B_ii ~ chi(N - i) for i = 0, 1, ...,
/// B_ij ~ N(0, 1): ln c, then for l = L .. 1 the rows of B with ln B_ii on the diagonal. Not collective.
class NestedWishart {
 public:
  /// Throws BadInput where N_l < n_l or N_a < 1.
  explicit NestedWishart(PathNetwork network);

  /// Number of coordinates.
  int coordinates() const;
  /// A start near the order parameters of the prior: the modes of the factors.
  std::vector<double> start() const;
  /// Logarithm of the prior's density in these coordinates, up to a constant.
  double log_prior(std::span<const double> x) const;
  OrderParameters order(std::span<const double> x) const;

 private:
  PathNetwork network_;
};

}  // namespace fluxformer::paths
