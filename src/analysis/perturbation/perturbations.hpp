#pragma once

// Perturbed inputs of a model: random perturbations, and adversarial ones. The part of the input that is
// perturbed is one vector x for each batch:
//
//   embedded   x = u_0, [token][sample][channel]. Level 1 is the root mean square of u_0 over the real tokens
//              of the sample: levels are relative, for images and for texts.
//   features   x = the features of the batch, [sample][token][feature], u_0 = W_E x + b_E + p. Level 1 is one
//              unit of the features (for images: the standard deviation of a pixel).

#include <Eigen/Core>
#include <cstdint>
#include <limits>
#include <vector>

#include "analysis/model_probe.hpp"
#include "analysis/state_examples.hpp"

namespace fluxformer::perturbation {

/// Space of the input that is perturbed.
enum class InputSpace { embedded, features };

/// Input x of one batch of a probe: maps x to u_0, and gradients with respect to u_0 back to x. Not
/// collective.
class ModelInput {
 public:
  /// Real tokens of one sample in x, [token][channel or feature]; empty for a filler.
  using Block = Eigen::Map<RowMatrix, 0, Eigen::OuterStride<>>;
  using ConstBlock = SampleView;

  /// `probe` is borrowed. Throws BadInput for `features` if the model reads words or normalises its embedded
  /// input, and for tokens that are distributed over ranks.
  ModelInput(ModelProbe& probe, InputSpace space);

  /// Selects a batch (borrowed), for the probe, too.
  void set(const Batch& batch);
  const Batch& batch() const { return *batch_; }
  int samples() const { return probe_.counted().samples; }
  ModelProbe& probe() const { return probe_; }

  /// Unperturbed x.
  const std::vector<double>& clean() const { return space_ == InputSpace::embedded ? u_ : batch_->input; }
  /// Unperturbed u_0.
  const std::vector<double>& clean_embedded() const { return u_; }
  /// Level 1 of a sample, in units of x.
  double unit(int sample) const;

  /// u := u_0 of the input x.
  void embed(const std::vector<double>& x, std::vector<double>& u);
  /// x_bar := (du_0/dx)^T u_bar
  void adjoint(const std::vector<double>& u_bar, std::vector<double>& x_bar) const;

  /// Real tokens of a sample in a vector with the layout of x.
  Block block(std::vector<double>& x, int sample) const;
  ConstBlock block(const std::vector<double>& x, int sample) const;
  /// Real tokens of a sample in a slab, whatever x is.
  Block slab_block(std::vector<double>& u, int sample) const;
  ConstBlock slab_block(const std::vector<double>& u, int sample) const;

 private:
  ModelProbe& probe_;
  InputSpace space_;
  const Batch* batch_ = nullptr;
  Batch moved_;  // the batch with a perturbed x
  std::vector<double> u_;
};

// Random perturbations. Draws are keyed by seed and by the key of the sample: the same for every model, in
// any batch, on any number of ranks. All levels use the same draw, so that a curve over levels shows their
// effect alone. Fillers and padding do not change. Nothing here is collective.

/// Adds level * unit(sample) * (standard normal numbers) to x, keyed by token and channel or feature.
/// Features are not limited to a range.
void add_noise(const ModelInput& input, std::uint64_t seed, double level, std::vector<double>& x);

/// Batch in which a share of the real tokens of each sample (rounded to whole tokens) is replaced by features
/// 0 (for images, the mean pixel) or by the word `unknown` (Dataset::unknown_word). Positions and segments do
/// not change. A larger share includes the tokens of a smaller one. `spec` is that of the models that will
/// read the batch. Throws BadInput unless 0 <= share <= 1, and for words without an unknown one.
Batch drop_tokens(const ModelSpec& spec, const Batch& batch, std::uint64_t seed, double share, int unknown);

// Adversarial inputs: perturbations within a ball that increase the cross entropy of each sample, found by
// its gradient (the adjoint of the march). The ball is that of the maximum norm with radius epsilon, in units
// of ModelInput::unit. Sources: Goodfellow, Shlens, Szegedy, arXiv 1412.6572 (FGSM); Madry et al., arXiv
// 1706.06083 (PGD).

/// Attack by sign steps x := P(x + step * epsilon * sign(gradient)), with P the projection to ball and range.
struct Attack {
  double epsilon = 0;         ///< radius of the ball, in units of the input
  int steps = 1;              ///< number of steps; each after the first costs a forward and a backward pass
  double step = 1;            ///< size of a sign step, in epsilons
  bool random_start = false;  ///< true: starts at a random point of the ball, not at its centre
  std::uint64_t seed = 0;     ///< seed of the random start, which is keyed by the sample
};

/// FGSM: one step over the whole radius.
inline Attack fgsm(double epsilon) {
  return {.epsilon = epsilon};
}
/// PGD: steps of 2.5 epsilon / steps from the centre, together longer than the diameter of the ball, so that
/// every point can be reached from every other.
inline Attack pgd(double epsilon, int steps) {
  return {.epsilon = epsilon, .steps = steps, .step = 2.5 / steps};
}

/// Range of allowed inputs, whatever the ball; for images, from black to white.
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
  /// Used by tests only.
  const std::vector<double>& clean_gradient() const { return clean_gradient_; }
  /// g := gradient of the cross entropy at any x.
  void gradient(const std::vector<double>& x, std::vector<double>& g);
  /// x := input after the attack on the unperturbed input. Fillers and padding do not change.
  void attack(const Attack& how, std::vector<double>& x);

 private:
  /// Moves x to a random point of the ball.
  void start_anywhere(const Attack& how, std::vector<double>& x) const;
  /// x := P(x + step * sign(g)), in units of each sample.
  void step(const Attack& how, const std::vector<double>& g, std::vector<double>& x) const;

  ModelInput& input_;
  InputRange range_;
  std::vector<double> clean_gradient_, gradient_, u_, u_bar_, logits_bar_;
};

}  // namespace fluxformer::perturbation
