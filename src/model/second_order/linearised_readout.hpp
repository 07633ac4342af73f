#pragma once

// The readout (model/readout.hpp) linearised at one state: tangents of the logits in state and parameters,
// and the tangent of the adjoint.

#include <span>
#include <vector>

#include "model/parameters.hpp"
#include "operators/slab.hpp"

namespace fluxformer {

/// What the readout keeps of one batch. Pooled arrays are [sample][channel], logits [sample][class].
struct ReadoutTape {
  std::vector<double> state, state_dot;    ///< u_M, only with a final LayerNorm
  std::vector<double> pooled, pooled_dot;  ///< mean over tokens of N_f(u_M)
  std::vector<double> logits_bar;
};

/// Calls for one tape come in the order logits, adjoint, then for each direction tangent and one of the last
/// two.
class LinearisedReadout {
 public:
  /// All are borrowed.
  LinearisedReadout(const Parameters& parameters, const Parameters& direction, const SlabContext& context);

  /// logits := [sample][class]. Collective over the token line.
  void logits(const double* u, double* logits, ReadoutTape& tape);
  /// u_bar := the adjoint of the state; gradient += this rank's share. Not collective, as those below but
  /// `tangent`.
  void adjoint(const std::vector<double>& logits_bar, double* u_bar, std::span<double> gradient,
               ReadoutTape& tape);
  /// logits_dot := along (u_dot, direction). Collective over the token line.
  void tangent(const double* u_dot, double* logits_dot, ReadoutTape& tape);
  /// The tangent of `adjoint`: u_bar_dot :=, gradient_dot +=.
  void adjoint_tangent(const std::vector<double>& logits_bar_dot, double* u_bar_dot,
                       std::span<double> gradient_dot, ReadoutTape& tape);
  /// `adjoint` of another vector, for products with the Gauss-Newton matrix.
  void gauss_newton(const std::vector<double>& logits_bar_dot, double* u_bar_dot,
                    std::span<double> gradient_dot, const ReadoutTape& tape);

 private:
  /// W_bar += z_bar^T pooled.
  void add_head(const std::vector<double>& z_bar, const std::vector<double>& pooled,
                std::span<double> gradient) const;
  void add_bias(const std::vector<double>& z_bar, std::span<double> gradient) const;
  /// pooled_bar += z_bar W with the head of `from`; an empty one is set to 0 first.
  void pull_head(const Parameters& from, const std::vector<double>& z_bar,
                 std::vector<double>& pooled_bar) const;
  double* at(const char* path, std::span<double> gradient) const {
    return gradient.data() + parameters_.layout.at(path).offset;
  }

  const Parameters& parameters_;
  const Parameters& direction_;
  const SlabContext& context_;
  bool layer_norm_;
  std::vector<double> rows_, rows_dot_, pooled_bar_;
};

}  // namespace fluxformer
