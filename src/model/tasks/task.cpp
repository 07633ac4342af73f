#include "model/tasks/task.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "model/readout.hpp"
#include "model/tasks/word_task.hpp"

namespace fluxformer {

double loss_of(const Loss& loss, const double* z, int classes, int label, double weight, double* z_bar) {
  // q = (1 - smoothing) onehot(label) + smoothing / C
  const double rest = loss.smoothing / classes;
  const auto target = [&](int c) { return rest + (c == label ? 1 - loss.smoothing : 0.0); };
  double value = 0;
  if (loss.kind == LossKind::mean_squared_error) {
    // L = (1/C) sum_c (z_c - q_c)^2,  dL/dz_c = 2 (z_c - q_c) / C
    for (int c = 0; c < classes; ++c) {
      const double error = z[c] - target(c);
      value += error * error / classes;
      if (z_bar != nullptr) z_bar[c] = weight * 2 * error / classes;
    }
    return value;
  }
  // log sum_c exp(z_c), shifted by the largest z so that nothing overflows
  const double top = *std::max_element(z, z + classes);
  double sum = 0;
  for (int c = 0; c < classes; ++c) sum += std::exp(z[c] - top);
  // L = -sum_c q_c log p_c with p = softmax(z), log p_c = z_c - log_sum,  dL/dz = p - q
  const double log_sum = top + std::log(sum);
  for (int c = 0; c < classes; ++c) {
    value -= target(c) * (z[c] - log_sum);
    if (z_bar != nullptr) z_bar[c] = weight * (std::exp(z[c] - log_sum) - target(c));
  }
  return value;
}

void loss_curvature(const Loss& loss, const double* z, int classes, double weight, const double* z_dot,
                    double* z_bar_dot) {
  if (loss.kind == LossKind::mean_squared_error) {
    // d2L/dz2 = 2 / C times the identity
    for (int c = 0; c < classes; ++c) z_bar_dot[c] = weight * 2 * z_dot[c] / classes;
    return;
  }
  // z_bar_dot = weight p . (z_dot - mean),  mean = p . z_dot,  p = softmax(z)
  const double top = *std::max_element(z, z + classes);
  double sum = 0, mean = 0;
  for (int c = 0; c < classes; ++c) {
    z_bar_dot[c] = std::exp(z[c] - top);
    sum += z_bar_dot[c];
    mean += z_bar_dot[c] * z_dot[c];
  }
  mean /= sum;
  for (int c = 0; c < classes; ++c) z_bar_dot[c] *= weight / sum * (z_dot[c] - mean);
}

void loss_curvature_factor(const Loss& loss, const double* z, int classes, double weight, int c,
                           double* column) {
  if (loss.kind == LossKind::mean_squared_error) {
    std::fill(column, column + classes, 0.0);
    column[c] = std::sqrt(weight * 2 / classes);
    return;
  }
  // sqrt(weight p_c) (e_c - p): the columns of B with B B^T = weight (diag(p) - p p^T)
  const double top = *std::max_element(z, z + classes);
  double sum = 0;
  for (int k = 0; k < classes; ++k) {
    column[k] = std::exp(z[k] - top);
    sum += column[k];
  }
  const double size = std::sqrt(weight * column[c] / sum);
  for (int k = 0; k < classes; ++k) column[k] = size * ((k == c ? 1.0 : 0.0) - column[k] / sum);
}

int most_likely(const double* z, int classes) {
  // All comparisons with NaN are false, so that max_element would not see it.
  if (std::any_of(z, z + classes, [](double x) { return std::isnan(x); })) return -1;
  return std::max_element(z, z + classes) - z;
}

double correct_share(const Batch& batch, const std::vector<double>& logits, int classes) {
  // The sum of w_b over the samples b whose most likely class is the label.
  double share = 0;
  for (Index b = 0; b < std::ssize(batch.label); ++b)
    if (most_likely(logits.data() + b * classes, classes) == batch.label[b]) share += batch.weight[b];
  return share;
}

LossKind loss_kind(const std::string& word) {
  if (word == "cross_entropy") return LossKind::cross_entropy;
  if (word == "mean_squared_error") return LossKind::mean_squared_error;
  throw BadInput("train.loss = " + word + ": cross_entropy or mean_squared_error");
}

/// The task of a model with classes: the loss of the logits of the readout (model/readout.hpp) at the labels.
class ClassTask final : public Task {
 public:
  /// `parameters` and `context` are borrowed.
  ClassTask(const Parameters& parameters, const SlabContext& context, const Loss& loss);
  std::unique_ptr<TaskTape> make_tape() const override;
  Evaluation value(const Batch& batch, const double* u, TaskTape& tape) override;
  Evaluation gradient(const Batch& batch, const double* u, double* u_bar, std::span<double> gradient,
                      TaskTape& tape, KeepFor keep_for) override;
  void product(Curvature part, const Batch& batch, const ParameterVector& direction, const double* u_dot,
               double* u_bar_dot, std::span<double> product, TaskTape& tape) override;
  int outputs() const override { return classes_; }
  void pull_output(const Batch& batch, Index sample, int c, double* u_bar, std::span<double> gradient,
                   const TaskTape& tape) override;

 private:
  /// The loss of the logits on the tape; with_gradient: logits_bar_ := its derivative in them.
  Evaluation finish(const Batch& batch, const TaskTape& tape, bool with_gradient);

  Loss loss_;
  int classes_;
  Index samples_;
  Readout readout_;
  std::vector<double> logits_dot_, logits_bar_;
};

namespace {

struct ClassTape final : TaskTape {
  ReadoutTape read;
};

ClassTape& of(TaskTape& tape) {
  return dynamic_cast<ClassTape&>(tape);
}

}  // namespace

ClassTask::ClassTask(const Parameters& parameters, const SlabContext& context, const Loss& loss)
    : loss_(loss),
      classes_(parameters.spec.classes),
      samples_(context.samples),
      readout_(parameters, context) {
  if (classes_ == 0) throw BadInput("the model has no classes to tell apart");
}

std::unique_ptr<TaskTape> ClassTask::make_tape() const {
  auto tape = std::make_unique<ClassTape>();
  tape->logits.resize(samples_ * classes_);
  return tape;
}

Evaluation ClassTask::finish(const Batch& batch, const TaskTape& tape, bool with_gradient) {
  Evaluation result;
  if (with_gradient) logits_bar_.resize(tape.logits.size());
  // L = sum_b w_b L(z_b, label_b),  z_bar_b = w_b dL/dz_b
  for (Index b = 0; b < std::ssize(batch.label); ++b) {
    const Index at = b * classes_;
    const double weight = batch.weight[b];
    const double loss = loss_of(loss_, tape.logits.data() + at, classes_, batch.label[b], weight,
                                with_gradient ? logits_bar_.data() + at : nullptr);
    if (weight == 0) continue;  // padding of the batch: its loss may even be NaN
    result.loss += weight * loss;
  }
  result.correct = correct_share(batch, tape.logits, classes_);
  return result;
}

Evaluation ClassTask::value(const Batch& batch, const double* u, TaskTape& tape) {
  readout_.logits(u, tape.logits.data(), of(tape).read);
  return finish(batch, tape, false);
}

Evaluation ClassTask::gradient(const Batch& batch, const double* u, double* u_bar, std::span<double> gradient,
                               TaskTape& tape, KeepFor keep_for) {
  auto& read = of(tape).read;
  readout_.logits(u, tape.logits.data(), read);
  const auto result = finish(batch, tape, true);
  // u_bar = (dz/du)^T z_bar,  gradient += (dz/dtheta)^T z_bar
  if (keep_for == KeepFor::products)
    readout_.adjoint(logits_bar_.data(), u_bar, gradient, read);
  else
    readout_.pull(logits_bar_.data(), u_bar, gradient, read);
  return result;
}

void ClassTask::product(Curvature part, const Batch& batch, const ParameterVector& direction,
                        const double* u_dot, double* u_bar_dot, std::span<double> product, TaskTape& tape) {
  auto& read = of(tape).read;
  logits_dot_.resize(tape.logits.size());
  // z_dot = (dz/du) u_dot + (dz/dtheta) theta_dot
  readout_.tangent(direction, u_dot, logits_dot_.data(), read);
  const Index count = classes_;
  // z_bar_dot = w_b (d2L/dz2) z_dot for each sample
  logits_bar_.assign(tape.logits.size(), 0.0);
  for (Index b = 0; b < std::ssize(batch.label); ++b)
    if (batch.weight[b] != 0)
      loss_curvature(loss_, tape.logits.data() + b * count, classes_, batch.weight[b],
                     logits_dot_.data() + b * count, logits_bar_.data() + b * count);
  // H: u_bar_dot = d/de (dz/du)^T z_bar by the product rule;  H_o: (dz/du)^T z_bar_dot alone
  if (part == Curvature::hessian)
    readout_.adjoint_tangent(direction, logits_bar_.data(), u_bar_dot, product, read);
  else
    readout_.pull(logits_bar_.data(), u_bar_dot, product, read);
}

void ClassTask::pull_output(const Batch& batch, Index sample, int c, double* u_bar,
                            std::span<double> gradient, const TaskTape& tape) {
  const Index count = classes_;
  // z_bar = column c of B, with B B^T = w_b d2L/dz2, in the place of this sample and 0 elsewhere
  logits_bar_.assign(tape.logits.size(), 0.0);
  loss_curvature_factor(loss_, tape.logits.data() + sample * count, classes_, batch.weight[sample], c,
                        logits_bar_.data() + sample * count);
  readout_.pull(logits_bar_.data(), u_bar, gradient, dynamic_cast<const ClassTape&>(tape).read);
}

std::unique_ptr<Task> make_task(const Parameters& parameters, const SlabContext& context, const Loss& loss,
                                Precision precision) {
  if (loss.target == LossTarget::words) return make_word_task(parameters, context, loss, precision);
  return std::make_unique<ClassTask>(parameters, context, loss);
}

}  // namespace fluxformer
