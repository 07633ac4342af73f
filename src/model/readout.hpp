#pragma once

// Logits of the last hidden state: z = W_h mean_x N_f(u)(x) + b_h, with the mean over the real tokens. N_f
// is the final LayerNorm for norm = pre and the identity otherwise.

#include <span>
#include <vector>

#include "model/parameters.hpp"
#include "operators/slab.hpp"

namespace fluxformer {

/// The map of the last slab to logits, and its adjoint.
class Readout {
 public:
  /// Both are borrowed; the spec has classes > 0.
  Readout(const Parameters& parameters, const SlabContext& context);

  /// logits := [sample][class]. Collective over the token line.
  void logits(const double* u, double* logits);
  /// u_bar := the adjoint of the last state, gradient += this rank's share for final norm and head, at the
  /// state of the last call of `logits`. Not collective.
  void adjoint(const double* u, const double* logits_bar, double* u_bar, std::span<double> gradient);

 private:
  const Parameters& parameters_;
  const SlabContext& context_;
  bool layer_norm_;
  std::vector<double> normal_;  // N_f(u), then its adjoint
  std::vector<double> pooled_;  // [sample][channel]
};

}  // namespace fluxformer
