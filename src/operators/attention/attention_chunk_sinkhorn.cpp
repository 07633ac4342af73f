// The normalisation of the kernel: soft-max, or alternating half-steps in the log domain.
//
//   P(x, y) = exp(logit(x, y) + log w_y + g_y + f_x)
//   odd half-steps    f_x = -log sum_y w_y exp(logit + g_y)     rows of P sum to 1
//   even half-steps   g_y = -log sum_x w_x exp(logit + f_x)     columns sum to 1 with weights w_x
//
// x and y run over real tokens; f is computed for padded rows too, but they enter no column. Soft-max is the
// first half-step with values. Source: Sander et al., arXiv 2110.11773, section 3.1; log domain as in Peyre
// and Cuturi, Computational Optimal Transport, section 4.4. Linear attention has one half-step with f = 0.

#include <cmath>

#include "operators/attention/attention_chunk.hpp"

namespace fluxformer {

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

template void AttentionChunk<float>::set_beta(Side, const std::vector<float>*);
template void AttentionChunk<double>::set_beta(Side, const std::vector<double>*);
template std::vector<float> AttentionChunk<float>::plan_offset(int) const;
template std::vector<double> AttentionChunk<double>::plan_offset(int) const;
template void AttentionChunk<float>::solve(bool);
template void AttentionChunk<double>::solve(bool);

}  // namespace fluxformer
