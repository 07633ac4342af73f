#include "operators/attention/attention_chunk.hpp"

#include <cmath>

#include "operators/kernels/simd.hpp"
#include "operators/kernels/transpose.hpp"
#include "operators/layer_norm.hpp"

namespace fluxformer {

namespace {

/// As many samples as keep N(u), queries, keys, values and mix in the second-level cache; where the weights alone are
/// larger than that, enough to be worth reading them again.
int samples_at_a_time(const SlabContext& context, std::size_t number_size) {
  constexpr std::size_t cache = 768 * 1024;
  std::size_t most_tokens = 0;
  for (int rank = 0; rank < context.line->size(); ++rank)
    most_tokens = std::max(most_tokens, static_cast<std::size_t>(context.line->block(rank).count()));
  const std::size_t per_sample = 6 * most_tokens * static_cast<std::size_t>(context.width) * number_size;
  const auto all = static_cast<std::size_t>(context.samples), width = static_cast<std::size_t>(context.width);
  const std::size_t rows = 4 * width * width * number_size > cache ? 1024 : 1;
  const std::size_t least = (rows + most_tokens - 1) / most_tokens;
  const std::size_t fit = std::min(std::max(cache / per_sample, least), all);
  const std::size_t chunks = (all + fit - 1) / fit;
  return static_cast<int>((all + chunks - 1) / chunks);
}

template <class T>
HeadShape<T> shape_of(const SlabContext& context, const AttentionSettings& settings) {
  const int channels = context.width / settings.heads;
  return {.channels = channels,
          .scale = settings.kernel == Kernel::dot ? T(1) / std::sqrt(static_cast<T>(channels)) : T(1),
          .causal = context.mask.causal,
          .linear = settings.normalisation == Normalisation::linear};
}

}  // namespace

template <class T>
AttentionChunk<T>::AttentionChunk(const SlabContext& borrowed, const AttentionSettings& attention_settings,
                                  Operands operands)
    : context(borrowed),
      settings(attention_settings),
      half_steps(settings.normalisation == Normalisation::sinkhorn ? settings.sinkhorn_iterations : 1),
      shape(shape_of<T>(context, settings)),
      kernel(shape),
      width(static_cast<std::size_t>(context.width)),
      heads(static_cast<std::size_t>(settings.heads)),
      tokens(static_cast<std::size_t>(context.line->block().count())),
      ring(*context.line),
      w_q(operands),
      w_kv(operands),
      w_o(operands),
      most_(samples_at_a_time(context, sizeof(T))) {
  const std::size_t all = static_cast<std::size_t>(most_) * tokens;
  ld = all + simd::lanes<T>;
  static_cast<Forward&>(*this) = make_forward();
  projected.resize(all * width);
  top.resize(heads * ld);
  sum.resize(heads * ld);
  my_index_.resize(tokens);
  weight_term.assign(tokens, shape.linear ? T(1) : T(0));
  for (std::size_t t = 0; t < tokens; ++t) {
    my_index_[t] = context.line->global_index(context.line->rank(), static_cast<int>(t));
    if (context.mask.weight.empty()) continue;
    const double weight = context.mask.weight[my_index_[t]];
    weight_term[t] = static_cast<T>(shape.linear ? weight : std::log(weight));
  }
}

template <class T>
AttentionForward<T> AttentionChunk<T>::make_forward() const {
  const std::size_t all = static_cast<std::size_t>(most_) * tokens;
  Forward forward;
  forward.x.resize(all * width);
  forward.q.resize(width * ld);
  forward.mix.resize(width * ld);
  forward.kv.resize(all * (2 * width + heads));
  if (half_steps > 1) {
    forward.k.resize(width * ld);
    forward.q_items.resize(all * (width + heads));
  }
  if (settings.kernel == Kernel::l2) forward.half_norm.resize(heads * ld);
  return forward;
}

template <class T>
void AttentionChunk<T>::gather(const double* slab, double scale, T* y) const {
  for_samples([&](std::size_t from, std::size_t to) {
    for (std::size_t t = 0; t < tokens; ++t, from += context.row(), to += width)
      for (std::size_t c = 0; c < width; ++c) y[to + c] = static_cast<T>(scale * slab[from + c]);
  });
}

template <class T>
void AttentionChunk<T>::scatter(const T* rows, const T* bias, double scale, const double* base,
                                double* out) const {
  for_samples([&](std::size_t to, std::size_t from) {
    for (std::size_t t = 0; t < tokens; ++t, to += context.row(), from += width)
      if (bias != nullptr)
        simd::set_sum(scale, rows + from, bias, width, base + to, out + to);
      else
        simd::set_sum(scale, rows + from, width, base + to, out + to);
  });
}

template <class T>
void AttentionChunk<T>::normalise(const AttentionWeights<const T>& weights, const double* u, T* y) const {
  if (!settings.layer_norm) return gather(u, 1.0, y);
  for_samples([&](std::size_t from, std::size_t to) {
    layer_norm(u + from, context.row(), static_cast<int>(tokens), context.width, weights.eps, weights.gain,
               weights.bias, y + to, width);
  });
}

template <class T>
void AttentionChunk<T>::set_maps(const AttentionWeights<const T>& weights) {
  w_q.set(weights.w_qkv, width, width);
  w_kv.set(weights.w_qkv + width * width, 2 * width, width);
  w_o.set(weights.w_o, width, width);
}

template <class T>
void AttentionChunk<T>::project(const AttentionWeights<const T>& weights, const double* u) {
  normalise(weights, u, x.data());
  const std::size_t r = rows();
  w_q.apply(r, x.data(), projected.data());
  transpose(projected.data(), r, width, width, q.data(), ld);
  for (std::size_t c = 0; c < width; ++c)
    for (std::size_t i = c * ld; i < c * ld + r; ++i) q[i] += weights.b_qkv[c];
  w_kv.apply(r, x.data(), kv.data());
  const T* const b_kv = weights.b_qkv + width;
  for (std::size_t first = 0; first < r * 2 * width; first += 2 * width)
    for (std::size_t c = 0; c < 2 * width; ++c) kv[first + c] += b_kv[c];
  if (settings.kernel == Kernel::l2) key_products(kv, T(0.5), half_norm);
}

template <class T>
void AttentionChunk<T>::key_products(const std::vector<T>& other, T factor, std::vector<T>& out) const {
  const auto dh = static_cast<std::size_t>(shape.channels);
  for (std::size_t i = 0; i < rows(); ++i)
    for (std::size_t h = 0; h < heads; ++h) {
      const std::size_t at = i * 2 * width + h * dh;
      T product = 0;
      for (std::size_t c = at; c < at + dh; ++c) product += kv[c] * other[c];
      out[h * ld + i] = factor * product;
    }
}

template <class T>
void AttentionChunk<T>::set_output(const T* b_o, const std::vector<T>& lanes, double scale,
                                   const double* base, double* out) {
  w_o.apply(rows(), Stored::transposed, lanes.data(), ld, projected.data());
  scatter(projected.data(), b_o, scale, base, out);
}

template <class T>
const std::vector<int>& AttentionChunk<T>::indices_of(int rank) {
  if (rank == context.line->rank()) return my_index_;
  if (rank != whose_index_) {
    their_index_.resize(context.line->block(rank).count());
    for (std::size_t t = 0; t < their_index_.size(); ++t)
      their_index_[t] = context.line->global_index(rank, static_cast<int>(t));
    whose_index_ = rank;
  }
  return their_index_;
}

template <class T>
int AttentionChunk<T>::real_items(const std::vector<int>& index, std::size_t sample) const {
  if (context.mask.length.empty()) return static_cast<int>(index.size());
  const int length = context.mask.length[static_cast<std::size_t>(first_) + sample];
  return static_cast<int>(std::lower_bound(index.begin(), index.end(), length) - index.begin());
}

template <class T>
std::size_t AttentionChunk<T>::bytes() const {
  return Forward::bytes() + ring.bytes() + w_q.bytes() + w_kv.bytes() + w_o.bytes() +
         bytes_of(projected, top, sum, weight_term, my_index_, their_index_);
}

// The normalisation of the kernel: soft-max, or alternating half-steps in the log domain.
//
//   P(x, y) = exp(logit(x, y) + log w_y + g_y + f_x)
//   odd half-steps    f_x = -log sum_y w_y exp(logit + g_y)     rows of P sum to 1
//   even half-steps   g_y = -log sum_x w_x exp(logit + f_x)     columns sum to 1 with weights w_x
//
// x and y run over real tokens; f is computed for padded rows too, but they enter no column. Soft-max is the
// first half-step with values. Source: Sander et al., arXiv 2110.11773, section 3.1; log domain as in Peyre
// and Cuturi, Computational Optimal Transport, section 4.4. Linear attention has one half-step with f = 0.

namespace {

/// The running sums of one side from the start; with values, `mix` too.
template <class T>
void stream(AttentionChunk<T>& chunk, Side side, bool values) {
  chunk.ring.visit(chunk.items(side).data(), chunk.per_token(side), [&](int rank, const T* block) {
    chunk.for_places(side, values, rank, block,
                     [&](const Home<T>& home, const Items<T>& items, const Place& at) {
                       const RunningMix<T> out{chunk.top.data() + at.lane_number,
                                               chunk.sum.data() + at.lane_number, chunk.mix.data() + at.lane};
                       chunk.kernel.stream(home, items, at.fresh, out);
                     });
  });
}

/// Transposes keys into lanes and queries into items.
template <class T>
void turn_for_columns(AttentionChunk<T>& chunk) {
  const std::size_t r = chunk.rows(), width = chunk.width;
  row_major(chunk.k.data(), width, r, chunk.ld) =
      row_major<const T>(chunk.kv.data(), r, width, 2 * width).transpose();
  row_major(chunk.q_items.data(), r, width) =
      row_major<const T>(chunk.q.data(), width, r, chunk.ld).transpose();
}

}  // namespace

template <class T>
void AttentionChunk<T>::set_beta(Side side, const std::vector<T>* other) {
  const std::size_t r = rows();
  const bool travelling_keys = side == Side::rows && settings.kernel == Kernel::l2;
  T* beta = items(side).data() + r * columns(side);
  for (std::size_t h = 0; h < heads; ++h, beta += r) {
    for (std::size_t i = 0; i < r; ++i) beta[i] = weight_term[i % tokens];
    if (travelling_keys)
      for (std::size_t i = 0; i < r; ++i) beta[i] -= half_norm[h * ld + i];
    if (other != nullptr)
      for (std::size_t i = 0; i < r; ++i) beta[i] += (*other)[h * ld + i];
  }
}

template <class T>
std::vector<T> AttentionChunk<T>::plan_offset(int step) const {
  std::vector<T> offset = potential[step];
  if (step % 2 == 1 && settings.kernel == Kernel::l2)
    for (std::size_t i = 0; i < offset.size(); ++i) offset[i] -= half_norm[i];
  return offset;
}

template <class T>
void AttentionChunk<T>::solve(bool keep) {
  const std::size_t r = rows();
  potential.resize(half_steps);
  const auto keep_potential = [&](int step) {
    auto& to = potential[step];
    to.resize(heads * ld);
    const bool made_up_for = step % 2 == 1 && settings.kernel == Kernel::l2;
    for (std::size_t h = 0; h < heads; ++h)
      for (std::size_t i = h * ld; i < h * ld + r; ++i)
        to[i] = (made_up_for ? half_norm[i] : T(0)) - (top[i] + std::log(sum[i]));
  };

  set_beta(Side::rows, nullptr);
  if (half_steps > 1) turn_for_columns(*this);
  for (int step = 0; step < half_steps; ++step) {
    const bool last = step + 1 == half_steps;
    if (step % 2 == 0) {
      stream(*this, Side::rows, last);
      if (keep || !last) keep_potential(step);
    } else {
      set_beta(Side::columns, &potential[static_cast<std::size_t>(step) - 1]);
      stream(*this, Side::columns, false);
      keep_potential(step);
      set_beta(Side::rows, &potential[step]);
    }
  }
  const bool rows_last = half_steps % 2 == 1;
  if (!rows_last) stream(*this, Side::rows, true);

  for (std::size_t h = 0; h < heads; ++h) {
    T* const factor = sum.data() + h * ld;
    for (std::size_t i = 0; i < r; ++i)
      factor[i] =
          rows_last
              ? T(1) / factor[i]
              : std::exp(top[h * ld + i] + potential[static_cast<std::size_t>(half_steps) - 2][h * ld + i]);
    const auto dh = static_cast<std::size_t>(shape.channels);
    for (std::size_t c = h * dh; c < (h + 1) * dh; ++c) {
      T* const row = mix.data() + c * ld;
      for (std::size_t i = 0; i < r; ++i) row[i] *= factor[i];
    }
  }
}

template struct AttentionChunk<float>;
template struct AttentionChunk<double>;

}  // namespace fluxformer
