#include "tests/support/reference_attention.hpp"

#include <cmath>
#include <complex>

namespace fluxformer::reference {

namespace {

/// y = W x + b per row of x; W is [out][in], b may be null.
Rows affine(const Rows& x, int in, const double* w, const double* b, int out) {
  Rows y;
  for (std::size_t row = 0; row < x.size(); row += static_cast<std::size_t>(in))
    for (int i = 0; i < out; ++i) {
      double sum = b != nullptr ? b[i] : 0;
      for (int j = 0; j < in; ++j) sum += w[i * in + j] * x[row + static_cast<std::size_t>(j)];
      y.push_back(sum);
    }
  return y;
}

/// LayerNorm or RMSNorm of rows of `width` numbers; the bias may be null.
Rows normed(Rows x, std::size_t width, const NormSettings& norm, const double* gain, const double* bias) {
  const auto count = static_cast<double>(width);
  for (std::size_t row = 0; row < x.size(); row += width) {
    double mean = 0, square = 0;
    for (std::size_t j = 0; j < width && norm.map == NormMap::layer; ++j) mean += x[row + j] / count;
    for (std::size_t j = 0; j < width; ++j) square += (x[row + j] - mean) * (x[row + j] - mean) / count;
    for (std::size_t j = 0; j < width; ++j)
      x[row + j] =
          (x[row + j] - mean) / std::sqrt(square + norm.eps) * gain[j] + (bias != nullptr ? bias[j] : 0);
  }
  return x;
}

/// Rotary positions: pairs of channels as complex numbers, times m exp(i x theta_j).
void turn(const AttentionSettings& settings, int channels, int token, const double* theta, double* head) {
  const auto& [layout, turned, scale] = settings.rotary;
  if (layout == RotaryLayout::none) return;
  for (int j = 0; j < turned / 2 && turned <= channels; ++j) {
    double &a = head[layout == RotaryLayout::half ? j : 2 * j],
           &b = head[layout == RotaryLayout::half ? j + turned / 2 : 2 * j + 1];
    const auto z = std::complex<double>(a, b) * std::polar(scale, token * theta[j]);
    a = z.real(), b = z.imag();
  }
}

/// Queries, keys and values, [row][channel] of all heads or groups.
struct Projections {
  Rows q, k, v;
};

Projections projections(const WholeLine& line, const AttentionSettings& settings,
                        const AttentionWeights<const double>& weights, const Rows& u) {
  const int d = line.width, c = settings.channels(d), queries = settings.heads * c,
            keys = settings.key_groups() * c;
  const bool has_norm = settings.layer_norm && weights.gain != nullptr;
  const Rows x =
      has_norm ? normed(u, static_cast<std::size_t>(d), weights.norm, weights.gain, weights.bias) : u;
  const auto rows = [&](int first, int count) {
    return affine(x, d, weights.w_qkv + first * d, weights.b_qkv != nullptr ? weights.b_qkv + first : nullptr,
                  count);
  };
  const auto heads = [&](Rows y, int count, const double* gain) {
    const NormSettings norm{.map = NormMap::rms, .eps = weights.norm.eps};
    if (settings.qk_norm) y = normed(y, static_cast<std::size_t>(c), norm, gain, nullptr);
    for (int head = 0; head * c < static_cast<int>(y.size()); ++head)
      turn(settings, c, head / count / line.samples, weights.theta, y.data() + head * c);
    return y;
  };
  return {heads(rows(0, queries), settings.heads, weights.q_gain),
          heads(rows(queries, keys), settings.key_groups(), weights.k_gain), rows(queries + keys, keys)};
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
std::vector<double> head_matrix(const WholeLine& line, const AttentionSettings& settings,
                                const Projections& qkv, int window, int sample, int head) {
  const int n = line.tokens, channels = settings.channels(line.width), groups = settings.key_groups();
  const auto query = [&](int x) {
    return qkv.q.data() + ((x * line.samples + sample) * settings.heads + head) * channels;
  };
  const auto key = [&](int y) {
    return qkv.k.data() + ((y * line.samples + sample) * groups + head * groups / settings.heads) * channels;
  };
  const auto weight = [&](int token) {
    return line.mask.weight.empty() ? 1.0 : line.mask.weight[static_cast<std::size_t>(token)];
  };
  std::vector<double> matrix(static_cast<std::size_t>(n * n), 0.0);
  const auto k = [&](int x, int y) -> double& { return matrix[static_cast<std::size_t>(x * n + y)]; };
  for (int x = 0; x < n; ++x)
    for (int y = 0; y < n; ++y)
      if (line.sees(sample, x, y, window))
        k(x, y) = weight(y) * (settings.normalisation == Normalisation::linear
                                   ? logit(settings.kernel, query(x), key(y), channels)
                                   : std::exp(logit(settings.kernel, query(x), key(y), channels)));
  if (settings.normalisation == Normalisation::linear) return matrix;

  const int half_steps = settings.normalisation == Normalisation::softmax ? 1 : settings.sinkhorn_iterations;
  for (int step = 1; step <= half_steps; ++step)
    for (int a = 0; a < n; ++a) {
      double sum = 0;
      for (int b = 0; b < n; ++b) {
        if (step % 2 == 1) sum += k(a, b);
        if (step % 2 == 0 && line.mask.real(sample, b)) sum += weight(b) * k(b, a) / weight(a);
      }
      if (sum == 0) continue;  // the column of a padded key; a row that sees none
      for (int b = 0; b < n; ++b) (step % 2 == 1 ? k(a, b) : k(b, a)) /= sum;
    }
  return matrix;
}

}  // namespace

std::vector<double> attention_matrix(const WholeLine& line, const AttentionSettings& settings,
                                     const AttentionWeights<const double>& weights, const Rows& u) {
  const Projections qkv = projections(line, settings, weights, u);
  std::vector<double> all;
  for (int sample = 0; sample < line.samples; ++sample)
    for (int head = 0; head < settings.heads; ++head) {
      const std::vector<double> one = head_matrix(line, settings, qkv, weights.window, sample, head);
      all.insert(all.end(), one.begin(), one.end());
    }
  return all;
}

Rows attention(const WholeLine& line, const AttentionSettings& settings,
               const AttentionWeights<const double>& weights, const Rows& u) {
  const int n = line.tokens, d = line.width, channels = settings.channels(d), heads = settings.heads,
            groups = settings.key_groups();
  const Rows v = projections(line, settings, weights, u).v;
  const std::vector<double> k = attention_matrix(line, settings, weights, u);
  Rows mix(static_cast<std::size_t>(n * line.samples * heads * channels), 0.0);
  for (int sample = 0; sample < line.samples; ++sample)
    for (int head = 0; head < heads; ++head)
      for (int c = 0; c < channels; ++c)
        for (int x = 0; x < n; ++x)
          for (int y = 0; y < n; ++y)
            mix[static_cast<std::size_t>(((x * line.samples + sample) * heads + head) * channels + c)] +=
                k[static_cast<std::size_t>(((sample * heads + head) * n + x) * n + y)] *
                v[static_cast<std::size_t>(
                    ((y * line.samples + sample) * groups + head * groups / heads) * channels + c)];
  Rows out = affine(mix, heads * channels, weights.w_o, weights.b_o, d);
  for (double& value : out) value *= *weights.alpha;
  return out;
}

}  // namespace fluxformer::reference
