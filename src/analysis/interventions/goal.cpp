#include "analysis/interventions/goal.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "analysis/dense_matrices.hpp"
#include "base/error.hpp"
#include "base/mpi.hpp"
#include "model/readout.hpp"
#include "model/tasks/task.hpp"
#include "model/tasks/word_task.hpp"

namespace fluxformer::interventions {

GoalKind goal_kind(const std::string& word) {
  if (word == "logits") return GoalKind::logits;
  if (word == "logit") return GoalKind::logit;
  if (word == "loss") return GoalKind::loss;
  throw BadInput("interventions.goal = " + word + ": logits, logit or loss");
}

namespace {

constexpr Loss plain_loss{};

void require_answers(const Question& question, int count) {
  const auto known = [count](int answer) { return answer >= 0 && answer < count; };
  if (!known(question.a) || (question.kind == GoalKind::logits && !known(question.b)))
    throw BadInput("interventions: there are " + std::to_string(count) + " answers, of which " +
                   std::to_string(question.a) + " and " + std::to_string(question.b) + " are asked for");
}

/// J of a row of logits z; z_bar (if not null) := its derivative.
double goal_of(const Question& question, const double* z, int count, double* z_bar) {
  if (question.kind == GoalKind::loss) return loss_of(plain_loss, z, count, question.a, 1, z_bar);
  if (z_bar != nullptr) {
    std::fill_n(z_bar, count, 0.0);
    z_bar[question.a] += 1;
    if (question.kind == GoalKind::logits) z_bar[question.b] -= 1;
  }
  return question.kind == GoalKind::logits ? z[question.a] - z[question.b] : z[question.a];
}

/// z_bar_dot := (d2J/dz2) z_dot, 0 but for the loss.
void goal_curvature(const Question& question, const double* z, int count, const double* z_dot,
                    double* z_bar_dot) {
  if (question.kind == GoalKind::loss) return loss_curvature(plain_loss, z, count, 1, z_dot, z_bar_dot);
  std::fill_n(z_bar_dot, count, 0.0);
}

class GoalOfClasses final : public Goal {
 public:
  GoalOfClasses(const Parameters& parameters, const SlabContext& context)
      : parameters_(parameters),
        classes_(parameters.spec.classes),
        samples_(context.samples),
        readout_(parameters, context),
        z_(Index{samples_} * classes_),
        z_bar_(z_.size()),
        values_(samples_) {}

  const std::vector<double>& logits() const override { return z_; }

  const std::vector<double>& value(const Question& question, const double* u) override {
    require_answers(question, classes_);
    question_ = question;
    readout_.logits(u, z_.data(), tape_);
    for_samples([&](Index sample, double* z) { values_[sample] = goal_of(question_, z, classes_, nullptr); });
    return values_;
  }

  void pull(double* u_bar) override {
    // u_bar = (dz/du)^T z_bar
    for_samples([&](Index sample, double* z) { goal_of(question_, z, classes_, bar_of(sample)); });
    readout_.adjoint(z_bar_.data(), u_bar, {}, tape_);
  }

  void pull_along(const double* u_dot, double* w_dot) override {
    if (zeros_.empty()) zeros_.assign(parameters_.values.size(), 0.0);
    const ParameterVector direction(parameters_.layout, zeros_);
    std::vector<double> z_dot(z_.size());
    readout_.tangent(direction, u_dot, z_dot.data(), tape_);
    for_samples([&](Index sample, double* z) {
      goal_curvature(question_, z, classes_, z_dot.data() + sample * classes_, bar_of(sample));
    });
    readout_.adjoint_tangent(direction, z_bar_.data(), w_dot, {}, tape_);
  }

 private:
  double* bar_of(Index sample) { return z_bar_.data() + sample * classes_; }
  template <class Visit>
  void for_samples(Visit&& visit) {
    for (Index sample = 0; sample < samples_; ++sample) visit(sample, z_.data() + sample * classes_);
  }

  const Parameters& parameters_;
  int classes_, samples_;
  Readout readout_;
  ReadoutTape tape_;
  Question question_;
  std::vector<double> z_, z_bar_, values_;
  std::vector<double> zeros_;  // a direction in which the parameters do not vary
};

/// z = W g + b of the rows of one token, g = S(x): by the rank that holds the token.
class GoalOfWords final : public Goal {
 public:
  GoalOfWords(const Parameters& parameters, const SlabContext& context)
      : parameters_(parameters),
        context_(context),
        words_(parameters.spec.vocabulary),
        stack_(word_stack(parameters)),
        z_(Index{context.samples} * words_),
        values_(context.samples) {}

  const std::vector<double>& logits() const override { return z_; }

  const std::vector<double>& value(const Question& question, const double* u) override {
    require_answers(question, words_);
    const auto& line = *context_.line;
    if (question.token < 0 || question.token >= line.tokens())
      throw BadInput("interventions.token = " + std::to_string(question.token) + ": a sample has " +
                     std::to_string(line.tokens()) + " tokens");
    for (int sample = 0; sample < context_.samples; ++sample)
      if (!context_.mask.real(sample, question.token))
        throw BadInput("interventions.token = " + std::to_string(question.token) +
                       ": is padding in the sample");
    question_ = question;
    row_.reset();
    for (int t = 0; t < line.block().count(); ++t)
      if (line.global_index(line.rank(), t) == question.token) row_ = Index{t} * context_.row();
    std::ranges::fill(z_, 0.0);
    if (row_) {
      g_.resize(context_.samples, context_.width);
      stack_.forward(context_.samples, u + *row_, g_.data(), tape_);
      Eigen::Map<RowMatrix> z(z_.data(), context_.samples, words_);
      z.noalias() = g_ * matrix().transpose();
      if (parameters_.spec.word_head.bias)
        z.rowwise() += Eigen::Map<const Eigen::RowVectorXd>(parameters_.view("word_head/b").data(), words_);
    }
    // The others add zeros.
    sum_over_ranks(z_, line.comm());
    for (Index sample = 0; sample < context_.samples; ++sample)
      values_[sample] = goal_of(question_, z_.data() + sample * words_, words_, nullptr);
    return values_;
  }

  void pull(double* u_bar) override {
    std::fill_n(u_bar, context_.size(), 0.0);
    if (!row_) return;
    RowMatrix z_bar(context_.samples, words_);
    for (Index sample = 0; sample < context_.samples; ++sample)
      goal_of(question_, z_.data() + sample * words_, words_, z_bar.row(sample).data());
    const RowMatrix g_bar = z_bar * matrix();
    stack_.adjoint(g_bar.data(), u_bar + *row_, {}, tape_);
  }

  void pull_along(const double* u_dot, double* w_dot) override {
    std::fill_n(w_dot, context_.size(), 0.0);
    if (!row_) return;
    if (zeros_.empty()) zeros_.assign(parameters_.values.size(), 0.0);
    const ParameterVector direction(parameters_.layout, zeros_);
    RowMatrix g_dot(context_.samples, context_.width), z_bar_dot(context_.samples, words_);
    stack_.tangent(direction, u_dot + *row_, g_dot.data(), tape_);
    const RowMatrix z_dot = g_dot * matrix().transpose();
    for (Index sample = 0; sample < context_.samples; ++sample)
      goal_curvature(question_, z_.data() + sample * words_, words_, z_dot.row(sample).data(),
                     z_bar_dot.row(sample).data());
    const RowMatrix g_bar_dot = z_bar_dot * matrix();
    stack_.adjoint_tangent(direction, g_bar_dot.data(), w_dot + *row_, {}, tape_);
  }

 private:
  Eigen::Map<const RowMatrix> matrix() const {
    return {parameters_.view(word_matrix_path(parameters_.spec)).data(), words_, context_.width};
  }

  const Parameters& parameters_;
  const SlabContext& context_;
  int words_;
  RowStack stack_;
  RowTape tape_;
  Question question_;
  std::optional<Index> row_;  // offset of the token in the slab, on the rank that holds it
  RowMatrix g_;
  std::vector<double> z_, values_, zeros_;
};

}  // namespace

std::unique_ptr<Goal> make_goal(const Parameters& parameters, const SlabContext& context) {
  if (parameters.spec.guesses_words()) return std::make_unique<GoalOfWords>(parameters, context);
  if (parameters.spec.classes == 0)
    throw BadInput("the model has neither classes nor words to guess, so that an intervention has no goal");
  return std::make_unique<GoalOfClasses>(parameters, context);
}

}  // namespace fluxformer::interventions
