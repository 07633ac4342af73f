#include "model/loss.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "base/index.hpp"

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

}  // namespace fluxformer
