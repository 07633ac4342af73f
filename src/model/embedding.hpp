#pragma once

// The embedded input: the inflow of equation (1) at s = 0.
//
//   numbers   s(x) = W_E f(x) + b_E + p(x)                  first token: c + p(0) with a class token c
//   words     s(x) = w(word at x) + g(segment at x) + p(x)  rows of the word table and of the segment table
//   e(x) = N(s(x)), N a LayerNorm if the model has one there, else the identity

#include <span>
#include <vector>

#include "model/parameters.hpp"
#include "model/row_stack.hpp"
#include "operators/slab.hpp"

namespace fluxformer {

/// What the embedding keeps of one batch.
struct EmbeddingTape {
  RowTape norm;
};

/// The embedding and its derivatives in the parameters. `input` is [sample][global token][spec.input_size()] for the
/// samples of the context, indices as whole numbers within their tables (BadInput else); slabs [local
/// token][sample][channel]. The order of calls for one tape is that of RowStack. Nothing is collective; gradients +=
/// this rank's share.
class Embedding {
 public:
  /// Both are borrowed.
  Embedding(const Parameters& parameters, const SlabContext& context);

  /// slab := the embedded samples.
  void forward(const double* input, double* slab, EmbeddingTape& tape) const;
  /// gradient += that of the embedding, from the adjoint of the slab, which is kept.
  void adjoint(const double* input, const double* slab_bar, std::span<double> gradient,
               EmbeddingTape& tape) const;
  /// The adjoint of any vector; keeps nothing for second derivatives.
  void pull(const double* input, const double* slab_bar, std::span<double> gradient,
            const EmbeddingTape& tape) const;
  /// Along a direction of the parameters.
  void tangent(const Parameters& direction, const double* input, double* slab_dot, EmbeddingTape& tape) const;
  /// The tangent of `adjoint`.
  void adjoint_tangent(const Parameters& direction, const double* input, const double* slab_bar_dot,
                       std::span<double> gradient_dot, const EmbeddingTape& tape) const;

 private:
  /// slab := s(x) with the arrays of `p`, in which it is linear; gradient += its transpose.
  void add_up(const Parameters& p, const double* input, double* slab) const;
  void add_up_adjoint(const double* input, const double* slab_bar, std::span<double> gradient) const;

  const Parameters& parameters_;
  const SlabContext& context_;
  RowStack norm_;
};

/// slab := the embedded samples.
void embed(const Parameters& parameters, const SlabContext& context, const double* input, double* slab);

}  // namespace fluxformer
