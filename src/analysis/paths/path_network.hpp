#pragma once

// Deep multi-head attention without residuals, whose queries and keys are frozen: its size and its prior. Source:
// Tiberi et al., arXiv 2405.15926; specification of attention paths, section 1.1.

#include <vector>

namespace fluxformer::paths {

/// Heads, widths and variances of the Gaussian priors. Layers l = 1 .. L stand at l - 1.
struct PathNetwork {
  std::vector<int> heads;         ///< H_1 .. H_L
  std::vector<double> widths;     ///< N_1 .. N_L, N_a: L + 1 of them
  double input_variance = 1;      ///< s_0^2, of V_0
  std::vector<double> variances;  ///< s_1^2 .. s_L^2, of V_1 .. V_L
  double readout_variance = 1;    ///< s_a^2, of a

  int layers() const { return static_cast<int>(heads.size()); }
  double readout_width() const { return widths.back(); }  ///< N_a
  /// Product of all s_l^2 with l >= from (from = 1 .. L), and s_a^2.
  double prior_variance(int from) const;
  /// n_l = H_l H_{l+1} ... H_L for l = 1 .. L, and n_{L+1} = 1.
  int order_size(int l) const;
  int paths() const { return order_size(1); }  ///< Hs
  double largest_width() const;
};

/// All widths are `width`, all variances 1.
PathNetwork network_of_width(const std::vector<int>& heads, double width);

/// Throws BadInput unless there is a head in each layer and all widths and variances are positive and as many as
/// the layers need.
void check(const PathNetwork& network);

/// Throws BadInput unless all widths are whole numbers, as those of weights that are drawn must be.
void check_whole_widths(const PathNetwork& network);

}  // namespace fluxformer::paths
