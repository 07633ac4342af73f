#include "operators/attention/attention_input.hpp"

#include <algorithm>

#include "operators/kernels/product.hpp"
#include "operators/kernels/simd.hpp"
#include "operators/layer_norm.hpp"

namespace fluxformer {

namespace {

/// Adds b to every row, unless it is null.
template <class T>
void add_bias(const T* b, Index rows, Index width, T* y) {
  if (b == nullptr) return;
  for (Index first = 0; first < rows * width; first += width)
    for (Index c = 0; c < width; ++c) y[first + c] += b[c];
}

}  // namespace

template <class T>
AttentionInput<T>::AttentionInput(AttentionChunk<T>& chunk, Operands operands)
    : chunk_(chunk),
      w_q_(operands),
      w_kv_(operands),
      turn_(chunk.settings.rotary, chunk.shape.channels, chunk.indices_of(chunk.context.line->rank())) {}

template <class T>
void AttentionInput<T>::set(const AttentionWeights<const T>& theta) {
  const Index width = chunk_.width, queries = chunk_.query_width;
  w_q_.set(theta.w_qkv, queries, width);
  w_kv_.set(theta.w_qkv + queries * width, 2 * chunk_.key_width, width);
  turn_.move_to(chunk_.indices_of(chunk_.context.line->rank()));
  turn_.set(theta.theta);
  head_norm_ = {.map = NormMap::rms, .eps = theta.norm.eps};
}

template <class T>
template <class F>
void AttentionInput<T>::on_queries(std::vector<T>& lanes, F&& f) {
  const Index r = chunk_.rows(), width = chunk_.query_width, ld = chunk_.ld;
  rows_.resize(r * width);
  transpose(lanes.data(), width, r, ld, rows_.data(), width);
  f(rows_.data(), chunk_.heads);
  transpose(rows_.data(), r, width, width, lanes.data(), ld);
}

template <class T>
template <class F>
void AttentionInput<T>::on_keys(std::vector<T>& kv, F&& f) {
  const Index r = chunk_.rows(), width = chunk_.key_width;
  rows_.resize(r * width);
  const auto keys = row_major(kv.data(), r, width, 2 * width);
  row_major(rows_.data(), r, width) = keys;
  f(rows_.data(), chunk_.groups);
  row_major(kv.data(), r, width, 2 * width) = row_major(rows_.data(), r, width);
}

template <class T>
void AttentionInput<T>::apply_heads(const T* gain, Index heads, T* y, std::vector<T>& raw) {
  const Index r = chunk_.rows(), c = chunk_.shape.channels;
  if (chunk_.settings.qk_norm) {
    raw.assign(y, y + r * heads * c);
    x_.assign(raw.begin(), raw.end());
    layer_norm<T>(x_.data(), c, r * heads, c, head_norm_, gain, nullptr, y, c);
  }
  turn_.turn(y, r, heads);
}

template <class T>
void AttentionInput<T>::push_heads(const T* gain, const T* gain_dot, Index heads, const std::vector<T>& raw,
                                   T* y_dot, std::vector<T>& raw_dot) {
  const Index r = chunk_.rows(), c = chunk_.shape.channels, count = r * heads * c;
  if (chunk_.settings.qk_norm) {
    raw_dot.assign(y_dot, y_dot + count);
    x_.assign(raw.begin(), raw.begin() + count);
    x_dot_.assign(raw_dot.begin(), raw_dot.end());
    if (gain_dot == nullptr)
      layer_norm_tangent(x_.data(), x_dot_.data(), c, r * heads, c, head_norm_, gain, y_dot, c);
    else
      layer_norm_full_tangent<T>(x_.data(), x_dot_.data(), c, r * heads, c, head_norm_, gain, gain_dot,
                                 nullptr, y_dot, c);
  }
  turn_.turn(y_dot, r, heads);
}

template <class T>
void AttentionInput<T>::pull_heads(const T* gain, Index heads, const std::vector<T>& raw, T* y_bar,
                                   std::vector<T>& normed, double* gain_bar) {
  const Index r = chunk_.rows(), c = chunk_.shape.channels, count = r * heads * c;
  turn_.turn_back(y_bar, r, heads);
  if (!chunk_.settings.qk_norm) return;
  normed.assign(y_bar, y_bar + count);
  x_.assign(raw.begin(), raw.begin() + count);
  x_bar_.assign(count, 0.0);
  layer_norm_adjoint(x_.data(), c, normed.data(), c, r * heads, c, head_norm_, gain, 1.0, x_bar_.data(),
                     gain_bar, nullptr);
  std::copy(x_bar_.begin(), x_bar_.end(), y_bar);
}

template <class T>
void AttentionInput<T>::pull_heads_along(const T* gain, const T* gain_dot, Index heads,
                                         const std::vector<T>& raw, const std::vector<T>& raw_dot,
                                         const std::vector<T>& normed_bar, T* y_bar_dot,
                                         double* gain_bar_dot) {
  const Index r = chunk_.rows(), c = chunk_.shape.channels, count = r * heads * c;
  turn_.turn_back(y_bar_dot, r, heads);
  if (!chunk_.settings.qk_norm) return;
  x_.assign(raw.begin(), raw.begin() + count);
  x_dot_.assign(raw_dot.begin(), raw_dot.begin() + count);
  x_bar_.assign(count, 0.0);
  layer_norm_adjoint_tangent(x_.data(), x_dot_.data(), c, normed_bar.data(), y_bar_dot, c, r * heads, c,
                             head_norm_, gain, gain_dot, 1.0, x_bar_.data(), x_bar_.data(), gain_bar_dot,
                             nullptr);
  std::copy(x_bar_.begin(), x_bar_.end(), y_bar_dot);
}

template <class T>
void AttentionInput<T>::apply(const AttentionWeights<const T>& theta, const double* u) {
  const Index r = chunk_.rows(), width = chunk_.width, queries = chunk_.query_width, keys = chunk_.key_width;
  // x = N(u), or u itself, rounded to T
  if (has_norm(theta))
    chunk_.for_samples([&](Index from, Index to) {
      layer_norm(u + from, chunk_.context.row(), chunk_.tokens, width, theta.norm, theta.gain, theta.bias,
                 chunk_.x.data() + to, width);
    });
  else
    chunk_.gather(u, 1.0, chunk_.x.data());
  // q = R N_q(W_Q x + b_Q), as lanes
  T* const rows = chunk_.projected.data();
  w_q_.apply(r, chunk_.x.data(), rows);
  add_bias(theta.b_qkv, r, queries, rows);
  if (changes_heads()) apply_heads(theta.q_gain, chunk_.heads, rows, chunk_.raw_q);
  transpose(rows, r, queries, queries, chunk_.q.data(), chunk_.ld);
  // k = R N_k(W_K x + b_K) and v = W_V x + b_V, as a block
  w_kv_.apply(r, chunk_.x.data(), chunk_.kv.data());
  add_bias(theta.b_qkv != nullptr ? theta.b_qkv + queries : nullptr, r, 2 * keys, chunk_.kv.data());
  if (!changes_heads()) return;
  on_keys(chunk_.kv, [&](T* k, Index heads) { apply_heads(theta.k_gain, heads, k, chunk_.raw_k); });
}

// x' = N(u)', y' = W_Q x' + W_Q' x + b_Q', and k', v' likewise, by products with W and W' side by side.
template <class T>
void AttentionInput<T>::push(const AttentionWeights<const T>& theta,
                             const AttentionWeights<const T>* theta_dot, Point at, AttentionTangent<T>& dot) {
  const Index r = chunk_.rows(), width = chunk_.width, ld = chunk_.ld;
  const Index queries = chunk_.query_width, keys = chunk_.key_width;
  dot.x.resize(r * width);
  dot.q.resize(queries * ld);
  dot.kv.resize(r * (2 * keys + chunk_.heads));
  if (!has_norm(theta)) {
    chunk_.gather(at.u_dot, 1.0, dot.x.data());
  } else {
    chunk_.for_samples([&](Index from, Index to) {
      const double *const u = at.u + from, *const u_dot = at.u_dot + from;
      if (theta_dot == nullptr)
        layer_norm_tangent(u, u_dot, chunk_.context.row(), chunk_.tokens, width, theta.norm, theta.gain,
                           dot.x.data() + to, width);
      else
        layer_norm_full_tangent(u, u_dot, chunk_.context.row(), chunk_.tokens, width, theta.norm, theta.gain,
                                theta_dot->gain, theta_dot->bias, dot.x.data() + to, width);
    });
  }
  if (theta_dot == nullptr) {
    w_q_.apply(r, dot.x.data(), chunk_.projected.data());
    transpose(chunk_.projected.data(), r, queries, queries, dot.q.data(), ld);
    w_kv_.apply(r, dot.x.data(), dot.kv.data());
  } else {
    const auto x = row_major<const T>(chunk_.x.data(), r, width),
               x_dot = row_major<const T>(dot.x.data(), r, width);
    const Index kv = queries * width;  // where W_K begins
    auto q_dot = row_major(dot.q.data(), queries, r, ld);
    auto kv_dot = row_major(dot.kv.data(), r, 2 * keys);
    set_product_rule(q_dot, row_major(theta.w_qkv, queries, width),
                     row_major(theta_dot->w_qkv, queries, width), x.transpose(), x_dot.transpose());
    set_product_rule(kv_dot, x, x_dot, row_major(theta.w_qkv + kv, 2 * keys, width).transpose(),
                     row_major(theta_dot->w_qkv + kv, 2 * keys, width).transpose());
    if (theta_dot->b_qkv != nullptr) {
      q_dot.colwise() +=
          Eigen::Map<const Eigen::Matrix<T, Eigen::Dynamic, 1>>(theta_dot->b_qkv, q_dot.rows());
      kv_dot.rowwise() +=
          Eigen::Map<const Eigen::Matrix<T, 1, Eigen::Dynamic>>(theta_dot->b_qkv + queries, kv_dot.cols());
    }
  }
  if (!changes_heads()) return;
  const T *const q_gain_dot = theta_dot != nullptr ? theta_dot->q_gain : nullptr, *const k_gain_dot =
                                                                                      theta_dot != nullptr
                                                                                          ? theta_dot->k_gain
                                                                                          : nullptr;
  on_queries(dot.q, [&](T* q, Index heads) {
    push_heads(theta.q_gain, q_gain_dot, heads, chunk_.raw_q, q, dot.raw_q);
  });
  on_keys(dot.kv, [&](T* k, Index heads) {
    push_heads(theta.k_gain, k_gain_dot, heads, chunk_.raw_k, k, dot.raw_k);
  });
}

template <class T>
void AttentionInput<T>::add_bias_gradients(const std::vector<T>& q_bar, const std::vector<T>& kv_bar,
                                           std::vector<T>& sums, double* b_qkv_bar) const {
  if (b_qkv_bar == nullptr) return;
  const Index r = chunk_.rows(), queries = chunk_.query_width, keys = chunk_.key_width;
  for (Index c = 0; c < queries; ++c) {
    const T* const row = q_bar.data() + c * chunk_.ld;
    b_qkv_bar[c] += simd::sum_over<T>(r, [row](auto load) { return load(row); });
  }
  sums.assign(2 * keys, T(0));
  simd::add_rows(kv_bar.data(), r, 2 * keys, sums.data());
  simd::set_sum(1.0, sums.data(), 2 * keys, b_qkv_bar + queries, b_qkv_bar + queries);
}

template <class T>
void AttentionInput<T>::pull(const AttentionWeights<const T>& theta, const double* u,
                             AttentionAdjointWork<T>& bar, Sum u_bar, const AttentionWeights<double>* to) {
  const Index r = chunk_.rows(), width = chunk_.width;
  const Index queries = chunk_.query_width, keys = chunk_.key_width;
  if (changes_heads()) {
    on_queries(bar.q, [&](T* q, Index heads) {
      pull_heads(theta.q_gain, heads, chunk_.raw_q, q, bar.normed_q, to != nullptr ? to->q_gain : nullptr);
    });
    on_keys(bar.kv, [&](T* k, Index heads) {
      pull_heads(theta.k_gain, heads, chunk_.raw_k, k, bar.normed_k, to != nullptr ? to->k_gain : nullptr);
    });
  }
  if (to != nullptr) {
    const Index size = (queries + 2 * keys) * width;
    bar.product.resize(size);
    w_q_.gradient(r, Stored::transposed, bar.q.data(), chunk_.ld, chunk_.x.data(), InsertMode::insert,
                  bar.product.data());
    w_kv_.gradient(r, Stored::plain, bar.kv.data(), 2 * keys, chunk_.x.data(), InsertMode::insert,
                   bar.product.data() + queries * width);
    simd::set_sum(1.0, bar.product.data(), size, to->w_qkv, to->w_qkv);
    add_bias_gradients(bar.q, bar.kv, bar.sums, to->b_qkv);
  }
  bar.x.resize(r * width);
  w_q_.apply_transpose(r, Stored::transposed, bar.q.data(), chunk_.ld, InsertMode::insert, bar.x.data());
  w_kv_.apply_transpose(r, bar.kv.data(), InsertMode::add, bar.x.data());
  if (!has_norm(theta)) return chunk_.scatter(bar.x.data(), nullptr, 1.0, u_bar.base, u_bar.out);
  chunk_.for_samples([&](Index at, Index from) {
    layer_norm_adjoint(u + at, chunk_.context.row(), bar.x.data() + from, width, chunk_.tokens, width,
                       theta.norm, theta.gain, 1.0, u_bar.base + at, u_bar.out + at,
                       to != nullptr ? to->gain : nullptr, to != nullptr ? to->bias : nullptr);
  });
}

template <class T>
void AttentionInput<T>::pull_along(const AttentionWeights<const T>& theta,
                                   const AttentionWeights<const T>& theta_dot, Point at,
                                   const AttentionTangent<T>& dot, const AttentionAdjoint<T>& bar,
                                   AttentionAdjointWork<T>& bar_dot, Sum u_bar_dot,
                                   const AttentionWeights<double>& to) {
  const Index r = chunk_.rows(), width = chunk_.width;
  const Index queries = chunk_.query_width, keys = chunk_.key_width, kv = queries * width;
  if (changes_heads()) {
    on_queries(bar_dot.q, [&](T* q, Index heads) {
      pull_heads_along(theta.q_gain, theta_dot.q_gain, heads, chunk_.raw_q, dot.raw_q, bar.normed_q, q,
                       to.q_gain);
    });
    on_keys(bar_dot.kv, [&](T* k, Index heads) {
      pull_heads_along(theta.k_gain, theta_dot.k_gain, heads, chunk_.raw_k, dot.raw_k, bar.normed_k, k,
                       to.k_gain);
    });
  }
  const auto q_bar = row_major<const T>(bar.q.data(), queries, r, chunk_.ld),
             q_bar_dot = row_major<const T>(bar_dot.q.data(), queries, r, chunk_.ld);
  const auto kv_bar = row_major<const T>(bar.kv.data(), r, 2 * keys),
             kv_bar_dot = row_major<const T>(bar_dot.kv.data(), r, 2 * keys);
  const auto x = row_major<const T>(chunk_.x.data(), r, width),
             x_dot = row_major<const T>(dot.x.data(), r, width);
  const Index size = (queries + 2 * keys) * width;
  bar_dot.product.resize(size);
  set_product_rule(row_major(bar_dot.product.data(), queries, width), q_bar, q_bar_dot, x, x_dot);
  set_product_rule(row_major(bar_dot.product.data() + kv, 2 * keys, width), kv_bar.transpose(),
                   kv_bar_dot.transpose(), x, x_dot);
  simd::set_sum(1.0, bar_dot.product.data(), size, to.w_qkv, to.w_qkv);
  add_bias_gradients(bar_dot.q, bar_dot.kv, bar_dot.sums, to.b_qkv);

  bar_dot.x.resize(r * width);
  auto x_bar_dot = row_major(bar_dot.x.data(), r, width);
  set_product_rule(x_bar_dot, q_bar.transpose(), q_bar_dot.transpose(),
                   row_major(theta.w_qkv, queries, width), row_major(theta_dot.w_qkv, queries, width));
  set_product(x_bar_dot, kv_bar_dot, row_major(theta.w_qkv + kv, 2 * keys, width), InsertMode::add);
  set_product(x_bar_dot, kv_bar, row_major(theta_dot.w_qkv + kv, 2 * keys, width), InsertMode::add);
  if (!has_norm(theta)) return chunk_.scatter(bar_dot.x.data(), nullptr, 1.0, u_bar_dot.base, u_bar_dot.out);
  chunk_.for_samples([&](Index row, Index from) {
    layer_norm_adjoint_tangent(at.u + row, at.u_dot + row, chunk_.context.row(), bar.x.data() + from,
                               bar_dot.x.data() + from, width, chunk_.tokens, width, theta.norm, theta.gain,
                               theta_dot.gain, 1.0, u_bar_dot.base + row, u_bar_dot.out + row, to.gain,
                               to.bias);
  });
}

template <class T>
std::size_t AttentionInput<T>::bytes() const {
  return w_q_.bytes() + w_kv_.bytes() + turn_.bytes() + bytes_of(rows_, x_, x_dot_, x_bar_);
}

template class AttentionInput<float>;
template class AttentionInput<double>;

}  // namespace fluxformer
