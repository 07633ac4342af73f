#pragma once

// The attention heads of a model at the states of its samples: weights, queries, keys, values and output
// maps. They are what the layer map computes within the cell at which a layer begins,
//
//   A = softmax(Q K^T / sqrt(d_k)),  Q = x W_Q^T + b_Q, K and V likewise,  output of a head = A V H,
//
// x = N(u) (the norm of the layer for norm = pre), Q and K behind the norms of heads and the rotary positions of
// models that have them, K and V those of the group that the head reads, H = alpha times the columns of W_O that belong to the head,
// transposed. The bias b_O is the same for every token and belongs to no head (docs/model.md, section 10.1).

#include <map>
#include <vector>

#include "analysis/identifiability/sample_head.hpp"
#include "analysis/model_probe.hpp"
#include "model/depth_weights.hpp"
#include "operators/attention/attention.hpp"

namespace fluxformer::identifiability {

/// The heads of one batch at a time. Not collective: a sample is whole on one rank.
class ModelHeads {
 public:
  /// `probe` is borrowed. Throws BadInput for attention that is not softmax(Q K^T / sqrt(d_k))
  /// (attention.kernel = l2, attention.normalisation = sinkhorn or linear) or whose windows hide tokens, for a
  /// model whose cells do not begin where its layers do, and for tokens spread over ranks.
  explicit ModelHeads(ModelProbe& probe);

  /// Marches a batch and keeps the states at which cells begin. Throws NumericalFailure if they are not
  /// finite.
  void show(const Batch& batch);
  /// Computes the heads of layer l = 1 .. S of that batch: of the cell at which it begins.
  void select(int l) { select_cell(probe_.entry_of_layer(l)); }
  /// Computes the heads of any depth cell 0 .. M - 1.
  void select_cell(int cell);
  /// The heads of one sample of the selected cell, padding removed; none for a filler.
  LayerHeads of_sample(int sample) const;

  int layers() const { return probe_.spec().layers; }
  int heads() const { return probe_.spec().attention.heads; }

 private:
  ModelProbe& probe_;
  DepthWeights<double> weights_;
  std::vector<std::vector<double>> entries_;  ///< [cell]: the state at which it begins
  SlabContext plain_;  ///< of all rows, without a mask: queries, keys and values do not depend on it
  Attention<double> attention_;
  std::vector<double> u_, state_, kernel_, q_, k_, v_;
  LayerWeights<const double> layer_;
  struct Output {
    Matrix matrix;                ///< alpha W_O^T
    std::vector<Matrix> factors;  ///< output_factor of each head
  };
  std::map<int, Output> outputs_;  ///< outputs by selected cell; all batches share them
  const Output* output_ = nullptr;
};

}  // namespace fluxformer::identifiability
