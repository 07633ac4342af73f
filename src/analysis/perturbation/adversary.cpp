#include "analysis/perturbation/adversary.hpp"

#include <algorithm>

#include "base/random.hpp"
#include "model/loss.hpp"

namespace fluxformer::perturbation {

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
