#include "model/tasks/word_task.hpp"

#include <Eigen/Core>
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <type_traits>
#include <utility>

#include "base/error.hpp"
#include "base/mpi.hpp"
#include "operators/kernels/product.hpp"
#include "operators/kernels/simd.hpp"
#include "operators/kernels/vector_math.hpp"

namespace fluxformer {

RowStack word_stack(const Parameters& parameters) {
  const auto& spec = parameters.spec;
  if (!spec.word_head.present) throw BadInput("the model has no word head to guess words with");
  RowStack stack(parameters, spec.width);
  if (spec.has_final_norm()) stack.add(norm_stage(spec, "final_norm/"));
  stack.add(spec.word_head.transform, "word_head");
  return stack;
}

const char* word_matrix_path(const ModelSpec& spec) {
  return spec.word_head.own_matrix ? "word_head/W" : "embedding/words";
}

namespace {

/// A row-major matrix, as the weights are stored.
template <class Real>
using MatrixOf = Eigen::Matrix<Real, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Matrix = MatrixOf<double>;
using Rows = Eigen::Map<Matrix>;
using ConstRows = Eigen::Map<const Matrix>;

/// A matrix in the arithmetic of a product: itself in double, a copy in float.
template <class Real>
auto in_arithmetic(const ConstRows& x) {
  if constexpr (std::is_same_v<Real, double>)
    return x;
  else
    return MatrixOf<Real>(x.cast<Real>());
}

constexpr std::size_t group = 128;  // targets at a time: enough for fast products, few logits

/// z := softmax(z); returns log(sum(exp(z))).
template <class Real>
double to_probabilities(Real* z, Index words) {
  // p = exp(z - top) / sum; log(sum exp z) = top + log(sum)
  const Real top = *std::max_element(z, z + words);
  exp_shifted(z, words, top);
  const Real sum = simd::sum_over<Real>(words, [z](auto at) { return at(z); });
  for (Index c = 0; c < words; ++c) z[c] /= sum;
  return static_cast<double>(top) + std::log(static_cast<double>(sum));
}

}  // namespace

/// The task of a model with a word head.
class WordTask final : public Task {
 public:
  WordTask(const Parameters& parameters, const SlabContext& context, const Loss& loss, Precision precision);
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
  /// The loss of all targets, summed over the ranks of the line, with W in the arithmetic of the products. Calls
  /// visit(first, g, probabilities) for one group of targets after the other.
  template <class Real, class Words, class Visit>
  Evaluation guess(Tape& tape, const Words& weights, Visit&& visit) const;
  /// The loss and its gradient in these rows g, and in W and b.
  template <class Real>
  Evaluation pull(Tape& tape, std::vector<double>& g_bar, std::span<double> gradient) const;
  /// The word matrix W among the values of `p`, which are parameters or a direction of them.
  ConstRows matrix_of(const ParameterVector& p) const;
  /// z += the bias among the values of `p`, or among those of a direction; nothing without a bias.
  template <class Real>
  void add_bias(const ParameterVector& p, MatrixOf<Real>& z) const;
  /// The gradient of the bias += the sum of the rows of z_bar.
  template <class Real>
  void add_to_bias(const MatrixOf<Real>& z_bar, std::span<double> gradient) const;

  const Parameters& parameters_;
  const SlabContext& context_;
  Loss loss_;
  bool single_;                // products with W, of the loss and its gradient, are in float
  Index matrix_;               // offset of W
  std::optional<Index> bias_;  // offset of b
  RowStack stack_;
};

struct WordTask::Tape final : TaskTape {
  std::vector<Target> targets;
  RowTape rows;
  std::vector<double> g, g_dot;  // [target][channel]
};

WordTask::WordTask(const Parameters& parameters, const SlabContext& context, const Loss& loss,
                   Precision precision)
    : parameters_(parameters),
      context_(context),
      loss_(loss),
      single_(precision != Precision::float64),
      stack_(word_stack(parameters)) {
  const auto& spec = parameters.spec;
  if (loss.kind != LossKind::cross_entropy)
    throw BadInput("train.loss: words are trained with cross_entropy");
  matrix_ = parameters.layout.at(word_matrix_path(spec)).offset;
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

template <class Real>
void WordTask::add_bias(const ParameterVector& p, MatrixOf<Real>& z) const {
  if (bias_)
    z.rowwise() +=
        Eigen::Map<const Eigen::RowVectorXd>(p.values.data() + *bias_, z.cols()).template cast<Real>();
}

template <class Real>
void WordTask::add_to_bias(const MatrixOf<Real>& z_bar, std::span<double> gradient) const {
  if (!bias_) return;
  std::vector<Real> sum(z_bar.cols());
  simd::add_rows(z_bar.data(), z_bar.rows(), z_bar.cols(), sum.data());
  for (Index c = 0; c < z_bar.cols(); ++c) gradient[*bias_ + c] += sum[c];
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

template <class Real>
WordValue value_of(Real* z, Index words, int word, double smoothing) {
  const Index right = word;
  const bool correct = std::max_element(z, z + words) - z == right;
  // q . z; the loss is log(sum exp z) - q . z
  double expected = (1 - smoothing) * z[right];
  if (smoothing > 0)
    expected += smoothing / words * simd::sum_over<Real>(words, [z](auto at) { return at(z); });
  return {to_probabilities(z, words) - expected, correct};
}

/// p := weight (p - q)
template <class Real>
void to_adjoint(Real* p, Index words, int word, double smoothing, double weight) {
  const auto rest = static_cast<Real>(smoothing / words), share = static_cast<Real>(weight);
  for (Index c = 0; c < words; ++c) p[c] = share * (p[c] - rest);
  p[word] -= static_cast<Real>(weight * (1 - smoothing));
}

}  // namespace

template <class Real, class Words, class Visit>
Evaluation WordTask::guess(Tape& tape, const Words& weights, Visit&& visit) const {
  const int words = parameters_.spec.vocabulary;
  double loss = 0, correct = 0;
  MatrixOf<Real> z;
  in_groups(tape, [&](Eigen::Index first, Eigen::Index count) {
    const auto g =
        in_arithmetic<Real>(ConstRows(tape.g.data() + first * context_.width, count, context_.width));
    // z = g W^T + b
    z.noalias() = g * weights.transpose();
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
  const auto nothing = [](Eigen::Index, const auto&, const auto&) {};
  const auto weights = matrix_of(parameters_);
  return single_ ? guess<float>(tape, in_arithmetic<float>(weights), nothing)
                 : guess<double>(tape, weights, nothing);
}

template <class Real>
Evaluation WordTask::pull(Tape& tape, std::vector<double>& g_bar, std::span<double> gradient) const {
  const int d = context_.width, words = parameters_.spec.vocabulary;
  const auto weights = in_arithmetic<Real>(matrix_of(parameters_));
  Rows weights_bar(gradient.data() + matrix_, words, d);
  MatrixOf<Real> sum;  // of this batch, in float
  if constexpr (!std::is_same_v<Real, double>) sum.setZero(words, d);
  // guess turns the logits z into p in place; z_bar = weight (p - q) then takes the place of p.
  const auto result = guess<Real>(tape, weights, [&](Eigen::Index first, const auto& g, auto& z) {
    for (Eigen::Index k = 0; k < g.rows(); ++k) {
      const auto& target = tape.targets[first + k];
      to_adjoint(z.row(k).data(), words, target.word, loss_.smoothing, target.weight);
    }
    // z_bar = weight (p - q):  g_bar = z_bar W,  W_bar += z_bar^T g,  b_bar += sum of the rows of z_bar
    Rows rows(g_bar.data() + first * d, g.rows(), d);
    if constexpr (std::is_same_v<Real, double>) {
      rows.noalias() = z * weights;
      weights_bar.noalias() += z.transpose() * g;
    } else {
      const MatrixOf<Real> product = z * weights;
      rows = product.template cast<double>();
      sum.noalias() += z.transpose() * g;
    }
    add_to_bias(z, gradient);
  });
  if constexpr (!std::is_same_v<Real, double>) weights_bar += sum.template cast<double>();
  return result;
}

Evaluation WordTask::gradient(const Batch& batch, const double* u, double* u_bar, std::span<double> gradient,
                              TaskTape& kept, KeepFor keep_for) {
  auto& tape = dynamic_cast<Tape&>(kept);
  read(batch, u, tape);
  std::vector<double> g_bar(tape.g.size()), x_bar(tape.g.size());
  const auto result = single_ ? pull<float>(tape, g_bar, gradient) : pull<double>(tape, g_bar, gradient);
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
                                     const Loss& loss, Precision precision) {
  return std::make_unique<WordTask>(parameters, context, loss, precision);
}

WordLogits::WordLogits(const Parameters& parameters, Precision precision)
    : parameters_(parameters), stack_(word_stack(parameters)) {
  const auto weights = parameters.view(word_matrix_path(parameters.spec));
  if (precision != Precision::float64) single_.assign(weights.begin(), weights.end());
}

void WordLogits::operator()(int rows, const double* x, double* z) const {
  const auto& spec = parameters_.spec;
  const Index width = spec.width, words = spec.vocabulary;
  Matrix g(rows, width);
  RowTape tape;
  stack_.forward(rows, x, g.data(), tape);
  // z = g W^T + b
  Rows to(z, rows, words);
  if (single_.empty()) {
    set_product(to, g, row_major(parameters_.view(word_matrix_path(spec)).data(), words, width).transpose());
  } else {
    const MatrixOf<float> rounded = g.cast<float>();
    MatrixOf<float> product(rows, words);
    set_product(product, rounded, row_major(single_.data(), words, width).transpose());
    to = product.cast<double>();
  }
  if (spec.word_head.bias)
    to.rowwise() += Eigen::Map<const Eigen::RowVectorXd>(parameters_.view("word_head/b").data(), words);
}

}  // namespace fluxformer
