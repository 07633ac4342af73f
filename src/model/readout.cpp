#include "model/readout.hpp"

#include <Eigen/Core>
#include <algorithm>

#include "base/error.hpp"
#include "base/reductions.hpp"
#include "operators/kernels/simd.hpp"
#include "operators/layer_norm.hpp"

namespace fluxformer {
namespace {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Row = Eigen::RowVectorXd;

}  // namespace

Readout::Readout(const Parameters& parameters, const SlabContext& context)
    : parameters_(parameters), context_(context), layer_norm_(parameters.layout.has("final_norm/gain")) {}

int Readout::length(int sample) const {
  const auto& mask = context_.mask.length;
  return mask.empty() ? context_.line->tokens() : mask[static_cast<std::size_t>(sample)];
}

template <class Body>
void Readout::over_real_rows(Body&& body) const {
  const auto& line = *context_.line;
  for (int local = 0; local < line.block().count(); ++local) {
    const int token = line.global_index(line.rank(), local);
    for (int sample = 0; sample < context_.samples; ++sample)
      if (token < length(sample)) body(local * context_.samples + sample, sample);
  }
}

void Readout::logits(const double* u, double* logits) {
  const int d = context_.width, samples = context_.samples, classes = parameters_.spec.classes;
  const auto width = static_cast<std::size_t>(d);
  const double* from = u;
  if (layer_norm_) {
    normal_.resize(context_.size());
    layer_norm<double>(u, width, context_.rows(), d, parameters_.view("final_norm/gain").data(),
                       parameters_.view("final_norm/bias").data(), normal_.data(), width);
    from = normal_.data();
  }
  pooled_.assign(static_cast<std::size_t>(samples) * width, 0.0);
  Eigen::Map<Matrix> pooled(pooled_.data(), samples, d);
  const Eigen::Map<const Matrix> rows(from, context_.rows(), d);
  over_real_rows([&](int row, int sample) { pooled.row(sample) += rows.row(row); });
  sum_over_ranks(pooled_, context_.line->comm());
  for (int sample = 0; sample < samples; ++sample) pooled.row(sample) /= length(sample);
  Eigen::Map<Matrix> z(logits, samples, classes);
  z.noalias() = pooled * Eigen::Map<const Matrix>(parameters_.view("head/W").data(), classes, d).transpose();
  z.rowwise() += Eigen::Map<const Row>(parameters_.view("head/b").data(), classes);
}

void Readout::adjoint(const double* u, const double* logits_bar, double* u_bar, std::span<double> gradient) {
  const int d = context_.width, samples = context_.samples, classes = parameters_.spec.classes;
  const auto width = static_cast<std::size_t>(d);
  const auto at = [&](const char* path) { return gradient.data() + parameters_.layout.at(path).offset; };
  const Eigen::Map<const Matrix> z_bar(logits_bar, samples, classes);
  if (context_.line->rank() == 0) {  // the pooled state is the same on all ranks of the line
    Eigen::Map<Matrix>(at("head/W"), classes, d).noalias() +=
        z_bar.transpose() * Eigen::Map<const Matrix>(pooled_.data(), samples, d);
    // (Eigen's colwise().sum() adds in an order that depends on where the sums lie in memory.)
    simd::add_rows(logits_bar, static_cast<std::size_t>(samples), static_cast<std::size_t>(classes),
                   at("head/b"));
  }
  Matrix pooled_bar = z_bar * Eigen::Map<const Matrix>(parameters_.view("head/W").data(), classes, d);
  for (int sample = 0; sample < samples; ++sample) pooled_bar.row(sample) /= length(sample);

  double* const bar = layer_norm_ ? normal_.data() : u_bar;
  std::fill_n(bar, context_.size(), 0.0);
  Eigen::Map<Matrix> rows(bar, context_.rows(), d);
  over_real_rows([&](int row, int sample) { rows.row(row) = pooled_bar.row(sample); });
  if (!layer_norm_) return;
  std::fill_n(u_bar, context_.size(), 0.0);
  layer_norm_adjoint<double>(u, width, bar, width, context_.rows(), d,
                             parameters_.view("final_norm/gain").data(), 1.0, u_bar, at("final_norm/gain"),
                             at("final_norm/bias"));
}

}  // namespace fluxformer
