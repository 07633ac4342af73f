#include "model/embedding.hpp"

#include <Eigen/Core>

namespace fluxformer {
namespace {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// The features of the context's rows, in slab order [local token][sample].
Matrix gather(const Parameters& parameters, const SlabContext& context, const double* input) {
  const auto& line = *context.line;
  const std::size_t features = static_cast<std::size_t>(parameters.spec.features);
  const std::size_t tokens = static_cast<std::size_t>(line.tokens());
  Matrix rows(context.rows(), parameters.spec.features);
  for (int local = 0; local < line.block().count(); ++local) {
    const std::size_t token = static_cast<std::size_t>(line.global_index(line.rank(), local));
    for (int sample = 0; sample < context.samples; ++sample) {
      const double* from = input + (static_cast<std::size_t>(sample) * tokens + token) * features;
      rows.row(local * context.samples + sample) =
          Eigen::Map<const Eigen::RowVectorXd>(from, parameters.spec.features);
    }
  }
  return rows;
}

}  // namespace

void embed(const Parameters& parameters, const SlabContext& context, const double* input, double* slab) {
  const int d = context.width;
  Eigen::Map<Matrix> out(slab, context.rows(), d);
  const auto w = parameters.view("embedding/W");
  const auto b = parameters.view("embedding/b");
  out.noalias() = gather(parameters, context, input) *
                  Eigen::Map<const Matrix>(w.data(), d, parameters.spec.features).transpose();
  out.rowwise() += Eigen::Map<const Eigen::RowVectorXd>(b.data(), d);
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
  Eigen::Map<Matrix>(at("embedding/W"), d, parameters.spec.features).noalias() +=
      bar.transpose() * gather(parameters, context, input);
  Eigen::Map<Eigen::RowVectorXd>(at("embedding/b"), d) += bar.colwise().sum();
  if (parameters.spec.tokens == 0) return;
  Eigen::Map<Matrix> position(at("embedding/position"), parameters.spec.tokens, d);
  const auto& line = *context.line;
  for (int local = 0; local < line.block().count(); ++local)
    position.row(line.global_index(line.rank(), local)) +=
        bar.middleRows(local * context.samples, context.samples).colwise().sum();
}

}  // namespace fluxformer
