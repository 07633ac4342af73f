#include "model/loss.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"

namespace fluxformer {

double loss_of(const Loss& loss, const double* z, int classes, int label, double weight, double* z_bar) {
  const double rest = loss.smoothing / classes;
  const auto target = [&](int c) { return rest + (c == label ? 1 - loss.smoothing : 0.0); };
  double value = 0;
  if (loss.kind == LossKind::mean_squared_error) {
    for (int c = 0; c < classes; ++c) {
      const double error = z[c] - target(c);
      value += error * error / classes;
      if (z_bar != nullptr) z_bar[c] = weight * 2 * error / classes;
    }
    return value;
  }
  const double top = *std::max_element(z, z + classes);
  double sum = 0;
  for (int c = 0; c < classes; ++c) sum += std::exp(z[c] - top);
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
    for (int c = 0; c < classes; ++c) z_bar_dot[c] = weight * 2 * z_dot[c] / classes;
    return;
  }
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
  const double top = *std::max_element(z, z + classes);
  double sum = 0;
  for (int k = 0; k < classes; ++k) sum += column[k] = std::exp(z[k] - top);
  const double size = std::sqrt(weight * column[c] / sum);
  for (int k = 0; k < classes; ++k) column[k] = size * ((k == c ? 1.0 : 0.0) - column[k] / sum);
}

int most_likely(const double* z, int classes) {
  if (std::any_of(z, z + classes, [](double x) { return std::isnan(x); })) return -1;
  return static_cast<int>(std::max_element(z, z + classes) - z);
}

double correct_share(const Batch& batch, const std::vector<double>& logits, int classes) {
  double share = 0;
  for (std::size_t b = 0; b < batch.label.size(); ++b)
    if (most_likely(logits.data() + b * static_cast<std::size_t>(classes), classes) == batch.label[b])
      share += batch.weight[b];
  return share;
}

LossKind loss_kind(const std::string& word) {
  if (word == "cross_entropy") return LossKind::cross_entropy;
  if (word == "mean_squared_error") return LossKind::mean_squared_error;
  throw BadInput("train.loss = " + word + ": cross_entropy or mean_squared_error");
}

}  // namespace fluxformer
