#pragma once

// Steps of stochastic gradient methods on one flat vector. With g the gradient, l the learning rate, w the
// decay and t = 1, 2, ... the step:
//
//   sgd    b = m b + g + w x (b = g + w x at t = 1),  x -= l b
//   adam   g += w x;  m = b1 m + (1 - b1) g,  v = b2 v + (1 - b2) g^2,
//          x -= l (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps)
//   adamw  x -= l w x, then adam without decay
//
// Sources: Kingma and Ba, arXiv 1412.6980; Loshchilov and Hutter, arXiv 1711.05101.

#include <functional>
#include <span>
#include <string>
#include <vector>

namespace fluxformer {

enum class Method { sgd, adam, adamw };

/// The method and its constants.
struct OptimiserSettings {
  Method method = Method::adamw;
  double momentum = 0.9;              ///< momentum m (sgd)
  double beta1 = 0.9, beta2 = 0.999;  ///< decay rates of the moments (adam, adamw)
  double epsilon = 1e-8;              ///< term of the denominator (adam, adamw)
  double decay = 0.01;                ///< weight decay w
};

/// An optimiser of one flat vector. It is replicated: every rank holds the moments of all entries.
class Optimiser {
 public:
  /// `decays[j]` is 1 where weight decay applies, else 0.
  Optimiser(const OptimiserSettings& settings, std::vector<char> decays);

  /// Takes one step with `factor` times the gradient (to clip it). Not collective: equal inputs give equal
  /// results on every rank.
  void step(double rate, std::span<const double> gradient, std::span<double> x, double factor = 1);

  /// The diagonal D of the last step x -= rate D^-1 m_hat: sqrt(v / (1 - b2^t)) + eps. Empty for sgd and
  /// before the first step. Not collective.
  std::vector<double> preconditioner() const;
  /// The stability threshold: learning rate times largest eigenvalue of D^-1/2 H D^-1/2 at which full-batch
  /// training without decay becomes unstable on a quadratic loss: 2 (1 + m) for sgd, 2 (1 + b1) / (1 - b1)
  /// for adam and adamw. Source: Cohen et al., "Adaptive Gradient Methods at the Edge of Stability", arXiv
  /// 2207.14484.
  double stability_threshold() const;

  /// All that the next step depends on: t and the two moments (the second is empty for sgd).
  struct State {
    long steps = 0;
    std::vector<double> first, second;
  };
  const State& state() const { return state_; }
  /// Continues from a state. Throws std::invalid_argument if the sizes do not match.
  void restore(State state);

 private:
  OptimiserSettings settings_;
  std::vector<char> decays_;
  State state_;
};

/// The method named by "sgd", "adam" or "adamw"; throws BadInput for another word.
Method method_named(const std::string& word);

}  // namespace fluxformer
