#include "operators/attention/attention_chunk.hpp"

#include <cmath>

#include "base/error.hpp"
#include "operators/kernels/product.hpp"
#include "operators/kernels/simd.hpp"

namespace fluxformer {

namespace {

/// Samples of a chunk: as many as keep N(u), queries, keys, values and mix in the second-level cache; where
/// the weights alone are larger than that, enough to be worth reading them again.
Index samples_at_a_time(const SlabContext& context, const AttentionSettings& settings, Index number_size) {
  constexpr Index cache = 768 * 1024;
  Index most_tokens = 0;
  for (int rank = 0; rank < context.line->size(); ++rank)
    most_tokens = std::max(most_tokens, Index{context.line->block(rank).count()});
  const Index all = context.samples, width = context.width, channels = settings.channels(context.width);
  const Index query_width = settings.heads * channels, key_width = settings.key_groups() * channels;
  // N(u), q, k, v, mix, and what W_Q or W_O makes.
  const Index per_token = width + 2 * query_width + 2 * key_width + std::max(width, query_width);
  const Index per_sample = most_tokens * per_token * number_size;
  // W_Q, W_K, W_V and W_O
  const Index weights = 2 * (query_width + key_width) * width;
  const Index rows = weights * number_size > cache ? 1024 : 1;
  const Index least = (rows + most_tokens - 1) / most_tokens;
  const Index fit = std::min(std::max(cache / per_sample, least), all);
  // Chunks of equal size, up to one sample.
  const Index chunks = (all + fit - 1) / fit;
  return (all + chunks - 1) / chunks;
}

template <class T>
HeadShape<T> shape_of(const SlabContext& context, const AttentionSettings& settings) {
  const Index channels = settings.channels(context.width);
  // l2: -|q - k|^2 / 2 = q . k - |k|^2 / 2 - |q|^2 / 2, of which the last is the same in a row and drops out.
  return {.channels = channels,
          .scale = settings.kernel == Kernel::dot ? T(1) / std::sqrt(static_cast<T>(channels)) : T(1),
          .linear = settings.normalisation == Normalisation::linear};
}

/// The steps of the ring after which no rank sees any of the blocks that would still come to it, the same on
/// every rank. A rank's tokens are taken for all between its first and its last one.
int steps_of_ring(const TokenLine& line, const Reach& reach) {
  const auto first = [&](int rank) -> Index { return line.global_index(rank, 0); };
  const auto last = [&](int rank) -> Index { return line.global_index(rank, line.block(rank).count() - 1); };
  for (int steps = line.size(); steps > 1; --steps)
    for (int rank = 0; rank < line.size(); ++rank) {
      const int shown = (rank + line.size() - (steps - 1)) % line.size();
      if (first(shown) <= last(rank) + reach.ahead && last(shown) >= first(rank) - reach.behind) return steps;
    }
  return 1;
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
      width(context.width),
      heads(settings.heads),
      groups(settings.key_groups()),
      tokens(context.line->block().count()),
      query_width(heads * shape.channels),
      key_width(groups * shape.channels),
      ring(*context.line),
      w_o(operands),
      most_(samples_at_a_time(context, settings, sizeof(T))) {
  const Index all = most_ * tokens;
  ld = all + simd::lanes<T>;  // a vector load may reach past the last row
  static_cast<Forward&>(*this) = make_forward();
  projected.resize(all * std::max(width, query_width));
  top.resize(heads * ld);
  sum.resize(heads * ld);
  my_index_.resize(tokens);
  weight_term.assign(tokens, shape.linear ? T(1) : T(0));
  for (Index t = 0; t < tokens; ++t) {
    my_index_[t] = context.line->global_index(context.line->rank(), t);
    if (context.mask.weight.empty()) continue;
    const double weight = context.mask.weight[my_index_[t]];
    // Soft-max adds log w_y to the logits; linear attention multiplies by w_y.
    weight_term[t] = static_cast<T>(shape.linear ? weight : std::log(weight));
  }
}

template <class T>
AttentionForward<T> AttentionChunk<T>::make_forward() const {
  const Index all = most_ * tokens;
  Forward forward;
  forward.x.resize(all * width);
  if (settings.qk_norm) {
    forward.raw_q.resize(all * query_width);
    forward.raw_k.resize(all * key_width);
  }
  forward.q.resize(query_width * ld);
  forward.mix.resize(query_width * ld);
  forward.kv.resize(all * (2 * key_width + heads));
  if (half_steps > 1) {
    forward.k.resize(key_width * ld);
    forward.q_block.resize(all * (query_width + heads));
  }
  if (settings.kernel == Kernel::l2) forward.half_norm.resize(heads * ld);
  return forward;
}

template <class T>
void AttentionChunk<T>::gather(const double* slab, double scale, T* y) const {
  // From [token][sample][channel] of the slab to [sample][token][channel] of the chunk.
  for_samples([&](Index from, Index to) {
    for (Index t = 0; t < tokens; ++t, from += context.row(), to += width)
      for (Index c = 0; c < width; ++c) y[to + c] = static_cast<T>(scale * slab[from + c]);
  });
}

template <class T>
void AttentionChunk<T>::scatter(const T* rows, const T* bias, double scale, const double* base,
                                double* out) const {
  // out = base + scale (rows + bias), back to [token][sample][channel]
  for_samples([&](Index to, Index from) {
    for (Index t = 0; t < tokens; ++t, to += context.row(), from += width)
      if (bias != nullptr)
        simd::set_sum(scale, rows + from, bias, width, base + to, out + to);
      else
        simd::set_sum(scale, rows + from, width, base + to, out + to);
  });
}

template <class T>
void AttentionChunk<T>::set_window(int window) {
  if (window > 0 && settings.normalisation == Normalisation::sinkhorn)
    throw BadInput("attention.window cannot be used with attention.normalisation = sinkhorn");
  reach = reach_of(context.mask.causal, window);
  ring.set_steps(steps_of_ring(*context.line, reach));
}

template <class T>
void AttentionChunk<T>::key_products(const std::vector<T>& other, T factor, std::vector<T>& out) const {
  const Index dh = shape.channels;
  // out[h][i] = factor sum over the channels c of head h's key of k[i][c] other[i][c]
  for (Index i = 0; i < rows(); ++i)
    for (Index h = 0; h < heads; ++h) {
      const Index at = i * 2 * key_width + group_of(h) * dh;
      T product = 0;
      for (Index c = at; c < at + dh; ++c) product += kv[c] * other[c];
      out[h * ld + i] = factor * product;
    }
}

template <class T>
void AttentionChunk<T>::set_output(const T* b_o, const std::vector<T>& lanes, double scale,
                                   const double* base, double* out) {
  // out = base + scale (W_O mix + b_O)
  w_o.apply(rows(), Stored::transposed, lanes.data(), ld, projected.data());
  scatter(projected.data(), b_o, scale, base, out);
}

template <class T>
const std::vector<int>& AttentionChunk<T>::indices_of(int rank) {
  if (rank == context.line->rank()) return my_index_;
  if (rank != whose_index_) {
    their_index_.resize(context.line->block(rank).count());
    for (Index t = 0; t < std::ssize(their_index_); ++t)
      their_index_[t] = context.line->global_index(rank, t);
    whose_index_ = rank;
  }
  return their_index_;
}

template <class T>
Index AttentionChunk<T>::real_tokens(const std::vector<int>& index, Index sample) const {
  if (context.mask.length.empty()) return std::ssize(index);
  const int length = context.mask.length[first_ + sample];
  // Indices increase, so that the real tokens come first.
  return std::lower_bound(index.begin(), index.end(), length) - index.begin();
}

template <class T>
std::size_t AttentionChunk<T>::bytes() const {
  return Forward::bytes() + ring.bytes() + w_o.bytes() +
         bytes_of(projected, top, sum, weight_term, my_index_, their_index_);
}

namespace {

/// One tour of the ring: the running sums of one side from the start; with values, `mix` too.
template <class T>
void stream(AttentionChunk<T>& chunk, Side side, bool values) {
  const auto add = [&](const QueryBlock<T>& queries, const KeyValueBlock<T>& keys, const HeadPosition& at) {
    const RunningMix<T> out{chunk.top.data() + at.lane_number, chunk.sum.data() + at.lane_number,
                            chunk.mix.data() + at.lane};
    chunk.kernel.stream(queries, keys, at.fresh, out);
  };
  chunk.ring.visit(chunk.travelling(side).data(), chunk.per_token(side),
                   [&](int rank, const T* block) { chunk.for_heads(side, values, rank, block, add); });
  if (chunk.kept != nullptr) chunk.for_kept_heads(add);
}

/// Transposes keys into lanes and queries into a block, for the half-steps of columns.
template <class T>
void transpose_for_columns(AttentionChunk<T>& chunk) {
  const Index r = chunk.rows(), queries = chunk.query_width, keys = chunk.key_width;
  row_major(chunk.k.data(), keys, r, chunk.ld) =
      row_major<const T>(chunk.kv.data(), r, keys, 2 * keys).transpose();
  row_major(chunk.q_block.data(), r, queries) =
      row_major<const T>(chunk.q.data(), queries, r, chunk.ld).transpose();
}

}  // namespace

template <class T>
void AttentionChunk<T>::set_beta(Side side, const std::vector<T>* other) {
  const Index r = rows();
  const bool travelling_keys = side == Side::rows && settings.kernel == Kernel::l2;
  T* beta = travelling(side).data() + r * columns(side);
  // beta_y = log w_y - |k_y|^2 / 2 + g_y, or for columns log w_x + f_x
  for (Index h = 0; h < heads; ++h, beta += r) {
    for (Index i = 0; i < r; ++i) beta[i] = weight_term[i % tokens];
    if (travelling_keys)
      for (Index i = 0; i < r; ++i) beta[i] -= half_norm[h * ld + i];
    if (other != nullptr)
      for (Index i = 0; i < r; ++i) beta[i] += (*other)[h * ld + i];
  }
}

template <class T>
std::vector<T> AttentionChunk<T>::plan_offset(int step) const {
  // log P = logit + beta + offset. Rows have the offset f_x, columns g_y and for l2 also -|k_y|^2 / 2, since
  // their logits leave out the norm of the key that stays.
  std::vector<T> offset = potential[step];
  if (step % 2 == 1 && settings.kernel == Kernel::l2)
    for (Index i = 0; i < std::ssize(offset); ++i) offset[i] -= half_norm[i];
  return offset;
}

template <class T>
void AttentionChunk<T>::begin_stretch(int window) {
  const auto& line = *context.line;
  for (Index t = 0; t < tokens; ++t) my_index_[t] = line.global_index(line.rank(), static_cast<int>(t));
  kept = &context.kept->template next<T>(window, 2 * key_width, settings.kernel == Kernel::l2 ? heads : 0);
  kept_beta_.assign(kept->index().size(), shape.linear ? T(1) : T(0));
}

template <class T>
void AttentionChunk<T>::keep_keys() {
  const Index r = rows(), stride = 2 * key_width;
  const T* const beta = kv.data() + r * stride;
  for (Index s = 0; s < samples_; ++s) {
    kept->add_keys(first_ + s, tokens, kv.data() + s * tokens * stride);
    for (Index h = 0; settings.kernel == Kernel::l2 && h < heads; ++h)
      kept->add_beta(first_ + s, h, tokens, beta + h * r + s * tokens);
  }
}

template <class T>
void AttentionChunk<T>::solve(bool keep) {
  const Index r = rows();
  potential.resize(half_steps);
  // f or g = -log sum exp(logit + beta) = -(top + log sum); 0 for a row that sees no key. For l2, the sums of
  // columns leave out the -|k|^2/2 of their own key, which g makes up for.
  const auto keep_potential = [&](int step) {
    auto& to = potential[step];
    to.resize(heads * ld);
    const bool norm_left_out = step % 2 == 1 && settings.kernel == Kernel::l2;
    for (Index h = 0; h < heads; ++h)
      for (Index i = h * ld; i < h * ld + r; ++i)
        to[i] = sum[i] == 0 ? T(0) : (norm_left_out ? half_norm[i] : T(0)) - (top[i] + std::log(sum[i]));
  };

  if (settings.kernel == Kernel::l2) key_products(kv, T(0.5), half_norm);
  set_beta(Side::rows, nullptr);
  if (half_steps > 1) transpose_for_columns(*this);
  // f from g, g from f, ...; the last half-step of rows sums the values, too.
  for (int step = 0; step < half_steps; ++step) {
    const bool last = step + 1 == half_steps;
    if (step % 2 == 0) {
      stream(*this, Side::rows, last);
      if (keep || !last) keep_potential(step);
    } else {
      set_beta(Side::columns, &potential[step - 1]);
      stream(*this, Side::columns, false);
      keep_potential(step);
      set_beta(Side::rows, &potential[step]);
    }
  }
  const bool rows_last = half_steps % 2 == 1;
  // After a half-step of columns, rows are summed once more with the last g, and keep the f before it.
  if (!rows_last) stream(*this, Side::rows, true);

  // mix := sum_y P v_y. If rows were normalised last, P = exp(logit - top) / sum; else, with the last f,
  // P = exp(logit - top) exp(top + f). A row that sees no key (of padding, behind a window) is 0.
  for (Index h = 0; h < heads; ++h) {
    T* const factor = sum.data() + h * ld;
    for (Index i = 0; i < r; ++i)
      if (!rows_last)
        factor[i] = std::exp(top[h * ld + i] + potential[half_steps - 2][h * ld + i]);
      else if (factor[i] != 0)
        factor[i] = T(1) / factor[i];
    const Index dh = shape.channels;
    for (Index c = h * dh; c < (h + 1) * dh; ++c) {
      T* const row = mix.data() + c * ld;
      for (Index i = 0; i < r; ++i) row[i] *= factor[i];
    }
  }
}

template struct AttentionChunk<float>;
template struct AttentionChunk<double>;

}  // namespace fluxformer
