#include "model/readout.hpp"

#include <Eigen/Core>
#include <algorithm>

#include "model/pooling.hpp"
#include "operators/kernels/simd.hpp"
#include "operators/layer_norm.hpp"

namespace fluxformer {
namespace {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Row = Eigen::RowVectorXd;

}  // namespace

Readout::Readout(const Parameters& parameters, const SlabContext& context)
    : parameters_(parameters), context_(context), layer_norm_(parameters.layout.has("final_norm/gain")) {}

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
  mean_over_tokens(context_, from, pooled_);
  const Eigen::Map<const Matrix> pooled(pooled_.data(), samples, d);
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
  std::vector<double> pooled_bar(pooled_.size());
  Eigen::Map<Matrix>(pooled_bar.data(), samples, d).noalias() =
      z_bar * Eigen::Map<const Matrix>(parameters_.view("head/W").data(), classes, d);
  double* const bar = layer_norm_ ? normal_.data() : u_bar;
  spread_mean(context_, pooled_bar, bar);
  if (!layer_norm_) return;
  std::fill_n(u_bar, context_.size(), 0.0);
  layer_norm_adjoint<double>(u, width, bar, width, context_.rows(), d,
                             parameters_.view("final_norm/gain").data(), 1.0, u_bar, at("final_norm/gain"),
                             at("final_norm/bias"));
}

}  // namespace fluxformer
