#pragma once

// The part of a model's input that is perturbed, batch after batch, as one vector x:
//
//   embedded   x = u_0, [token][sample][channel]. Level 1 is the root mean square of u_0 over the real tokens
//              of the sample: levels are relative, for images and for texts.
//   features   x = the features of the batch, [sample][token][feature], u_0 = W_E x + b_E + p. Level 1 is one
//              unit of the features (for images: the standard deviation of a pixel).

#include <Eigen/Core>
#include <vector>

#include "analysis/model_probe.hpp"
#include "analysis/state_examples.hpp"

namespace fluxformer {

enum class InputSpace { embedded, features };

/// Maps x to u_0 and gradients back; both for one batch of a probe. Not collective.
class ModelInput {
 public:
  /// The real tokens of one sample in x, [token][channel or feature]; empty for a filler.
  using Block = Eigen::Map<RowMatrix, 0, Eigen::OuterStride<>>;
  using ConstBlock = SampleView;

  /// `probe` is borrowed. Throws BadInput for `features` if the model reads words, and for tokens spread over
  /// ranks.
  ModelInput(ModelProbe& probe, InputSpace space);

  /// Selects a batch (borrowed), for the probe as well.
  void set(const Batch& batch);
  const Batch& batch() const { return *batch_; }
  int samples() const { return probe_.counted().samples; }
  ModelProbe& probe() const { return probe_; }

  /// The unperturbed x.
  const std::vector<double>& clean() const { return space_ == InputSpace::embedded ? u_ : batch_->input; }
  /// The unperturbed u_0.
  const std::vector<double>& clean_embedded() const { return u_; }
  /// Level 1 of this sample in units of x.
  double unit(int sample) const;

  /// u := u_0 of the input x.
  void embed(const std::vector<double>& x, std::vector<double>& u);
  /// x_bar := (du_0/dx)^T u_bar
  void adjoint(const std::vector<double>& u_bar, std::vector<double>& x_bar) const;

  /// The real tokens of a sample in a vector with the layout of x.
  Block block(std::vector<double>& x, int sample) const;
  ConstBlock block(const std::vector<double>& x, int sample) const;
  /// The same for a slab, whatever x is.
  Block slab_block(std::vector<double>& u, int sample) const;
  ConstBlock slab_block(const std::vector<double>& u, int sample) const;

 private:
  ModelProbe& probe_;
  InputSpace space_;
  const Batch* batch_ = nullptr;
  Batch moved_;  // the batch with a perturbed x
  std::vector<double> u_;
};

}  // namespace fluxformer
