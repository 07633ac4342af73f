#include "tests/support/reference_attention.hpp"

#include <cmath>

namespace fluxformer::reference {

namespace {

/// y = W x + b per row of x; W is [out][in].
Rows affine(const Rows& x, int in, const double* w, const double* b, int out) {
  Rows y;
  for (std::size_t row = 0; row < x.size(); row += static_cast<std::size_t>(in))
    for (int i = 0; i < out; ++i) {
      double sum = b[i];
      for (int j = 0; j < in; ++j) sum += w[i * in + j] * x[row + static_cast<std::size_t>(j)];
      y.push_back(sum);
    }
  return y;
}

/// q | k | v of every row of u, 3 * width numbers each.
Rows projections(const WholeLine& line, const AttentionSettings& settings,
                 const AttentionWeights<const double>& weights, const Rows& u) {
  const Rows x = settings.layer_norm ? layer_norm(u, line.width, weights.gain, weights.bias, weights.norm.eps) : u;
  return affine(x, line.width, weights.w_qkv, weights.b_qkv, 3 * line.width);
}

double logit(Kernel kernel, const double* q, const double* k, int channels) {
  double dot = 0, distance = 0;
  for (int c = 0; c < channels; ++c) {
    dot += q[c] * k[c];
    distance += (q[c] - k[c]) * (q[c] - k[c]);
  }
  return kernel == Kernel::dot ? dot / std::sqrt(channels) : -distance / 2;
}

/// k[x][y], n x n, of one head of one sample.
std::vector<double> head_matrix(const WholeLine& line, const AttentionSettings& settings, const Rows& qkv,
                                int sample, int head) {
  const int n = line.tokens, channels = line.width / settings.heads;
  const auto at = [&](int token, int part) {
    return qkv.data() + (token * line.samples + sample) * 3 * line.width + part * line.width +
           head * channels;
  };
  const auto weight = [&](int token) {
    return line.mask.weight.empty() ? 1.0 : line.mask.weight[static_cast<std::size_t>(token)];
  };
  std::vector<double> matrix(static_cast<std::size_t>(n * n), 0.0);
  const auto k = [&](int x, int y) -> double& { return matrix[static_cast<std::size_t>(x * n + y)]; };
  for (int x = 0; x < n; ++x)
    for (int y = 0; y < n; ++y)
      if (line.mask.real(sample, y) && !(line.mask.causal && y > x))
        k(x, y) = weight(y) * (settings.normalisation == Normalisation::linear
                                   ? logit(settings.kernel, at(x, 0), at(y, 1), channels)
                                   : std::exp(logit(settings.kernel, at(x, 0), at(y, 1), channels)));
  if (settings.normalisation == Normalisation::linear) return matrix;

  const int half_steps = settings.normalisation == Normalisation::softmax ? 1 : settings.sinkhorn_iterations;
  for (int step = 1; step <= half_steps; ++step)
    for (int a = 0; a < n; ++a) {
      double sum = 0;
      for (int b = 0; b < n; ++b) {
        if (step % 2 == 1) sum += k(a, b);
        if (step % 2 == 0 && line.mask.real(sample, b)) sum += weight(b) * k(b, a) / weight(a);
      }
      if (sum == 0) continue;  // the column of a padded key
      for (int b = 0; b < n; ++b) (step % 2 == 1 ? k(a, b) : k(b, a)) /= sum;
    }
  return matrix;
}

}  // namespace

std::vector<double> attention_matrix(const WholeLine& line, const AttentionSettings& settings,
                                     const AttentionWeights<const double>& weights, const Rows& u) {
  const Rows qkv = projections(line, settings, weights, u);
  std::vector<double> all;
  for (int sample = 0; sample < line.samples; ++sample)
    for (int head = 0; head < settings.heads; ++head) {
      const std::vector<double> one = head_matrix(line, settings, qkv, sample, head);
      all.insert(all.end(), one.begin(), one.end());
    }
  return all;
}

Rows attention(const WholeLine& line, const AttentionSettings& settings,
               const AttentionWeights<const double>& weights, const Rows& u) {
  const int n = line.tokens, d = line.width, channels = d / settings.heads;
  const Rows qkv = projections(line, settings, weights, u);
  const std::vector<double> k = attention_matrix(line, settings, weights, u);
  Rows mix(u.size(), 0.0);
  for (int sample = 0; sample < line.samples; ++sample)
    for (int c = 0; c < d; ++c)
      for (int x = 0; x < n; ++x)
        for (int y = 0; y < n; ++y)
          mix[static_cast<std::size_t>((x * line.samples + sample) * d + c)] +=
              k[static_cast<std::size_t>(((sample * settings.heads + c / channels) * n + x) * n + y)] *
              qkv[static_cast<std::size_t>((y * line.samples + sample) * 3 * d + 2 * d + c)];
  Rows out = affine(mix, d, weights.w_o, weights.b_o, d);
  for (double& value : out) value *= *weights.alpha;
  return out;
}

}  // namespace fluxformer::reference
