#pragma once

// A task maps the last state of a batch to a loss, with derivatives in the state and in the parameters of the
// head that reads it. The loss of one sample as a function of its logits z is
//
//   cross_entropy        -sum_c q_c log softmax(z)_c,   q = (1 - smoothing) onehot + smoothing / C
//   mean_squared_error   (1/C) sum_c (z_c - q_c)^2
//
// Source of label smoothing: Szegedy et al. 2016, arXiv 1512.00567.

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/index.hpp"
#include "model/depth_model.hpp"
#include "model/parameters.hpp"
#include "model/sample_set.hpp"
#include "operators/slab.hpp"

namespace fluxformer {

enum class LossKind { cross_entropy, mean_squared_error };
/// Target of the logits: the class of a sample, or words (Batch::targets).
enum class LossTarget { label, words };

/// The keys train.loss, train.label_smoothing and train.objective of a deck.
struct Loss {
  LossKind kind = LossKind::cross_entropy;
  double smoothing = 0;  ///< label smoothing, in [0, 1)
  LossTarget target = LossTarget::label;
};

/// The cross entropy of a model's own head: of the words that it guesses, or of its classes.
inline Loss cross_entropy_of(const ModelSpec& spec) {
  return {.target = spec.guesses_words() ? LossTarget::words : LossTarget::label};
}

/// The loss of one sample with `classes` logits z; z_bar (if not null) := weight * d loss / dz. Not
/// collective.
double loss_of(const Loss& loss, const double* z, int classes, int label, double weight, double* z_bar);

/// z_bar_dot := weight * (d2 loss / dz2) z_dot for one sample: softmax(z) . (z_dot - softmax(z).z_dot), or
/// 2 z_dot / C. Positive semi-definite. Not collective.
void loss_curvature(const Loss& loss, const double* z, int classes, double weight, const double* z_dot,
                    double* z_bar_dot);

/// column := column c of a matrix B (classes x classes) with B B^T = weight d2 loss / dz2: for cross entropy
/// with p = softmax(z), column c is sqrt(weight p_c) (e_c - p). Not collective.
void loss_curvature_factor(const Loss& loss, const double* z, int classes, double weight, int c,
                           double* column);

/// The sum of the weights of the correctly classified samples of a batch; logits are [sample][class].
double correct_share(const Batch& batch, const std::vector<double>& logits, int classes);

/// The class with the largest logit (the first of equals); -1 if one is not a number.
int most_likely(const double* z, int classes);

/// The kind named by "cross_entropy" or "mean_squared_error"; throws BadInput for another word.
LossKind loss_kind(const std::string& word);

/// Weighted sums over this rank's samples; the same on all ranks of a token line, except for the depth loss.
struct Evaluation {
  double loss = 0;        ///< task loss
  double depth_loss = 0;  ///< sum of the depth losses (distillation), this rank's share
  double correct = 0;     ///< weight of the samples, or words, whose most likely class or word is right
  double total() const { return loss + depth_loss; }
};

/// The Hessian H, or its Gauss-Newton part H_o = J^T L J; the functional part is H - H_o.
enum class Curvature { hessian, gauss_newton };

/// The intermediate values of a task for one batch, kept for derivatives.
class TaskTape {
 public:
  virtual ~TaskTape() = default;
  /// The logits of the last evaluation, [sample][class]; empty if the task has no classes.
  std::vector<double> logits;
};

/// The loss of the last state u and its derivatives. Adjoints are overwritten; gradients += this rank's
/// share: their sum over the token line and over the ranks that share the batch is the gradient of the
/// weighted sum. Every member but the plain getters is collective over the token line.
class Task {
 public:
  virtual ~Task() = default;
  /// An empty tape for batches of the context. Not collective.
  virtual std::unique_ptr<TaskTape> make_tape() const = 0;
  /// The loss at the last state u.
  virtual Evaluation value(const Batch& batch, const double* u, TaskTape& tape) = 0;
  /// Contents of the tape after `gradient`: nothing, or what `product` needs.
  enum class KeepFor { nothing, products };
  /// The loss; u_bar := its derivative in u, gradient += its derivative in the parameters.
  virtual Evaluation gradient(const Batch& batch, const double* u, double* u_bar, std::span<double> gradient,
                              TaskTape& tape, KeepFor keep_for) = 0;
  /// The product with the Hessian or its Gauss-Newton part, after `gradient` with KeepFor::products: along
  /// u_dot and a direction of the parameters, u_bar_dot := and product += the derivative of u_bar and
  /// gradient, or its Gauss-Newton part.
  virtual void product(Curvature part, const Batch& batch, const ParameterVector& direction,
                       const double* u_dot, double* u_bar_dot, std::span<double> product, TaskTape& tape) = 0;
  /// Number of rows of J for a sample: its classes. Throws BadInput if they are too many to be listed.
  virtual int outputs() const = 0;
  /// u_bar := J^T b and gradient +=, with b column c of B, B B^T = L of a sample (loss_curvature_factor).
  virtual void pull_output(const Batch& batch, Index sample, int c, double* u_bar, std::span<double> gradient,
                           const TaskTape& tape) = 0;
};

/// The classifier of a model, or its word head, as `loss.target` says. `parameters` and `context` are
/// borrowed. Throws BadInput if the model has no such head. `precision` is that of the products with a word matrix;
/// classifiers are small and always in double.
std::unique_ptr<Task> make_task(const Parameters& parameters, const SlabContext& context, const Loss& loss,
                                Precision precision);

}  // namespace fluxformer
