#pragma once

// Loss, gradient and products with the Hessian of a decoder of any depth with respect to all its weights. A
// product costs about four gradients, one with H_o about two; memory per layer that of one gradient, with a
// matrix length x length for each sequence.

#include <vector>

#include "analysis/decoder/decoder_layer.hpp"

namespace fluxformer::decoder {

/// At one theta and one batch; a loss over several batches is a sum. Not collective.
class DecoderProducts {
 public:
  /// `weight`: of one scored row in the loss (1 / scored rows for a mean, 1 for a sum).
  DecoderProducts(const DecoderShape& shape, DecoderWeights weights, TokenBatch batch, LogitLoss loss,
                  double weight);

  double loss() const { return loss_; }
  const Vector& gradient() const { return gradient_; }
  Index size() const { return gradient_.size(); }
  /// The part times a direction of length p.
  Vector product(Part part, const Vector& direction) const;
  /// Rows and columns [begin, begin + count) of the part, from `count` products.
  Matrix block(Part part, Index begin, Index count) const;

 private:
  struct Tangents;
  Tangents tangents(const Vector& direction) const;
  Vector adjoint(const Matrix& logits_bar) const;
  Vector adjoint_tangent(const Tangents& dot, const Matrix& logits_bar_dot) const;
  void seed();
  Matrix seed_tangent(const Matrix& logits_dot) const;
  Matrix normed_times(const Matrix& v) const;
  void scatter(const Matrix& x_bar, DecoderWeights& gradient) const;

  DecoderShape shape_;
  DecoderWeights w_;
  TokenBatch batch_;
  LogitLoss kind_;
  double weight_;
  std::vector<DecoderLayer> layers_;
  std::vector<LayerAdjoint> adjoints_;
  std::optional<RowNorm> norm_;
  Matrix normed_, normed_bar_;  // n(X_depth)
  Matrix logits_;      // n length x vocabulary; in scored rows probabilities (cross entropy) or residuals
  Matrix logits_bar_;  // zero in rows that are not scored
  double loss_ = 0;
  Vector gradient_;
};

}  // namespace fluxformer::decoder
