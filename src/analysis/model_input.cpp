#include "analysis/model_input.hpp"

#include <cmath>
#include <cstddef>
#include <utility>

#include "base/error.hpp"

namespace fluxformer {
namespace {

/// The part of x that `place` shows.
ModelInput::Block writable(std::vector<double>& x, const ModelInput::ConstBlock& place) {
  return {x.data() + (place.data() - x.data()), place.rows(), place.cols(),
          Eigen::OuterStride<>(place.outerStride())};
}

}  // namespace

ModelInput::ModelInput(ModelProbe& probe, InputSpace space) : probe_(probe), space_(space) {
  need_whole_line(*probe.counted().line, "perturbations of the input");
  if (space == InputSpace::features && probe.spec().embedding_norm)
    throw BadInput("a model that normalises its embedded input: only the embedded input can be perturbed");
  if (space == InputSpace::features && probe.spec().features == 0)
    throw BadInput("a model that reads words: its input has no features to perturb, only the embedded input");
}

void ModelInput::set(const Batch& batch) {
  batch_ = &batch;
  probe_.embed(batch, u_);
  if (space_ == InputSpace::features) moved_ = batch;
}

double ModelInput::unit(int sample) const {
  if (space_ == InputSpace::features) return 1;
  const auto u = slab_block(u_, sample);
  return u.size() > 0 ? std::sqrt(u.squaredNorm() / static_cast<double>(u.size())) : 0;
}

void ModelInput::embed(const std::vector<double>& x, std::vector<double>& u) {
  if (space_ == InputSpace::embedded) {
    u = x;
    return;
  }
  moved_.input = x;
  probe_.embed(moved_, u);
}

void ModelInput::adjoint(const std::vector<double>& u_bar, std::vector<double>& x_bar) const {
  if (space_ == InputSpace::embedded) {
    x_bar = u_bar;
    return;
  }
  x_bar.assign(batch_->input.size(), 0.0);
  const auto w = probe_.parameters().view("embedding/W");
  const Eigen::Map<const RowMatrix> weights(w.data(), probe_.spec().width, probe_.spec().features);
  for (int b = 0; b < samples(); ++b) {
    block(x_bar, b).noalias() = slab_block(u_bar, b) * weights;
    if (probe_.spec().class_token) block(x_bar, b).row(0).setZero();  // it reads no features
  }
}

ModelInput::ConstBlock ModelInput::slab_block(const std::vector<double>& u, int sample) const {
  return sample_of(probe_.counted(), u.data(), sample);
}

ModelInput::ConstBlock ModelInput::block(const std::vector<double>& x, int sample) const {
  if (space_ == InputSpace::embedded) return slab_block(x, sample);
  const int features = probe_.spec().features, tokens = probe_.counted().line->tokens();
  const int real = probe_.counted().mask.length[sample];
  return {x.data() + sample * tokens * features, real, features, Eigen::OuterStride<>(features)};
}

ModelInput::Block ModelInput::slab_block(std::vector<double>& u, int sample) const {
  return writable(u, slab_block(std::as_const(u), sample));
}

ModelInput::Block ModelInput::block(std::vector<double>& x, int sample) const {
  return writable(x, block(std::as_const(x), sample));
}

}  // namespace fluxformer
