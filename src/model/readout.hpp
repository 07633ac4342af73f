#pragma once

// Logits of the last hidden state of a classifier:
//
//   z = W_h g + b_h,   g = N(act(T p + t)) or p,   p = pool_x N_f(u)(x)
//
// N_f is the final LayerNorm for norm = pre and the identity otherwise; `pool` is model/pooling.hpp.

#include <span>
#include <vector>

#include "model/model_spec.hpp"
#include "model/parameters.hpp"
#include "model/row_stack.hpp"
#include "operators/slab.hpp"

namespace fluxformer {

// What a classifier sees of each sample: the mean over its real tokens, its first or its last one; and the transpose.

/// pooled [sample][channel] := that of a slab. Collective over the token line.
void pool(Pooling pooling, const SlabContext& context, const double* slab, std::vector<double>& pooled);

/// slab := the transpose of `pool` applied to pooled_bar [sample][channel]; 0 for padding. Not collective.
void spread(Pooling pooling, const SlabContext& context, const std::vector<double>& pooled_bar, double* slab);

/// What the readout keeps of one batch.
struct ReadoutTape {
  RowTape norm, head;
};

/// The map of the last slab to logits [sample][class], and its derivatives. The order of calls for one tape is that of
/// RowStack. Adjoints :=, gradients += this rank's share.
class Readout {
 public:
  /// Both are borrowed. Without classes there are no logits, and no derivatives of them.
  Readout(const Parameters& parameters, const SlabContext& context);

  /// Collective over the token line, as `tangent`; the others are not.
  void logits(const double* u, double* logits, ReadoutTape& tape);
  void adjoint(const double* logits_bar, double* u_bar, std::span<double> gradient, ReadoutTape& tape);
  /// The adjoint of any vector; keeps nothing for second derivatives. An empty gradient is left out.
  void pull(const double* logits_bar, double* u_bar, std::span<double> gradient, const ReadoutTape& tape);
  /// Along u_dot and a direction of the parameters.
  void tangent(const Parameters& direction, const double* u_dot, double* logits_dot, ReadoutTape& tape);
  /// The tangent of `adjoint`.
  void adjoint_tangent(const Parameters& direction, const double* logits_bar_dot, double* u_bar_dot,
                       std::span<double> gradient_dot, ReadoutTape& tape);

 private:
  /// The pooled state is the same on all ranks of the line: the first has the gradient of the head.
  std::span<double> of_head(std::span<double> gradient) const;
  /// The adjoint of the pooling in pooled_bar_, then that of the final LayerNorm by `back`(from, to).
  template <class Back>
  void unpool(double* u_bar, Back&& back);

  const SlabContext& context_;
  Pooling pooling_;
  RowStack norm_, head_;
  std::vector<double> rows_, pooled_, pooled_bar_;
};

/// The final LayerNorm of a model, if it has one.
RowStack final_norm_stack(const Parameters& parameters);

}  // namespace fluxformer
