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
  Sample(const WholeLine& line, const AttentionSettings& settings, const test::AttentionLayout& layout,
         int number, const Duals& weights)
      : line_(line), settings_(settings), layout_(layout), number_(number), w_(weights) {}

  Duals forward(const Duals& u);
  Duals backward(const Duals& w, Duals& w_bar);

 private:
  Dual scale() const { return {1 / std::sqrt(static_cast<double>(c_)), 0}; }
  std::size_t place(const char* name) const { return layout_.part(name).begin; }
  bool has(const char* name) const { return layout_.part(name).end > place(name); }
  bool has_norm() const { return settings_.layer_norm && layout_.arrays.norm; }
  bool subtracts_mean() const { return layout_.arrays.norm_settings.map == NormMap::layer; }
  Dual eps() const { return {layout_.arrays.norm_settings.eps, 0}; }
  /// The place of P(x, y) of a head.
  std::size_t pair(std::size_t h, std::size_t x, std::size_t y) const { return (h * n_ + x) * n_ + y; }
  /// The first channel of token x in q (part 0), k (1) or v (2) of head h: that of its group in k and v.
  std::size_t part(std::size_t x, std::size_t which, std::size_t h) const {
    const std::size_t group = h * groups_ / heads_;
    return x * rows_ + (which == 0 ? h : heads_ + (which - 1) * groups_ + group) * c_;
  }
  bool linear() const { return settings_.normalisation == Normalisation::linear; }
  /// w_y, or 0 where x does not see y.
  Dual weight(std::size_t x, std::size_t y) const {
    if (!line_.sees(number_, static_cast<int>(x), static_cast<int>(y), layout_.arrays.window)) return {};
    return {line_.mask.weight.empty() ? 1.0 : line_.mask.weight[y], 0};
  }
  /// f(first channel, place of the gain, x) for the heads of queries and groups of keys of every token x.
  template <class F>
  void for_turned_heads(F&& f) const {
    for (std::size_t x = 0; x < n_; ++x)
      for (std::size_t h = 0; h < heads_ + groups_; ++h)
        f(x * rows_ + h * c_, h < heads_ ? q_gain_ : k_gain_, x);
  }
  /// Turns the channels of a head at token x, or turns them back (sign -1).
  void turn(Dual* head, std::size_t x, double sign) const;
  void norm_rows(const Duals& u);
  void norm_and_turn_heads();
  void turn_back_and_norm_heads(Duals& qkv_bar, Duals& w_bar) const;
  void fill_plan(std::size_t h);

  const WholeLine& line_;
  const AttentionSettings& settings_;
  const test::AttentionLayout& layout_;
  int number_;
  const Duals& w_;
  std::size_t n_ = static_cast<std::size_t>(line_.tokens), d_ = layout_.width, heads_ = layout_.heads,
              groups_ = layout_.groups, c_ = layout_.channels, queries_ = heads_ * c_,
              rows_ = (heads_ + 2 * groups_) * c_;
  // Places of the weights.
  std::size_t gain_ = place("gain"), bias_ = place("bias"), w_qkv_ = place("W_Q"), b_qkv_ = place("b_Q"),
              w_o_ = place("W_O"), b_o_ = place("b_O"), q_gain_ = place("q_gain"), k_gain_ = place("k_gain"),
              alpha_ = place("alpha");
  bool has_bias_ = has("bias"), has_b_qkv_ = has("b_Q"), has_b_o_ = has("b_O");
  Duals z_, sigma_, x_, raw_, qkv_, plan_, mix_, y_;
};

void Sample::turn(Dual* head, std::size_t x, double sign) const {
  const auto& [layout, turned, m] = settings_.rotary;
  if (layout == RotaryLayout::none) return;
  const auto r = static_cast<std::size_t>(turned);
  for (std::size_t j = 0; j < r / 2; ++j) {
    const double angle = static_cast<double>(x) * layout_.theta[j];
    const Dual cos{m * std::cos(angle), 0}, sin{sign * m * std::sin(angle), 0};
    Dual &a = head[layout == RotaryLayout::half ? j : 2 * j],
         &b = head[layout == RotaryLayout::half ? j + r / 2 : 2 * j + 1];
    const Dual before = a;
    a = before * cos - b * sin;
    b = b * cos + before * sin;
  }
}

void Sample::norm_rows(const Duals& u) {
  const Dual count{static_cast<double>(d_), 0};
  z_ = x_ = u;
  sigma_.resize(n_);
  for (std::size_t t = 0; t < n_ && has_norm(); ++t) {
    Dual mean, square;
    for (std::size_t c = 0; c < d_ && subtracts_mean(); ++c) mean += u[t * d_ + c] / count;
    for (std::size_t c = 0; c < d_; ++c) square += (u[t * d_ + c] - mean) * (u[t * d_ + c] - mean) / count;
    sigma_[t] = sqrt(square + eps());
    for (std::size_t c = 0; c < d_; ++c) {
      z_[t * d_ + c] = (u[t * d_ + c] - mean) / sigma_[t];
      x_[t * d_ + c] = w_[gain_ + c] * z_[t * d_ + c];
      if (has_bias_) x_[t * d_ + c] += w_[bias_ + c];
    }
  }
}

void Sample::norm_and_turn_heads() {
  const Dual count{static_cast<double>(c_), 0};
  raw_ = qkv_;
  for_turned_heads([&](std::size_t first, std::size_t gain, std::size_t x) {
    Dual square;
    for (std::size_t c = 0; c < c_; ++c) square += raw_[first + c] * raw_[first + c] / count;
    for (std::size_t c = 0; c < c_ && settings_.qk_norm; ++c)
      qkv_[first + c] = w_[gain + c] * raw_[first + c] / sqrt(square + eps());
    turn(&qkv_[first], x, 1);
  });
}

// x_bar = r a - r^3 x <x, a> / c, a = gain y_bar, gain_bar = sum y_bar x r, r = 1 / sqrt(<x, x> / c + eps)
void Sample::turn_back_and_norm_heads(Duals& qkv_bar, Duals& w_bar) const {
  const Dual count{static_cast<double>(c_), 0};
  for_turned_heads([&](std::size_t first, std::size_t gain, std::size_t x) {
    turn(&qkv_bar[first], x, -1);
    if (!settings_.qk_norm) return;
    Dual square, along;
    for (std::size_t c = 0; c < c_; ++c) {
      square += raw_[first + c] * raw_[first + c] / count;
      along += raw_[first + c] * w_[gain + c] * qkv_bar[first + c] / count;
    }
    const Dual r = Dual{1, 0} / sqrt(square + eps());
    for (std::size_t c = 0; c < c_; ++c) {
      w_bar[gain + c] += qkv_bar[first + c] * raw_[first + c] * r;
      qkv_bar[first + c] = r * w_[gain + c] * qkv_bar[first + c] - r * r * r * raw_[first + c] * along;
    }
  });
}

void Sample::fill_plan(std::size_t h) {
  for (std::size_t x = 0; x < n_; ++x) {
    Dual sum;
    for (std::size_t y = 0; y < n_; ++y) {
      Dual logit;
      for (std::size_t c = 0; c < c_; ++c)
        logit += scale() * qkv_[part(x, 0, h) + c] * qkv_[part(y, 1, h) + c];
      plan_[pair(h, x, y)] = weight(x, y) * (linear() ? logit : exp(logit));
      sum += plan_[pair(h, x, y)];
    }
    if (linear() || sum.x == 0) continue;  // 0: a row that sees no key
    for (std::size_t y = 0; y < n_; ++y) plan_[pair(h, x, y)] = plan_[pair(h, x, y)] / sum;
  }
}

Duals Sample::forward(const Duals& u) {
  norm_rows(u);
  qkv_.resize(n_ * rows_);
  plan_.assign(heads_ * n_ * n_, {});
  mix_.assign(n_ * queries_, {});
  y_.resize(n_ * d_);
  for (std::size_t t = 0; t < n_; ++t)
    for (std::size_t i = 0; i < rows_; ++i) {
      qkv_[t * rows_ + i] = has_b_qkv_ ? w_[b_qkv_ + i] : Dual{};
      for (std::size_t c = 0; c < d_; ++c) qkv_[t * rows_ + i] += w_[w_qkv_ + i * d_ + c] * x_[t * d_ + c];
    }
  norm_and_turn_heads();
  for (std::size_t h = 0; h < heads_; ++h) {
    fill_plan(h);
    for (std::size_t x = 0; x < n_; ++x)
      for (std::size_t y = 0; y < n_; ++y)
        for (std::size_t c = 0; c < c_; ++c)
          mix_[x * queries_ + h * c_ + c] += plan_[pair(h, x, y)] * qkv_[part(y, 2, h) + c];
  }
  Duals out(n_ * d_);
  for (std::size_t t = 0; t < n_; ++t)
    for (std::size_t i = 0; i < d_; ++i) {
      y_[t * d_ + i] = has_b_o_ ? w_[b_o_ + i] : Dual{};
      for (std::size_t c = 0; c < queries_; ++c)
        y_[t * d_ + i] += w_[w_o_ + i * queries_ + c] * mix_[t * queries_ + c];
      out[t * d_ + i] = w_[alpha_] * y_[t * d_ + i];
    }
  return out;
}

// Reverse mode, line by line.
Duals Sample::backward(const Duals& w, Duals& w_bar) {
  Duals mix_bar(n_ * queries_), qkv_bar(n_ * rows_), x_bar(n_ * d_);
  for (std::size_t t = 0; t < n_; ++t)
    for (std::size_t i = 0; i < d_; ++i) {
      const Dual y_bar = w_[alpha_] * w[t * d_ + i];
      w_bar[alpha_] += w[t * d_ + i] * y_[t * d_ + i];
      if (has_b_o_) w_bar[b_o_ + i] += y_bar;
      for (std::size_t c = 0; c < queries_; ++c) {
        w_bar[w_o_ + i * queries_ + c] += y_bar * mix_[t * queries_ + c];
        mix_bar[t * queries_ + c] += y_bar * w_[w_o_ + i * queries_ + c];
      }
    }
  for (std::size_t h = 0; h < heads_; ++h)
    for (std::size_t x = 0; x < n_; ++x) {
      Duals plan_bar(n_);
      Dual mean;
      for (std::size_t y = 0; y < n_; ++y) {
        for (std::size_t c = 0; c < c_; ++c) {
          plan_bar[y] += mix_bar[x * queries_ + h * c_ + c] * qkv_[part(y, 2, h) + c];
          qkv_bar[part(y, 2, h) + c] += plan_[pair(h, x, y)] * mix_bar[x * queries_ + h * c_ + c];
        }
        mean += plan_[pair(h, x, y)] * plan_bar[y];
      }
      for (std::size_t y = 0; y < n_; ++y) {
        const Dual logit_bar =
            scale() * (linear() ? weight(x, y) * plan_bar[y] : plan_[pair(h, x, y)] * (plan_bar[y] - mean));
        for (std::size_t c = 0; c < c_; ++c) {
          qkv_bar[part(x, 0, h) + c] += logit_bar * qkv_[part(y, 1, h) + c];
          qkv_bar[part(y, 1, h) + c] += logit_bar * qkv_[part(x, 0, h) + c];
        }
      }
    }
  turn_back_and_norm_heads(qkv_bar, w_bar);
  for (std::size_t t = 0; t < n_; ++t)
    for (std::size_t i = 0; i < rows_; ++i) {
      const Dual bar = qkv_bar[t * rows_ + i];
      if (has_b_qkv_) w_bar[b_qkv_ + i] += bar;
      for (std::size_t c = 0; c < d_; ++c) {
        w_bar[w_qkv_ + i * d_ + c] += bar * x_[t * d_ + c];
        x_bar[t * d_ + c] += bar * w_[w_qkv_ + i * d_ + c];
      }
    }
  if (!has_norm()) return x_bar;
  const Dual count{static_cast<double>(d_), 0};
  const Dual* const gain = &w_[gain_];
  Duals u_bar(n_ * d_);
  for (std::size_t t = 0; t < n_; ++t) {
    Dual mean, along;
    for (std::size_t c = 0; c < d_; ++c) {
      w_bar[gain_ + c] += x_bar[t * d_ + c] * z_[t * d_ + c];
      if (has_bias_) w_bar[bias_ + c] += x_bar[t * d_ + c];
      if (subtracts_mean()) mean += gain[c] * x_bar[t * d_ + c] / count;
      along += gain[c] * x_bar[t * d_ + c] * z_[t * d_ + c] / count;
    }
    for (std::size_t c = 0; c < d_; ++c)
      u_bar[t * d_ + c] = (gain[c] * x_bar[t * d_ + c] - mean - z_[t * d_ + c] * along) / sigma_[t];
  }
  return u_bar;
}

}  // namespace

AttentionAlong attention_along(const WholeLine& line, const AttentionSettings& settings,
                               const test::AttentionLayout& layout, const AttentionPoint& at,
                               const AttentionPoint& direction) {
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
    Sample sample(line, settings, layout, static_cast<int>(b), weights);
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
