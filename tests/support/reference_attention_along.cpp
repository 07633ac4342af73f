#include "tests/support/reference_attention_along.hpp"

#include <cmath>

namespace fluxformer::reference {

namespace {

/// x + dot * e with e^2 = 0.
struct Dual {
  double x = 0, dot = 0;
};

Dual operator+(Dual a, Dual b) {
  return {a.x + b.x, a.dot + b.dot};
}
Dual operator-(Dual a, Dual b) {
  return {a.x - b.x, a.dot - b.dot};
}
Dual operator*(Dual a, Dual b) {
  return {a.x * b.x, a.x * b.dot + a.dot * b.x};
}
Dual operator/(Dual a, Dual b) {
  const double ratio = a.x / b.x;
  return {ratio, (a.dot - ratio * b.dot) / b.x};
}
Dual& operator+=(Dual& a, Dual b) {
  return a = a + b;
}
Dual exp(Dual a) {
  return {std::exp(a.x), std::exp(a.x) * a.dot};
}
Dual sqrt(Dual a) {
  return {std::sqrt(a.x), a.dot / (2 * std::sqrt(a.x))};
}

using Duals = std::vector<Dual>;

Duals duals(const std::vector<double>& x, const std::vector<double>& dot) {
  Duals both;
  for (std::size_t i = 0; i < x.size(); ++i) both.push_back({x[i], dot[i]});
  return both;
}

/// One sample from its rows u (n x d) to its output and, with the adjoint's vector w, back.
class Sample {
 public:
  Sample(const WholeLine& line, const AttentionSettings& settings, int number, const Duals& weights)
      : line_(line),
        settings_(settings),
        number_(number),
        n_(static_cast<std::size_t>(line.tokens)),
        d_(static_cast<std::size_t>(line.width)),
        heads_(static_cast<std::size_t>(settings.heads)),
        channels_(d_ / heads_),
        w_(weights) {}

  Duals forward(const Duals& u);
  Duals backward(const Duals& w, Duals& w_bar);

 private:
  Dual scale() const { return {1 / std::sqrt(static_cast<double>(channels_)), 0}; }
  /// The place of P(x, y) of a head.
  std::size_t pair(std::size_t h, std::size_t x, std::size_t y) const { return (h * n_ + x) * n_ + y; }
  /// The row of token x in q (part 0), k (1) or v (2), from the head's first channel.
  std::size_t part(std::size_t x, std::size_t which, std::size_t h) const {
    return x * 3 * d_ + which * d_ + h * channels_;
  }
  bool linear() const { return settings_.normalisation == Normalisation::linear; }
  /// w_y, or 0 where x does not see y.
  Dual weight(std::size_t x, std::size_t y) const {
    if (!line_.mask.real(number_, static_cast<int>(y)) || (line_.mask.causal && y > x)) return {};
    return {line_.mask.weight.empty() ? 1.0 : line_.mask.weight[y], 0};
  }
  void fill_plan(std::size_t h);

  const WholeLine& line_;
  const AttentionSettings& settings_;
  int number_;
  std::size_t n_, d_, heads_, channels_;
  const Duals& w_;
  // Places of the weights: gain is 0, bias d.
  std::size_t w_qkv_ = 2 * d_, b_qkv_ = w_qkv_ + 3 * d_ * d_, w_o_ = b_qkv_ + 3 * d_, b_o_ = w_o_ + d_ * d_,
              alpha_ = b_o_ + d_;
  Duals z_, sigma_, x_, qkv_, plan_, mix_, y_;
};

void Sample::fill_plan(std::size_t h) {
  for (std::size_t x = 0; x < n_; ++x) {
    Dual sum;
    for (std::size_t y = 0; y < n_; ++y) {
      Dual logit;
      for (std::size_t c = 0; c < channels_; ++c)
        logit += scale() * qkv_[part(x, 0, h) + c] * qkv_[part(y, 1, h) + c];
      plan_[pair(h, x, y)] = weight(x, y) * (linear() ? logit : exp(logit));
      sum += plan_[pair(h, x, y)];
    }
    for (std::size_t y = 0; y < n_ && !linear(); ++y) plan_[pair(h, x, y)] = plan_[pair(h, x, y)] / sum;
  }
}

Duals Sample::forward(const Duals& u) {
  const Dual count{static_cast<double>(d_), 0};
  z_ = x_ = u;
  sigma_.resize(n_);
  qkv_.resize(n_ * 3 * d_);
  plan_.assign(heads_ * n_ * n_, {});
  mix_.assign(n_ * d_, {});
  y_.resize(n_ * d_);
  for (std::size_t t = 0; t < n_ && settings_.layer_norm; ++t) {
    Dual mean, variance;
    for (std::size_t c = 0; c < d_; ++c) mean += u[t * d_ + c] / count;
    for (std::size_t c = 0; c < d_; ++c) variance += (u[t * d_ + c] - mean) * (u[t * d_ + c] - mean) / count;
    sigma_[t] = sqrt(variance + Dual{1e-5, 0});
    for (std::size_t c = 0; c < d_; ++c) {
      z_[t * d_ + c] = (u[t * d_ + c] - mean) / sigma_[t];
      x_[t * d_ + c] = w_[c] * z_[t * d_ + c] + w_[d_ + c];
    }
  }
  for (std::size_t t = 0; t < n_; ++t)
    for (std::size_t i = 0; i < 3 * d_; ++i) {
      qkv_[t * 3 * d_ + i] = w_[b_qkv_ + i];
      for (std::size_t c = 0; c < d_; ++c) qkv_[t * 3 * d_ + i] += w_[w_qkv_ + i * d_ + c] * x_[t * d_ + c];
    }
  for (std::size_t h = 0; h < heads_; ++h) {
    fill_plan(h);
    for (std::size_t x = 0; x < n_; ++x)
      for (std::size_t y = 0; y < n_; ++y)
        for (std::size_t c = 0; c < channels_; ++c)
          mix_[x * d_ + h * channels_ + c] += plan_[pair(h, x, y)] * qkv_[part(y, 2, h) + c];
  }
  Duals out(n_ * d_);
  for (std::size_t t = 0; t < n_; ++t)
    for (std::size_t i = 0; i < d_; ++i) {
      y_[t * d_ + i] = w_[b_o_ + i];
      for (std::size_t c = 0; c < d_; ++c) y_[t * d_ + i] += w_[w_o_ + i * d_ + c] * mix_[t * d_ + c];
      out[t * d_ + i] = w_[alpha_] * y_[t * d_ + i];
    }
  return out;
}

// Reverse mode, line by line.
Duals Sample::backward(const Duals& w, Duals& w_bar) {
  Duals mix_bar(n_ * d_), qkv_bar(n_ * 3 * d_), x_bar(n_ * d_);
  for (std::size_t t = 0; t < n_; ++t)
    for (std::size_t i = 0; i < d_; ++i) {
      const Dual y_bar = w_[alpha_] * w[t * d_ + i];
      w_bar[alpha_] += w[t * d_ + i] * y_[t * d_ + i];
      w_bar[b_o_ + i] += y_bar;
      for (std::size_t c = 0; c < d_; ++c) {
        w_bar[w_o_ + i * d_ + c] += y_bar * mix_[t * d_ + c];
        mix_bar[t * d_ + c] += y_bar * w_[w_o_ + i * d_ + c];
      }
    }
  for (std::size_t h = 0; h < heads_; ++h)
    for (std::size_t x = 0; x < n_; ++x) {
      Duals plan_bar(n_);
      Dual mean;
      for (std::size_t y = 0; y < n_; ++y) {
        for (std::size_t c = 0; c < channels_; ++c) {
          plan_bar[y] += mix_bar[x * d_ + h * channels_ + c] * qkv_[part(y, 2, h) + c];
          qkv_bar[part(y, 2, h) + c] += plan_[pair(h, x, y)] * mix_bar[x * d_ + h * channels_ + c];
        }
        mean += plan_[pair(h, x, y)] * plan_bar[y];
      }
      for (std::size_t y = 0; y < n_; ++y) {
        const Dual logit_bar =
            scale() * (linear() ? weight(x, y) * plan_bar[y] : plan_[pair(h, x, y)] * (plan_bar[y] - mean));
        for (std::size_t c = 0; c < channels_; ++c) {
          qkv_bar[part(x, 0, h) + c] += logit_bar * qkv_[part(y, 1, h) + c];
          qkv_bar[part(y, 1, h) + c] += logit_bar * qkv_[part(x, 0, h) + c];
        }
      }
    }
  for (std::size_t t = 0; t < n_; ++t)
    for (std::size_t i = 0; i < 3 * d_; ++i) {
      const Dual bar = qkv_bar[t * 3 * d_ + i];
      w_bar[b_qkv_ + i] += bar;
      for (std::size_t c = 0; c < d_; ++c) {
        w_bar[w_qkv_ + i * d_ + c] += bar * x_[t * d_ + c];
        x_bar[t * d_ + c] += bar * w_[w_qkv_ + i * d_ + c];
      }
    }
  if (!settings_.layer_norm) return x_bar;
  const Dual count{static_cast<double>(d_), 0};
  Duals u_bar(n_ * d_);
  for (std::size_t t = 0; t < n_; ++t) {
    Dual mean, along;
    for (std::size_t c = 0; c < d_; ++c) {
      w_bar[c] += x_bar[t * d_ + c] * z_[t * d_ + c];
      w_bar[d_ + c] += x_bar[t * d_ + c];
      mean += w_[c] * x_bar[t * d_ + c] / count;
      along += w_[c] * x_bar[t * d_ + c] * z_[t * d_ + c] / count;
    }
    for (std::size_t c = 0; c < d_; ++c)
      u_bar[t * d_ + c] = (w_[c] * x_bar[t * d_ + c] - mean - z_[t * d_ + c] * along) / sigma_[t];
  }
  return u_bar;
}

}  // namespace

AttentionAlong attention_along(const WholeLine& line, const AttentionSettings& settings,
                               const AttentionPoint& at, const AttentionPoint& direction) {
  const Duals weights = duals(at.weights, direction.weights), u = duals(at.u, direction.u),
              w = duals(at.w, direction.w);
  const auto samples = static_cast<std::size_t>(line.samples), d = static_cast<std::size_t>(line.width);
  Duals out(u.size()), u_bar(u.size()), weights_bar(weights.size());
  for (std::size_t b = 0; b < samples; ++b) {
    const auto rows_of = [&](const Duals& all) {
      Duals rows;
      for (std::size_t i = 0; i < all.size(); ++i)
        if (i / d % samples == b) rows.push_back(all[i]);
      return rows;
    };
    const auto put = [&](const Duals& rows, Duals& all) {
      std::size_t next = 0;
      for (std::size_t i = 0; i < all.size(); ++i)
        if (i / d % samples == b) all[i] = rows[next++];
    };
    Sample sample(line, settings, static_cast<int>(b), weights);
    put(sample.forward(rows_of(u)), out);
    put(sample.backward(rows_of(w), weights_bar), u_bar);
  }
  const auto values = [](const Duals& x) {
    std::vector<double> result;
    for (const Dual& one : x) result.push_back(one.x);
    return result;
  };
  const auto variations = [](const Duals& x) {
    std::vector<double> result;
    for (const Dual& one : x) result.push_back(one.dot);
    return result;
  };
  return {{values(out), values(u_bar), values(weights_bar)},
          {variations(out), variations(u_bar), variations(weights_bar)}};
}

}  // namespace fluxformer::reference
