#include "model/embedding.hpp"

#include <Eigen/Core>
#include <string>

#include "base/error.hpp"
#include "base/index.hpp"
#include "operators/kernels/simd.hpp"

namespace fluxformer {
namespace {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Row = Eigen::RowVectorXd;

/// visit(row of the slab, its numbers in `input`, its global token) in slab order [local token][sample].
template <class Visit>
void over_rows(const ModelSpec& spec, const SlabContext& context, const double* input, Visit&& visit) {
  const auto& line = *context.line;
  const Index size = spec.input_size();
  const Index tokens = line.tokens();
  for (int local = 0; local < line.block().count(); ++local) {
    const int token = line.global_index(line.rank(), local);
    for (int sample = 0; sample < context.samples; ++sample)
      visit(local * context.samples + sample, input + (Index{sample} * tokens + token) * size, token);
  }
}

/// The features of the context's rows; 0 for class tokens, which have none.
Matrix gather(const ModelSpec& spec, const SlabContext& context, const double* input) {
  Matrix rows(context.rows(), spec.features);
  over_rows(spec, context, input, [&](int row, const double* from, int token) {
    if (token < spec.class_tokens)
      rows.row(row).setZero();
    else
      rows.row(row) = Eigen::Map<const Row>(from, spec.features);
  });
  return rows;
}

/// The row of a table with `rows` rows that a token names.
Index index_of(double number, int rows, const char* what) {
  if (!(number >= 0 && number < rows))
    throw BadInput("the data have " + std::string(what) + " " + std::to_string(number) + ", the model has " +
                   std::to_string(rows) + " of them, counted from 0");
  return static_cast<Index>(number);
}

}  // namespace

Embedding::Embedding(const Parameters& parameters, const SlabContext& context)
    : parameters_(parameters), context_(context), norm_(parameters, parameters.spec.width) {
  if (parameters.spec.embedding_norm) norm_.add(norm_stage(parameters.spec, "embedding/norm_"));
}

void Embedding::add_up(const ParameterVector& p, const double* input, double* slab) const {
  const auto& spec = parameters_.spec;
  const int d = context_.width;
  Eigen::Map<Matrix> out(slab, context_.rows(), d);
  const auto array = [&](const char* path) { return p.values.data() + p.layout.at(path).offset; };
  if (spec.vocabulary > 0) {
    // s(x) = w(word at x) + g(segment at x)
    const double* const words = array("embedding/words");
    const double* const segments = spec.segments > 0 ? array("embedding/segment") : nullptr;
    over_rows(spec, context_, input, [&](int row, const double* token, int) {
      out.row(row) = Eigen::Map<const Row>(words + index_of(token[0], spec.vocabulary, "word") * d, d);
      if (segments != nullptr)
        out.row(row) += Eigen::Map<const Row>(segments + index_of(token[1], spec.segments, "segment") * d, d);
    });
  } else {
    // s(x) = W_E f(x) + b_E, or the class tokens c(x) at the first x
    out.noalias() = gather(spec, context_, input) *
                    Eigen::Map<const Matrix>(array("embedding/W"), d, spec.features).transpose();
    const Eigen::Map<const Row> bias(array("embedding/b"), d);
    const double* const front = spec.class_tokens > 0 ? array("embedding/class_token") : nullptr;
    over_rows(spec, context_, input, [&](int row, const double*, int token) {
      if (token < spec.class_tokens)
        out.row(row) = Eigen::Map<const Row>(front + Index{token} * d, d);
      else
        out.row(row) += bias;
    });
  }
  if (spec.tokens == 0) return;
  // s(x) += p(x)
  const Eigen::Map<const Matrix> position(array("embedding/position"), spec.tokens, d);
  const auto& line = *context_.line;
  for (int local = 0; local < line.block().count(); ++local)
    out.middleRows(local * context_.samples, context_.samples).rowwise() +=
        position.row(line.global_index(line.rank(), local));
}

void Embedding::add_up_adjoint(const double* input, const double* slab_bar,
                               std::span<double> gradient) const {
  const auto& spec = parameters_.spec;
  const int d = context_.width;
  const Index width = d, samples = context_.samples;
  const Eigen::Map<const Matrix> bar(slab_bar, context_.rows(), d);
  const auto at = [&](const char* path) { return gradient.data() + parameters_.layout.at(path).offset; };
  if (spec.vocabulary > 0) {
    // A row of a table collects the adjoints of all tokens that name it.
    double* const words = at("embedding/words");
    double* const segments = spec.segments > 0 ? at("embedding/segment") : nullptr;
    over_rows(spec, context_, input, [&](int row, const double* token, int) {
      Eigen::Map<Row>(words + static_cast<Index>(token[0]) * d, d) += bar.row(row);
      if (segments != nullptr)
        Eigen::Map<Row>(segments + static_cast<Index>(token[1]) * d, d) += bar.row(row);
    });
  } else {
    // W_bar += s_bar^T f,  b_bar += sum_x s_bar(x)
    Eigen::Map<Matrix>(at("embedding/W"), d, spec.features).noalias() +=
        bar.transpose() * gather(spec, context_, input);
    // Class tokens have no features: c_bar(x) += the sum over the samples of s_bar(x).
    // (Eigen's colwise().sum() adds in an order that depends on where the sums lie in memory.)
    const auto& line = *context_.line;
    int local = 0;
    for (; local < line.block().count(); ++local) {
      const Index token = line.global_index(line.rank(), local);
      if (token >= spec.class_tokens) break;
      simd::add_rows(slab_bar + local * samples * width, samples, width,
                     at("embedding/class_token") + token * width);
    }
    const Index skipped = local * samples;
    simd::add_rows(slab_bar + skipped * width, context_.rows() - skipped, width, at("embedding/b"));
  }
  if (spec.tokens == 0) return;
  const auto& line = *context_.line;
  // p_bar(x) += the sum over the samples of s_bar(x)
  for (int local = 0; local < line.block().count(); ++local)
    simd::add_rows(slab_bar + Index{local} * samples * width, samples, width,
                   at("embedding/position") + Index{line.global_index(line.rank(), local)} * width);
}

void Embedding::forward(const double* input, double* slab, EmbeddingTape& tape) const {
  // u_0 = s, or N(s) for a model with a LayerNorm behind the embedding
  if (norm_.empty()) return add_up(parameters_, input, slab);
  std::vector<double> sum(context_.size());
  add_up(parameters_, input, sum.data());
  norm_.forward(context_.rows(), sum.data(), slab, tape.norm);
}

void Embedding::adjoint(const double* input, const double* slab_bar, std::span<double> gradient,
                        EmbeddingTape& tape) const {
  // gradient += (ds/dtheta)^T N'(s)^T slab_bar, and the share of the gain and bias of N
  if (norm_.empty()) return add_up_adjoint(input, slab_bar, gradient);
  std::vector<double> sum_bar(context_.size());
  norm_.adjoint(slab_bar, sum_bar.data(), gradient, tape.norm);
  add_up_adjoint(input, sum_bar.data(), gradient);
}

void Embedding::pull(const double* input, const double* slab_bar, std::span<double> gradient,
                     const EmbeddingTape& tape) const {
  if (norm_.empty()) return add_up_adjoint(input, slab_bar, gradient);
  std::vector<double> sum_bar(context_.size());
  norm_.pull(slab_bar, sum_bar.data(), gradient, tape.norm);
  add_up_adjoint(input, sum_bar.data(), gradient);
}

void Embedding::tangent(const ParameterVector& direction, const double* input, double* slab_dot,
                        EmbeddingTape& tape) const {
  // s is linear in its arrays: s_dot is s with the arrays of the direction.
  if (norm_.empty()) return add_up(direction, input, slab_dot);
  std::vector<double> sum_dot(context_.size());
  add_up(direction, input, sum_dot.data());
  norm_.tangent(direction, sum_dot.data(), slab_dot, tape.norm);
}

void Embedding::adjoint_tangent(const ParameterVector& direction, const double* input,
                                const double* slab_bar_dot, std::span<double> gradient_dot,
                                const EmbeddingTape& tape) const {
  // No second derivative of s itself.
  if (norm_.empty()) return add_up_adjoint(input, slab_bar_dot, gradient_dot);
  std::vector<double> sum_bar_dot(context_.size());
  norm_.adjoint_tangent(direction, slab_bar_dot, sum_bar_dot.data(), gradient_dot, tape.norm);
  add_up_adjoint(input, sum_bar_dot.data(), gradient_dot);
}

void embed(const Parameters& parameters, const SlabContext& context, const double* input, double* slab) {
  EmbeddingTape tape;
  Embedding(parameters, context).forward(input, slab, tape);
}

}  // namespace fluxformer
