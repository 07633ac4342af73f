#include "analysis/perturbation/perturbations.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "base/random.hpp"
#include "model/loss.hpp"

namespace fluxformer::perturbation {

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

void add_noise(const ModelInput& input, std::uint64_t seed, double level, std::vector<double>& x) {
  const RandomStream noise(seed, "input noise");
  for (int b = 0; b < input.samples(); ++b) {
    auto block = input.block(x, b);
    if (block.rows() == 0) continue;
    const auto draw = noise.item(input.batch().key[b]);
    const double deviation = level * input.unit(b);
    for (Eigen::Index t = 0; t < block.rows(); ++t)
      for (Eigen::Index j = 0; j < block.cols(); ++j)
        block(t, j) += deviation * draw.normal(static_cast<std::uint64_t>(t * block.cols() + j));
  }
}

Batch drop_tokens(const ModelSpec& spec, const Batch& batch, std::uint64_t seed, double share, int unknown) {
  if (!(share >= 0 && share <= 1))
    throw BadInput("a share of " + std::to_string(share) + " of the tokens: must be from 0 to 1");
  const RandomStream dropout(seed, "token dropout");
  const bool words = spec.vocabulary > 0;
  if (words && unknown < 0) throw BadInput("tokens cannot be left out: there is no word for unknown ones");
  const auto numbers = static_cast<std::size_t>(spec.input_size());
  const std::size_t tokens = batch.input.size() / (batch.weight.size() * numbers);
  Batch dropped = batch;
  for (std::size_t b = 0; b < batch.weight.size(); ++b) {
    if (batch.weight[b] == 0) continue;
    const auto draw = dropout.item(batch.key[b]);
    const std::size_t real = batch.length.empty() ? tokens : static_cast<std::size_t>(batch.length[b]);
    std::vector<std::size_t> order(real);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(),
              [&](std::size_t i, std::size_t j) { return draw.uniform(i) < draw.uniform(j); });
    order.resize(std::lround(share * static_cast<double>(real)));
    for (const std::size_t t : order)  // of a word and its segment the word
      std::fill_n(dropped.input.begin() + static_cast<std::ptrdiff_t>((b * tokens + t) * numbers),
                  words ? 1 : numbers, words ? unknown : 0.0);
  }
  return dropped;
}

void Adversary::gradient(const std::vector<double>& x, std::vector<double>& g) {
  auto& probe = input_.probe();
  const auto& batch = input_.batch();
  input_.embed(x, u_);
  const auto& logits = probe.forward(u_, Keep::activations);
  const auto classes = static_cast<std::size_t>(probe.spec().classes);
  logits_bar_.assign(logits.size(), 0.0);
  for (std::size_t b = 0; b < batch.weight.size(); ++b)
    if (batch.weight[b] != 0)
      loss_of({}, logits.data() + b * classes, probe.spec().classes, batch.label[b], 1.0,
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
    for (Eigen::Index t = 0; t < block.rows(); ++t)
      for (Eigen::Index j = 0; j < block.cols(); ++j)
        block(t, j) = std::clamp(
            block(t, j) + draw.uniform(static_cast<std::uint64_t>(t * block.cols() + j), -radius, radius),
            range_.lower, range_.upper);
  }
}

void Adversary::step(const Attack& how, const std::vector<double>& g, std::vector<double>& x) const {
  for (int b = 0; b < input_.samples(); ++b) {
    const double radius = how.epsilon * input_.unit(b);
    const auto clean = input_.block(input_.clean(), b).array();
    auto block = input_.block(x, b);
    const auto slope = input_.block(g, b).array();
    // (The sign of NaN is 0.)
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
    const bool clean = k == 0 && !how.random_start;
    if (!clean) gradient(x, gradient_);
    step(how, clean ? clean_gradient_ : gradient_, x);
  }
}

}  // namespace fluxformer::perturbation
