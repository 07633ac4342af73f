// J v. The potentials of the normalisation are known from the forward pass: each half-step takes one tour of
// the ring, with items and their variations:
//
//   f' = -sum_y P u,  u = logit' + beta'      (P: the plan right after this half-step; columns likewise)
//   mix' = sum_y P (u v + v') + f' mix        (P: the final plan)

#include "base/phases.hpp"
#include "operators/attention/attention_tangent_pass.hpp"
#include "operators/attention/attention_work.hpp"
#include "operators/kernels/transpose.hpp"
#include "operators/layer_norm.hpp"

namespace fluxformer {

namespace {

/// [head][row] lanes -> the beta' of items: -(|k|^2/2)' of travelling keys and the other side's variation.
template <class T>
void set_beta_dot(const AttentionChunk<T>& chunk, Side side, const std::vector<T>& half_norm_dot,
                  const std::vector<T>* other, std::vector<T>& items_dot) {
  const std::size_t r = chunk.rows();
  T* beta = items_dot.data() + r * chunk.columns(side);
  for (std::size_t h = 0; h < chunk.heads; ++h, beta += r)
    for (std::size_t i = 0; i < r; ++i)
      beta[i] = (other != nullptr ? (*other)[h * chunk.ld + i] : T(0)) -
                (side == Side::rows ? half_norm_dot[h * chunk.ld + i] : T(0));
}

}  // namespace

template <class T>
void Attention<T>::set_tangent_of_chunk(const AttentionWeights<const T>& w, const double* u, const double* v,
                                        double scale, const double* base, double* out) {
  AttentionChunk<T>& chunk = work_->chunk;
  auto& dot = work_->dot;
  const std::size_t r = chunk.rows(), width = chunk.width, heads = chunk.heads, ld = chunk.ld;
  const auto dh = static_cast<std::size_t>(chunk.shape.channels);
  dot.x.resize(r * width);
  if (settings_.layer_norm) {
    chunk.for_samples([&](std::size_t at, std::size_t to) {
      layer_norm_tangent(u + at, v + at, context_.row(), static_cast<int>(chunk.tokens), context_.width,
                         w.eps, w.gain, dot.x.data() + to, width);
    });
  } else {
    chunk.gather(v, 1.0, dot.x.data());
  }
  dot.q.resize(width * ld);
  dot.kv.resize(r * (2 * width + heads));
  chunk.w_q.apply(r, dot.x.data(), chunk.projected.data());
  transpose(chunk.projected.data(), r, width, width, dot.q.data(), ld);
  chunk.w_kv.apply(r, dot.x.data(), dot.kv.data());
  dot.half_norm.assign(heads * ld, T(0));
  if (settings_.kernel == Kernel::l2) chunk.key_products(dot.kv, T(1), dot.half_norm);
  if (chunk.half_steps > 1) {
    dot.k.resize(width * ld);
    dot.q_items.resize(r * (width + heads));
    row_major(dot.k.data(), width, r, ld) =
        row_major<const T>(dot.kv.data(), r, width, 2 * width).transpose();
    row_major(dot.q_items.data(), r, width) = row_major<const T>(dot.q.data(), width, r, ld).transpose();
  }

  const TangentPass<T> pass{chunk, dot.slope};
  const auto rows_pass = [&](int after, int step, bool values) {
    chunk.set_beta(Side::rows, after < 0 ? nullptr : &chunk.potential[after]);
    set_beta_dot(chunk, Side::rows, dot.half_norm, after < 0 ? nullptr : &dot.g, dot.kv);
    pass.run(Side::rows, step, dot.q, dot.kv, dot.travelling, values ? &dot.mix : nullptr);
  };
  const bool rows_last = chunk.half_steps % 2 == 1;
  for (int step = 0; step < chunk.half_steps; ++step) {
    if (step % 2 == 0) {
      rows_pass(step - 1, step, step + 1 == chunk.half_steps);
      dot.f.assign(heads * ld, T(0));
      for (std::size_t i = 0; i < dot.f.size(); ++i) dot.f[i] = -dot.slope[i];
    } else {
      chunk.set_beta(Side::columns, &chunk.potential[static_cast<std::size_t>(step) - 1]);
      set_beta_dot(chunk, Side::columns, dot.half_norm, &dot.f, dot.q_items);
      pass.run(Side::columns, step, dot.k, dot.q_items, dot.travelling, nullptr);
      dot.g.assign(heads * ld, T(0));
      for (std::size_t i = 0; i < dot.g.size(); ++i) dot.g[i] = dot.half_norm[i] - dot.slope[i];
    }
  }
  if (!rows_last) rows_pass(chunk.half_steps - 1, chunk.final_row_step(), true);

  for (std::size_t c = 0; c < width; ++c)
    for (std::size_t i = 0; i < r; ++i) dot.mix[c * ld + i] += dot.f[c / dh * ld + i] * chunk.mix[c * ld + i];
  chunk.set_output(nullptr, dot.mix, scale * *w.alpha, base, out);
}

template <class T>
void Attention<T>::add_tangent(const LayerWeights<const T>& weights, const double* u, const double* v,
                               double scale, double* out) {
  const InPiece piece(Piece::attention);
  count(2);
  AttentionChunk<T>& chunk = work_->chunk;
  chunk.set_maps(weights.attention);
  chunk.for_chunks([&] {
    chunk.project(weights.attention, u);
    chunk.solve(true);
    set_tangent_of_chunk(weights.attention, u, v, scale, out, out);
  });
}

template <class T>
void Attention<T>::set_tangent_kept(const LayerWeights<const T>& weights, const double* u, const double* v,
                                    double scale, const double* base, double* out, TermTape& kept) {
  const InPiece piece(Piece::attention);
  count(2);
  work_->chunk.set_maps(weights.attention);
  work_->for_kept_chunks(kept, [&] { set_tangent_of_chunk(weights.attention, u, v, scale, base, out); });
}

#define FLUXFORMER_INSTANTIATE(T)                                                                          \
  template void Attention<T>::set_tangent_of_chunk(const AttentionWeights<const T>&, const double*,        \
                                                   const double*, double, const double*, double*);         \
  template void Attention<T>::add_tangent(const LayerWeights<const T>&, const double*, const double*,      \
                                          double, double*);                                                \
  template void Attention<T>::set_tangent_kept(const LayerWeights<const T>&, const double*, const double*, \
                                               double, const double*, double*, TermTape&);
FLUXFORMER_INSTANTIATE(float)
FLUXFORMER_INSTANTIATE(double)
#undef FLUXFORMER_INSTANTIATE

}  // namespace fluxformer
