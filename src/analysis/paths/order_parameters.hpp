#pragma once

// A network of attention paths as the theory sees it: its size and prior, and its order parameters, U_l (n_l
// x n_l, symmetric, positive definite), in the mean (1/N_l) w_l w_l^T of the effective weights, and u_a, in
// the mean |a|^2/N_a. Source: Tiberi et al., arXiv 2405.15926; docs/model.md, sections 11.1 and 11.3.
//
// The index of a row of U_l is (h_l, ..., h_L), h_l the slowest.

#include <Eigen/Core>
#include <vector>

namespace fluxformer::paths {

/// Heads, widths and variances of the Gaussian priors. Layers l = 1 .. L stand at l - 1.
struct PathNetwork {
  std::vector<int> heads;         ///< H_1 .. H_L
  std::vector<double> widths;     ///< N_1 .. N_L, N_a: L + 1 of them
  double input_variance = 1;      ///< s_0^2, of V_0
  std::vector<double> variances;  ///< s_1^2 .. s_L^2, of V_1 .. V_L
  double readout_variance = 1;    ///< s_a^2, of a

  int layers() const { return heads.size(); }
  double readout_width() const { return widths.back(); }  ///< N_a
  /// s_a^2 times the product of all s_l^2 with l >= from (from = 1 .. L).
  double prior_variance(int from) const;
  /// n_l = H_l H_{l+1} ... H_L for l = 1 .. L, and n_{L+1} = 1.
  int order_size(int l) const;
  int paths() const { return order_size(1); }  ///< Hs
  double largest_width() const;
};

/// A network with one `width` everywhere and all variances 1.
PathNetwork network_of_width(const std::vector<int>& heads, double width);

/// Throws BadInput unless there is a head in each layer and all widths and variances are positive and as many
/// as the layers need.
void check(const PathNetwork& network);

/// Throws BadInput unless all widths are whole numbers, as those of weights that are drawn must be.
void check_whole_widths(const PathNetwork& network);

/// The order parameters of all layers.
struct OrderParameters {
  std::vector<Eigen::MatrixXd> u = {};  ///< U_1 .. U_L at 0 .. L-1
  double readout = 0;                   ///< u_a
};

/// The order parameters of infinite widths, those of the prior: U_l = s_a^2 prod_{k >= l} s_k^2 I, u_a =
/// s_a^2.
OrderParameters gaussian_process_point(const PathNetwork& network);

/// tau(U)^{b b'} = sum_h U^{(h b), (h b')}: the trace over the slowest of the indices, which has `heads`
/// values.
Eigen::MatrixXd partial_trace(const Eigen::MatrixXd& u, int heads);

/// I_H (x) A: A in each of the H diagonal blocks.
Eigen::MatrixXd repeated(const Eigen::MatrixXd& a, int heads);

/// The u_a at which the action is least for this U_L, in closed form (docs/model.md, section 11.4).
double best_readout(const PathNetwork& network, const Eigen::MatrixXd& last);

/// Number of free coordinates of all U_l: sum of n_l (n_l + 1)/2.
int coordinate_count(const PathNetwork& network);

/// Coordinates without constraints (section 11.5): U_l = R_l R_l^T with R_l lower triangular, by rows, the
/// logarithm of the diagonal in its place. U_1 comes first.
std::vector<double> coordinates_of(const OrderParameters& order);

/// The order parameters at some coordinates, with the u_a of `best_readout`.
OrderParameters order_at(const PathNetwork& network, const std::vector<double>& coordinates);

/// dS/dx for all coordinates x from dS/dU_l, where all entries of U_l count as independent.
std::vector<double> pulled_back(const std::vector<double>& coordinates,
                                const std::vector<Eigen::MatrixXd>& slopes);

/// U_1 .. U_L by rows, each as large as U_1: NaN beyond its own size.
std::vector<double> padded_orders(const OrderParameters& order);

}  // namespace fluxformer::paths
