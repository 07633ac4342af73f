#include "model/embedding.hpp"

#include <Eigen/Core>

#include "operators/kernels/simd.hpp"

namespace fluxformer {
namespace {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Row = Eigen::RowVectorXd;

/// visit(row of the slab, its numbers in `input`) in slab order [local token][sample].
template <class Visit>
void over_rows(const Parameters& parameters, const SlabContext& context, const double* input, Visit&& visit) {
  const auto& line = *context.line;
  const auto size = static_cast<std::size_t>(parameters.spec.input_size());
  const auto tokens = static_cast<std::size_t>(line.tokens());
  for (int local = 0; local < line.block().count(); ++local) {
    const auto token = static_cast<std::size_t>(line.global_index(line.rank(), local));
    for (int sample = 0; sample < context.samples; ++sample)
      visit(local * context.samples + sample,
            input + (static_cast<std::size_t>(sample) * tokens + token) * size);
  }
}

/// The features of the context's rows.
Matrix gather(const Parameters& parameters, const SlabContext& context, const double* input) {
  Matrix rows(context.rows(), parameters.spec.features);
  over_rows(parameters, context, input, [&](int row, const double* from) {
    rows.row(row) = Eigen::Map<const Row>(from, parameters.spec.features);
  });
  return rows;
}

}  // namespace

void embed(const Parameters& parameters, const SlabContext& context, const double* input, double* slab) {
  const int d = context.width;
  Eigen::Map<Matrix> out(slab, context.rows(), d);
  if (parameters.spec.vocabulary > 0) {
    const double* const table = parameters.view("embedding/words").data();
    over_rows(parameters, context, input, [&](int row, const double* word) {
      out.row(row) = Eigen::Map<const Row>(table + static_cast<std::ptrdiff_t>(*word) * d, d);
    });
  } else {
    const auto w = parameters.view("embedding/W");
    const auto b = parameters.view("embedding/b");
    out.noalias() = gather(parameters, context, input) *
                    Eigen::Map<const Matrix>(w.data(), d, parameters.spec.features).transpose();
    out.rowwise() += Eigen::Map<const Row>(b.data(), d);
  }
  if (parameters.spec.tokens == 0) return;
  const auto p = parameters.view("embedding/position");
  const Eigen::Map<const Matrix> position(p.data(), parameters.spec.tokens, d);
  const auto& line = *context.line;
  for (int local = 0; local < line.block().count(); ++local)
    out.middleRows(local * context.samples, context.samples).rowwise() +=
        position.row(line.global_index(line.rank(), local));
}

void embed_adjoint(const Parameters& parameters, const SlabContext& context, const double* input,
                   const double* slab_bar, std::span<double> gradient) {
  const int d = context.width;
  const Eigen::Map<const Matrix> bar(slab_bar, context.rows(), d);
  const auto at = [&](const char* path) { return gradient.data() + parameters.layout.at(path).offset; };
  if (parameters.spec.vocabulary > 0) {
    double* const table = at("embedding/words");
    over_rows(parameters, context, input, [&](int row, const double* word) {
      Eigen::Map<Row>(table + static_cast<std::ptrdiff_t>(*word) * d, d) += bar.row(row);
    });
  } else {
    Eigen::Map<Matrix>(at("embedding/W"), d, parameters.spec.features).noalias() +=
        bar.transpose() * gather(parameters, context, input);
    // (Eigen's colwise().sum() adds in an order that depends on where the sums lie in memory.)
    simd::add_rows(slab_bar, static_cast<std::size_t>(context.rows()), static_cast<std::size_t>(d),
                   at("embedding/b"));
  }
  if (parameters.spec.tokens == 0) return;
  const auto& line = *context.line;
  const auto width = static_cast<std::size_t>(d), samples = static_cast<std::size_t>(context.samples);
  for (int local = 0; local < line.block().count(); ++local)
    simd::add_rows(
        slab_bar + static_cast<std::size_t>(local) * samples * width, samples, width,
        at("embedding/position") + static_cast<std::size_t>(line.global_index(line.rank(), local)) * width);
}

}  // namespace fluxformer
