#pragma once

// The embedded input: the inflow of equation (1) at s = 0.
//
//   numbers   s(x) = W_E f(x) + b_E + p(x)                  first tokens: c(x) + p(x) with class tokens c
//   words     s(x) = w(word at x) + g(segment at x) + p(x)  rows of the word table and of the segment table
//   e(x) = N(s(x)), N a LayerNorm if the model has one there, else the identity

#include <span>
#include <vector>

#include "model/parameters.hpp"
#include "model/row_stack.hpp"
#include "operators/slab.hpp"

namespace fluxformer {

/// The intermediate values of the embedding of one batch, kept for derivatives.
struct EmbeddingTape {
  RowTape norm;
};

/// The embedding and its derivatives with respect to the parameters. `input` is [sample][global
/// token][spec.input_size()] for the samples of the context, with indices as whole numbers within their
/// tables (else BadInput); slabs are [local token][sample][channel]. The calls for one tape come in the order
/// of RowStack. Nothing is collective; gradients += this rank's share.
class Embedding {
 public:
  /// `parameters` and `context` are borrowed.
  Embedding(const Parameters& parameters, const SlabContext& context);

  /// slab := the embedded samples.
  void forward(const double* input, double* slab, EmbeddingTape& tape) const;
  /// gradient += (d slab / d theta)^T slab_bar; slab_bar is kept on the tape for `adjoint_tangent`.
  void adjoint(const double* input, const double* slab_bar, std::span<double> gradient,
               EmbeddingTape& tape) const;
  /// gradient += (d slab / d theta)^T slab_bar for any vector slab_bar; keeps nothing for second derivatives.
  void pull(const double* input, const double* slab_bar, std::span<double> gradient,
            const EmbeddingTape& tape) const;
  /// slab_dot := the derivative of the slab along a direction of the parameters.
  void tangent(const ParameterVector& direction, const double* input, double* slab_dot,
               EmbeddingTape& tape) const;
  /// gradient_dot += the derivative of `adjoint` along `direction` and slab_bar_dot.
  void adjoint_tangent(const ParameterVector& direction, const double* input, const double* slab_bar_dot,
                       std::span<double> gradient_dot, const EmbeddingTape& tape) const;

 private:
  /// slab := s(x) with the arrays of `p`, in which s is linear; the other call is its transpose, gradient +=
  /// .
  void add_up(const ParameterVector& p, const double* input, double* slab) const;
  void add_up_adjoint(const double* input, const double* slab_bar, std::span<double> gradient) const;

  const Parameters& parameters_;
  const SlabContext& context_;
  RowStack norm_;
};

/// slab := the embedded samples, without a tape. Not collective.
void embed(const Parameters& parameters, const SlabContext& context, const double* input, double* slab);

}  // namespace fluxformer
