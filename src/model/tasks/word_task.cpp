#include "model/tasks/word_task.hpp"

#include <Eigen/Core>
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "base/error.hpp"
#include "base/mpi.hpp"
#include "model/row_stack.hpp"
#include "operators/kernels/simd.hpp"
#include "operators/kernels/vector_math.hpp"

namespace fluxformer {
namespace {

/// A row-major matrix, as the weights are stored.
using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Rows = Eigen::Map<Matrix>;
using ConstRows = Eigen::Map<const Matrix>;

/// The stack from rows of the last state to those in front of the word matrix. Throws BadInput without a word
/// head.
RowStack stack_of(const Parameters& parameters) {
  const auto& spec = parameters.spec;
  if (!spec.word_head.present) throw BadInput("the model has no word head to guess words with");
  RowStack stack(parameters, spec.width);
  if (spec.has_final_norm()) stack.add(norm_stage(spec, "final_norm/"));
  stack.add(spec.word_head.transform, "word_head");
  return stack;
}

const char* matrix_path(const ModelSpec& spec) {
  return spec.word_head.own_matrix ? "word_head/W" : "embedding/words";
}

constexpr std::size_t group = 128;  // targets at a time: enough for fast products, few logits

/// z := softmax(z); returns log(sum(exp(z))).
double to_probabilities(double* z, Index words) {
  // p = exp(z - top) / sum; log(sum exp z) = top + log(sum)
  const double top = *std::max_element(z, z + words);
  exp_shifted(z, words, top);
  const double sum = simd::sum_over<double>(words, [z](auto at) { return at(z); });
  for (Index c = 0; c < words; ++c) z[c] /= sum;
  return top + std::log(sum);
}

}  // namespace

/// The task of a model with a word head.
class WordTask final : public Task {
 public:
  WordTask(const Parameters& parameters, const SlabContext& context, const Loss& loss);
  std::unique_ptr<TaskTape> make_tape() const override;
  Evaluation value(const Batch& batch, const double* u, TaskTape& tape) override;
  Evaluation gradient(const Batch& batch, const double* u, double* u_bar, std::span<double> gradient,
                      TaskTape& tape, KeepFor keep_for) override;
  void product(Curvature part, const Batch& batch, const ParameterVector& direction, const double* u_dot,
               double* u_bar_dot, std::span<double> product, TaskTape& tape) override;
  int outputs() const override;
  void pull_output(const Batch& batch, Index sample, int c, double* u_bar, std::span<double> gradient,
                   const TaskTape& tape) override;

 private:
  /// A word to guess whose token this rank holds.
  struct Target {
    Index row;  ///< row of the slab
    int word;
    double weight;
  };
  struct Tape;
  /// Puts the targets of this rank, and g of their rows, on the tape.
  void read(const Batch& batch, const double* u, Tape& tape);
  /// slab := the rows of the targets, 0 elsewhere.
  void scatter(const Tape& tape, const std::vector<double>& rows, double* slab) const;
  /// The rows of the targets out of a slab, [target][channel].
  std::vector<double> gather(const Tape& tape, const double* slab) const;
  /// Calls visit(first, count) for groups of targets.
  template <class Visit>
  void in_groups(const Tape& tape, Visit&& visit) const;
  /// The loss of all targets, summed over the ranks of the line. Calls visit(first, g, probabilities) for one
  /// group of targets after the other.
  template <class Visit>
  Evaluation guess(Tape& tape, Visit&& visit) const;
  /// The word matrix W among the values of `p`, which are parameters or a direction of them.
  ConstRows matrix_of(const ParameterVector& p) const;
  /// z += the bias among the values of `p`, or among those of a direction; nothing without a bias.
  void add_bias(const ParameterVector& p, Matrix& z) const;
  /// The gradient of the bias += the sum of the rows of z_bar.
  void add_to_bias(const Matrix& z_bar, std::span<double> gradient) const;

  const Parameters& parameters_;
  const SlabContext& context_;
  Loss loss_;
  Index matrix_;               // offset of W
  std::optional<Index> bias_;  // offset of b
  RowStack stack_;
};

struct WordTask::Tape final : TaskTape {
  std::vector<Target> targets;
  RowTape rows;
  std::vector<double> g, g_dot;  // [target][channel]
};

WordTask::WordTask(const Parameters& parameters, const SlabContext& context, const Loss& loss)
    : parameters_(parameters), context_(context), loss_(loss), stack_(stack_of(parameters)) {
  const auto& spec = parameters.spec;
  if (loss.kind != LossKind::cross_entropy)
    throw BadInput("train.loss: words are trained with cross_entropy");
  matrix_ = parameters.layout.at(matrix_path(spec)).offset;
  if (spec.word_head.bias) bias_ = parameters.layout.at("word_head/b").offset;
}

std::unique_ptr<TaskTape> WordTask::make_tape() const {
  return std::make_unique<Tape>();
}

void WordTask::read(const Batch& batch, const double* u, Tape& tape) {
  const auto& line = *context_.line;
  // The local number of each token of the line, -1 on other ranks: a rank guesses the words of its tokens.
  std::vector<int> local(line.tokens(), -1);
  for (int token = 0; token < line.block().count(); ++token)
    local[line.global_index(line.rank(), token)] = token;
  tape.targets.clear();
  for (const auto& target : batch.targets) {
    const int token = local[target.token];
    if (token < 0) continue;
    tape.targets.push_back({token * context_.samples + target.sample, target.word, target.weight});
  }
  const auto x = gather(tape, u);
  tape.g.resize(x.size());
  stack_.forward(tape.targets.size(), x.data(), tape.g.data(), tape.rows);
}

std::vector<double> WordTask::gather(const Tape& tape, const double* slab) const {
  const Index width = context_.width;
  std::vector<double> rows(tape.targets.size() * width);
  for (Index k = 0; k < std::ssize(tape.targets); ++k)
    std::copy_n(slab + tape.targets[k].row * width, width, rows.begin() + k * width);
  return rows;
}

ConstRows WordTask::matrix_of(const ParameterVector& p) const {
  return {p.values.data() + matrix_, parameters_.spec.vocabulary, parameters_.spec.width};
}

void WordTask::add_bias(const ParameterVector& p, Matrix& z) const {
  if (bias_) z.rowwise() += Eigen::Map<const Eigen::RowVectorXd>(p.values.data() + *bias_, z.cols());
}

void WordTask::add_to_bias(const Matrix& z_bar, std::span<double> gradient) const {
  if (bias_) simd::add_rows(z_bar.data(), z_bar.rows(), z_bar.cols(), gradient.data() + *bias_);
}

void WordTask::scatter(const Tape& tape, const std::vector<double>& rows, double* slab) const {
  const Index width = context_.width;
  // The transpose of gather: rows of the slab without a target get 0.
  std::fill_n(slab, context_.size(), 0.0);
  for (Index k = 0; k < std::ssize(tape.targets); ++k)
    std::copy_n(rows.begin() + k * width, width, slab + tape.targets[k].row * width);
}

template <class Visit>
void WordTask::in_groups(const Tape& tape, Visit&& visit) const {
  for (Index first = 0; first < std::ssize(tape.targets); first += group)
    visit(first, std::min(group, tape.targets.size() - first));
}

namespace {

/// The value of a row of logits z, which become probabilities p. With q = (1 - smoothing) onehot + smoothing
/// / V it is log(sum exp z) - q . z.
struct WordValue {
  double loss;
  bool correct;
};

WordValue value_of(double* z, Index words, int word, double smoothing) {
  const Index right = word;
  const bool correct = std::max_element(z, z + words) - z == right;
  // q . z; the loss is log(sum exp z) - q . z
  double expected = (1 - smoothing) * z[right];
  if (smoothing > 0)
    expected += smoothing / words * simd::sum_over<double>(words, [z](auto at) { return at(z); });
  return {to_probabilities(z, words) - expected, correct};
}

/// p := weight (p - q)
void to_adjoint(double* p, Index words, int word, double smoothing, double weight) {
  const double rest = smoothing / words;
  for (Index c = 0; c < words; ++c) p[c] = weight * (p[c] - rest);
  p[word] -= weight * (1 - smoothing);
}

}  // namespace

template <class Visit>
Evaluation WordTask::guess(Tape& tape, Visit&& visit) const {
  const int words = parameters_.spec.vocabulary;
  double loss = 0, correct = 0;
  Matrix z;
  in_groups(tape, [&](Eigen::Index first, Eigen::Index count) {
    const ConstRows g(tape.g.data() + first * context_.width, count, context_.width);
    // z = g W^T + b
    z.noalias() = g * matrix_of(parameters_).transpose();
    add_bias(parameters_, z);
    for (Eigen::Index k = 0; k < count; ++k) {
      const auto& target = tape.targets[first + k];
      const auto value = value_of(z.row(k).data(), words, target.word, loss_.smoothing);
      loss += target.weight * value.loss;
      if (value.correct) correct += target.weight;
    }
    visit(first, g, z);
  });
  std::array<double, 2> sums{loss, correct};
  sum_over_ranks(sums, context_.line->comm());
  return {.loss = sums[0], .correct = sums[1]};
}

Evaluation WordTask::value(const Batch& batch, const double* u, TaskTape& kept) {
  auto& tape = dynamic_cast<Tape&>(kept);
  read(batch, u, tape);
  return guess(tape, [](Eigen::Index, const auto&, const auto&) {});
}

Evaluation WordTask::gradient(const Batch& batch, const double* u, double* u_bar, std::span<double> gradient,
                              TaskTape& kept, KeepFor keep_for) {
  auto& tape = dynamic_cast<Tape&>(kept);
  read(batch, u, tape);
  const int d = context_.width, words = parameters_.spec.vocabulary;
  Rows weights_bar(gradient.data() + matrix_, words, d);
  std::vector<double> g_bar(tape.g.size());
  // guess turns the logits z into p in place; z_bar = weight (p - q) then takes the place of p.
  const auto result = guess(tape, [&](Eigen::Index first, const ConstRows& g, Matrix& z) {
    for (Eigen::Index k = 0; k < g.rows(); ++k) {
      const auto& target = tape.targets[first + k];
      to_adjoint(z.row(k).data(), words, target.word, loss_.smoothing, target.weight);
    }
    // z_bar = weight (p - q):  g_bar = z_bar W,  W_bar += z_bar^T g,  b_bar += sum of the rows of z_bar
    Rows(g_bar.data() + first * d, g.rows(), d).noalias() = z * matrix_of(parameters_);
    weights_bar.noalias() += z.transpose() * g;
    add_to_bias(z, gradient);
  });
  std::vector<double> x_bar(g_bar.size());
  if (keep_for == KeepFor::products)
    stack_.adjoint(g_bar.data(), x_bar.data(), gradient, tape.rows);
  else
    stack_.pull(g_bar.data(), x_bar.data(), gradient, tape.rows);
  scatter(tape, x_bar, u_bar);
  return result;
}

// With p = softmax(z), the loss has the derivative p - q and the curvature L = diag(p) - p p^T:
//   z_dot = g_dot W^T + g W_dot^T + b_dot,   z_bar_dot = weight L z_dot
//   g_bar_dot = z_bar_dot W + z_bar W_dot,   W_bar_dot = z_bar_dot^T g + z_bar^T g_dot
// of which the Gauss-Newton part has those without z_bar.
void WordTask::product(Curvature part, const Batch&, const ParameterVector& direction, const double* u_dot,
                       double* u_bar_dot, std::span<double> product, TaskTape& kept) {
  auto& tape = dynamic_cast<Tape&>(kept);
  const auto x_dot = gather(tape, u_dot);
  tape.g_dot.resize(tape.g.size());
  stack_.tangent(direction, x_dot.data(), tape.g_dot.data(), tape.rows);
  const int d = context_.width, words = parameters_.spec.vocabulary;
  const Index count_of = words;
  const auto weights = matrix_of(parameters_), weights_dot = matrix_of(direction);
  Rows weights_bar_dot(product.data() + matrix_, words, d);
  std::vector<double> g_bar_dot(tape.g.size());
  Matrix z, z_dot;
  in_groups(tape, [&](Eigen::Index first, Eigen::Index count) {
    const ConstRows g(tape.g.data() + first * d, count, d), g_dot(tape.g_dot.data() + first * d, count, d);
    z.noalias() = g * weights.transpose();
    add_bias(parameters_, z);
    z_dot.noalias() = g_dot * weights.transpose();
    z_dot.noalias() += g * weights_dot.transpose();
    add_bias(direction, z_dot);
    for (Eigen::Index k = 0; k < count; ++k) {
      const auto& target = tape.targets[first + k];
      double *const p = z.row(k).data(), *const along = z_dot.row(k).data();
      to_probabilities(p, count_of);
      const double mean = simd::sum_over<double>(count_of, [p, along](auto at) { return at(p) * at(along); });
      // z_bar_dot = weight p (z_dot - p . z_dot)
      for (Index c = 0; c < count_of; ++c) along[c] = target.weight * p[c] * (along[c] - mean);
      to_adjoint(p, count_of, target.word, loss_.smoothing, target.weight);
    }
    Rows g_bar(g_bar_dot.data() + first * d, count, d);
    g_bar.noalias() = z_dot * weights;
    weights_bar_dot.noalias() += z_dot.transpose() * g;
    add_to_bias(z_dot, product);
    if (part == Curvature::gauss_newton) return;
    g_bar.noalias() += z * weights_dot;
    weights_bar_dot.noalias() += z.transpose() * g_dot;
  });
  std::vector<double> x_bar_dot(g_bar_dot.size());
  if (part == Curvature::hessian)
    stack_.adjoint_tangent(direction, g_bar_dot.data(), x_bar_dot.data(), product, tape.rows);
  else
    stack_.pull(g_bar_dot.data(), x_bar_dot.data(), product, tape.rows);
  scatter(tape, x_bar_dot, u_bar_dot);
}

int WordTask::outputs() const {
  throw BadInput(
      "the exact Gauss-Newton part takes a gradient for each word of the vocabulary at each word to guess, "
      "which are too many; products with it need none of them");
}

void WordTask::pull_output(const Batch&, Index, int, double*, std::span<double>, const TaskTape&) {
  outputs();
}

std::unique_ptr<Task> make_word_task(const Parameters& parameters, const SlabContext& context,
                                     const Loss& loss) {
  return std::make_unique<WordTask>(parameters, context, loss);
}

void word_logits(const Parameters& parameters, int rows, const double* x, double* z) {
  auto stack = stack_of(parameters);
  stack.add(dense_stage(parameters.layout, matrix_path(parameters.spec), "word_head/b"));
  RowTape tape;
  stack.forward(rows, x, z, tape);
}

}  // namespace fluxformer
