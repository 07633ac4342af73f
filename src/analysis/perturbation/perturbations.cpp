#include "analysis/perturbation/perturbations.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "base/index.hpp"
#include "base/random.hpp"
#include "model/tasks/task.hpp"

namespace fluxformer::perturbation {

namespace {

/// Writable view of the part of x that `place` shows.
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
  // Root mean square of u_0 over the n real tokens and d channels: |u_0| / sqrt(n d)
  const auto u = slab_block(u_, sample);
  return u.size() > 0 ? std::sqrt(u.squaredNorm() / u.size()) : 0;
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
  // u_0 = W_E x + b_E + p, so that x_bar = u_bar W_E with tokens in rows.
  x_bar.assign(batch_->input.size(), 0.0);
  const auto w = probe_.parameters().view("embedding/W");
  const Eigen::Map<const RowMatrix> weights(w.data(), probe_.spec().width, probe_.spec().features);
  for (int b = 0; b < samples(); ++b) {
    block(x_bar, b).noalias() = slab_block(u_bar, b) * weights;
    block(x_bar, b).topRows(probe_.spec().class_tokens).setZero();  // they read no features
  }
}

ModelInput::ConstBlock ModelInput::slab_block(const std::vector<double>& u, int sample) const {
  return sample_of(probe_.counted(), u.data(), sample);
}

ModelInput::ConstBlock ModelInput::block(const std::vector<double>& x, int sample) const {
  if (space_ == InputSpace::embedded) return slab_block(x, sample);
  // Features are [sample][token][feature], of which the first `real` tokens are not padding.
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

void add_noise(const ModelInput& input, std::uint64_t seed, double level, std::vector<double>& x) {
  const RandomStream noise(seed, "input noise");
  for (int b = 0; b < input.samples(); ++b) {
    auto block = input.block(x, b);
    if (block.rows() == 0) continue;
    const auto draw = noise.item(input.batch().key[b]);
    // x += level * unit * z with a standard normal number z for each token t and channel j. Its key does not
    // depend on the level: all levels add multiples of the same noise.
    const double deviation = level * input.unit(b);
    for (Index t = 0; t < block.rows(); ++t)
      for (Index j = 0; j < block.cols(); ++j) block(t, j) += deviation * draw.normal(t * block.cols() + j);
  }
}

Batch drop_tokens(const ModelSpec& spec, const Batch& batch, std::uint64_t seed, double share, int unknown) {
  if (!(share >= 0 && share <= 1))
    throw BadInput("a share of " + std::to_string(share) + " of the tokens: must be from 0 to 1");
  const RandomStream dropout(seed, "token dropout");
  const bool words = spec.vocabulary > 0;
  if (words && unknown < 0) throw BadInput("tokens cannot be left out: there is no word for unknown ones");
  const Index numbers = spec.input_size(), samples = std::ssize(batch.weight);
  const Index tokens = std::ssize(batch.input) / (samples * numbers);
  Batch dropped = batch;
  for (Index b = 0; b < samples; ++b) {
    if (batch.weight[b] == 0) continue;
    const auto draw = dropout.item(batch.key[b]);
    const Index real = batch.length.empty() ? tokens : batch.length[b];
    // Real tokens in random order, of which the first share * real are dropped. The order does not depend on
    // the share, so that a larger share includes the tokens of a smaller one.
    std::vector<Index> order(real);
    std::iota(order.begin(), order.end(), Index{0});
    std::sort(order.begin(), order.end(),
              [&](Index i, Index j) { return draw.uniform(i) < draw.uniform(j); });
    order.resize(std::lround(share * real));
    for (const Index t : order)  // of a word and its segment the word
      std::fill_n(dropped.input.begin() + (b * tokens + t) * numbers, words ? 1 : numbers,
                  words ? unknown : 0.0);
  }
  return dropped;
}

void Adversary::gradient(const std::vector<double>& x, std::vector<double>& g) {
  auto& probe = input_.probe();
  const auto& batch = input_.batch();
  // g = (du_0/dx)^T (dz/du_0)^T dl/dz with each sample's own loss l; dl/dz = 0 for fillers.
  input_.embed(x, u_);
  const auto& logits = probe.forward(u_, Keep::activations);
  const int classes = probe.spec().classes;
  logits_bar_.assign(logits.size(), 0.0);
  for (Index b = 0; b < std::ssize(batch.weight); ++b)
    if (batch.weight[b] != 0)
      loss_of({}, logits.data() + b * classes, classes, batch.label[b], 1.0,
              logits_bar_.data() + b * classes);
  probe.adjoint(logits_bar_, u_bar_);
  input_.adjoint(u_bar_, g);
}

void Adversary::begin() {
  gradient(input_.clean(), clean_gradient_);
}

void Adversary::start_anywhere(const Attack& how, std::vector<double>& x) const {
  const RandomStream starts(how.seed, "attack starts");
  for (int b = 0; b < input_.samples(); ++b) {
    const auto draw = starts.item(input_.batch().key[b]);
    const double radius = how.epsilon * input_.unit(b);
    auto block = input_.block(x, b);
    // Uniform in the ball |x - clean| <= radius of the maximum norm, cut to the range of inputs
    for (Index t = 0; t < block.rows(); ++t)
      for (Index j = 0; j < block.cols(); ++j)
        block(t, j) = std::clamp(block(t, j) + draw.uniform(t * block.cols() + j, -radius, radius),
                                 range_.lower, range_.upper);
  }
}

void Adversary::step(const Attack& how, const std::vector<double>& g, std::vector<double>& x) const {
  for (int b = 0; b < input_.samples(); ++b) {
    const double radius = how.epsilon * input_.unit(b);
    const auto clean = input_.block(input_.clean(), b).array();
    auto block = input_.block(x, b);
    const auto slope = input_.block(g, b).array();
    // P(x + step epsilon sign(g)): within the ball around the clean input, and within the range. The sign of
    // NaN is 0.
    const auto sign = (slope > 0).cast<double>() - (slope < 0).cast<double>();
    block = (block.array() + how.step * radius * sign)
                .max((clean - radius).max(range_.lower))
                .min((clean + radius).min(range_.upper));
  }
}

void Adversary::attack(const Attack& how, std::vector<double>& x) {
  x = input_.clean();
  if (how.random_start) start_anywhere(how, x);
  for (int k = 0; k < how.steps; ++k) {
    // The first step from the centre uses the gradient of `begin`, which all radii share.
    const bool clean = k == 0 && !how.random_start;
    if (!clean) gradient(x, gradient_);
    step(how, clean ? clean_gradient_ : gradient_, x);
  }
}

}  // namespace fluxformer::perturbation
