#pragma once

// Adversarial inputs: perturbations within a ball that increase the cross entropy of each sample, found by
// its gradient (the adjoint of the march). The ball is that of the maximum norm with radius epsilon, in units
// of ModelInput::unit. Sources: Goodfellow, Shlens, Szegedy, arXiv 1412.6572 (FGSM); Madry et al., arXiv
// 1706.06083 (PGD).

#include <cstdint>
#include <limits>
#include <vector>

#include "analysis/model_input.hpp"

namespace fluxformer::perturbation {

/// Sign steps x := P(x + step * epsilon * sign(gradient)), with P the projection to ball and range.
struct Attack {
  double epsilon = 0;         ///< radius of the ball, in units of the input
  int steps = 1;              ///< each after the first costs a forward and a backward pass
  double step = 1;            ///< size of a sign step, in epsilons
  bool random_start = false;  ///< starts at a random point of the ball, not at its centre
  std::uint64_t seed = 0;     ///< of the random start, keyed by the sample
};

/// One step over the whole radius.
inline Attack fgsm(double epsilon) {
  return {.epsilon = epsilon};
}
/// Steps of 2.5 epsilon / steps from the centre: together longer than the diameter of the ball, so that every
/// point can be reached from every other.
inline Attack pgd(double epsilon, int steps) {
  return {.epsilon = epsilon, .steps = steps, .step = 2.5 / steps};
}

/// Range of allowed inputs, whatever the ball: for images, from black to white.
struct InputRange {
  double lower = -std::numeric_limits<double>::infinity();
  double upper = std::numeric_limits<double>::infinity();
};

/// Gradients and attacks on the batches of one input. Not collective: samples are whole on a rank.
class Adversary {
 public:
  /// `input` is borrowed.
  explicit Adversary(ModelInput& input, const InputRange& range = {}) : input_(input), range_(range) {}

  /// Computes the gradient at the unperturbed batch of the input.
  void begin();
  /// Gradient of the cross entropy of each sample with respect to its x, with the layout of x; 0 for fillers.
  const std::vector<double>& clean_gradient() const { return clean_gradient_; }
  /// The same at any x.
  void gradient(const std::vector<double>& x, std::vector<double>& g);
  /// x := the unperturbed input after the attack. Fillers and padding do not change.
  void attack(const Attack& how, std::vector<double>& x);

 private:
  void start_anywhere(const Attack& how, std::vector<double>& x) const;
  /// x := P(x + step * sign(g)), in units of each sample.
  void step(const Attack& how, const std::vector<double>& g, std::vector<double>& x) const;

  ModelInput& input_;
  InputRange range_;
  std::vector<double> clean_gradient_, gradient_, u_, u_bar_, logits_bar_;
};

}  // namespace fluxformer::perturbation
