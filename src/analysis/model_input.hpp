#pragma once

// What of a model's input is perturbed, batch after batch, as one vector x:
//
//   embedded   x = u_0, [token][sample][channel]. A level of 1 is the root mean square of u_0 over the real
//              tokens of the sample, so that levels are relative, for images as for texts.
//   features   x = the numbers of the batch, [sample][token][feature], u_0 = W_E x + b_E + p. A level of 1 is
//              one unit of the features (of the images here: the standard deviation of a pixel).

#include <Eigen/Core>
#include <vector>

#include "analysis/model_probe.hpp"
#include "analysis/state_examples.hpp"

namespace fluxformer {

enum class InputSpace { embedded, features };

class ModelInput {
 public:
  /// The real tokens of one sample in x, [token][channel or feature]; none for a filler.
  using Block = Eigen::Map<RowMatrix, 0, Eigen::OuterStride<>>;
  using ConstBlock = SampleView;

  /// `probe` is borrowed. Throws BadInput for the features of a model that reads words, and for tokens spread
  /// over ranks.
  ModelInput(ModelProbe& probe, InputSpace space);

  /// From now on it is about this batch (borrowed), and so is the probe.
  void set(const Batch& batch);
  const Batch& batch() const { return *batch_; }
  int samples() const { return probe_.counted().samples; }
  ModelProbe& probe() const { return probe_; }

  /// x as the batch has it.
  const std::vector<double>& clean() const { return space_ == InputSpace::embedded ? u_ : batch_->input; }
  /// u_0 as the batch has it.
  const std::vector<double>& clean_embedded() const { return u_; }
  /// What a level of 1 is for this sample, in the numbers of x.
  double unit(int sample) const;

  /// u := u_0 for x.
  void embed(const std::vector<double>& x, std::vector<double>& u);
  /// x_bar := (du_0/dx)^T u_bar
  void adjoint(const std::vector<double>& u_bar, std::vector<double>& x_bar) const;

  Block block(std::vector<double>& x, int sample) const;
  ConstBlock block(const std::vector<double>& x, int sample) const;
  /// The same of a slab, whatever x is.
  Block slab_block(std::vector<double>& u, int sample) const;
  ConstBlock slab_block(const std::vector<double>& u, int sample) const;

 private:
  ModelProbe& probe_;
  InputSpace space_;
  const Batch* batch_ = nullptr;
  Batch moved_;  // the batch with another x
  std::vector<double> u_;
};

}  // namespace fluxformer
