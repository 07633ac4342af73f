#pragma once

// Logits of the last hidden state of a classifier:
//
//   z = W_h g + b_h,   g = N(act(T p + t)) or p,   p = pool_x N_f(u)(x)
//
// N_f is the final LayerNorm for norm = pre and the identity otherwise; pool_x is `pool` below. Of several
// tokens that are read side by side (pooling = front) p is their rows, one behind the other.

#include <span>
#include <vector>

#include "model/model_spec.hpp"
#include "model/parameters.hpp"
#include "model/row_stack.hpp"
#include "operators/slab.hpp"

namespace fluxformer {

/// The tokens that a classifier reads.
struct PooledTokens {
  Pooling pooling = Pooling::mean;
  int count = 1;  ///< front tokens, side by side; 1 for every other pooling
};

/// pooled [sample][tokens.count][channel] := what a classifier sees of each sample of a slab: the mean over
/// its real tokens, its first token, its last real one, or the front tokens. Collective over the token line.
void pool(PooledTokens tokens, const SlabContext& context, const double* slab, std::vector<double>& pooled);

/// slab := the transpose of `pool` applied to pooled_bar [sample][tokens.count][channel]; 0 for padding. Not
/// collective.
void spread(PooledTokens tokens, const SlabContext& context, const std::vector<double>& pooled_bar,
            double* slab);

/// The intermediate values of the readout of one batch, kept for derivatives.
struct ReadoutTape {
  RowTape norm, head;
};

/// The map of the last slab to logits [sample][class], and its derivatives. The calls for one tape come in
/// the order of RowStack. Adjoints are overwritten, gradients += this rank's share.
class Readout {
 public:
  /// `parameters` and `context` are borrowed. Without classes there are no logits, and no derivatives of
  /// them. Throws BadInput, on all ranks, for fewer tokens than the classifier reads.
  Readout(const Parameters& parameters, const SlabContext& context);

  /// logits := z at the last state u. Collective over the token line.
  void logits(const double* u, double* logits, ReadoutTape& tape);
  /// u_bar := (dz/du)^T logits_bar, gradient += (dz/dtheta)^T logits_bar; keeps logits_bar for
  /// `adjoint_tangent`. Not collective.
  void adjoint(const double* logits_bar, double* u_bar, std::span<double> gradient, ReadoutTape& tape);
  /// `adjoint` of any vector; keeps nothing for second derivatives. An empty gradient is left out.
  void pull(const double* logits_bar, double* u_bar, std::span<double> gradient, const ReadoutTape& tape);
  /// logits_dot := the derivative of z along u_dot and a direction of the parameters. Collective over the
  /// token line.
  void tangent(const ParameterVector& direction, const double* u_dot, double* logits_dot, ReadoutTape& tape);
  /// The derivative of `adjoint` along u_dot, `direction` and logits_bar_dot. Not collective.
  void adjoint_tangent(const ParameterVector& direction, const double* logits_bar_dot, double* u_bar_dot,
                       std::span<double> gradient_dot, ReadoutTape& tape);

 private:
  /// The gradient of the head on the first rank of the line, empty on the others: the pooled state is the
  /// same on all of them.
  std::span<double> of_head(std::span<double> gradient) const;
  /// The transpose of the pooling, applied to pooled_bar_, then that of the final LayerNorm by `back`(from,
  /// to).
  template <class Back>
  void unpool(double* u_bar, Back&& back);

  const SlabContext& context_;
  PooledTokens pooled_tokens_;
  RowStack norm_, head_;
  std::vector<double> rows_, pooled_, pooled_bar_;
};

/// The final LayerNorm of a model as a stack; empty if the model has none.
RowStack final_norm_stack(const Parameters& parameters);

}  // namespace fluxformer
