// J^T w and the gradient with respect to the parameters, half-step by half-step backwards. The plan P is
// known from the potentials kept in the forward pass:
//
//   final rows     s = P (mix_bar . v - c)      v_bar += sum_x P mix_bar
//                  c = mix_bar . mix if a row half-step was the last (c is then the adjoint of its
//                  potential), else 0
//   a half-step    s = -P c                     c: the adjoint of its potential
//   both           logit_bar = s    a_bar += scale sum s b    b_bar += scale sum s a    beta_bar += sum s
//
// Linear attention has s = w_y mix_bar . v in its only half-step, with c = 0.
// Nothing of size n is kept: the adjoints of keys, values and potentials follow the items around the ring.

#include "base/phases.hpp"
#include "operators/attention/attention_work.hpp"
#include "operators/kernels/simd_arrays.hpp"
#include "operators/kernels/transpose.hpp"
#include "operators/layer_norm.hpp"

namespace fluxformer {

namespace {

/// One half-step backwards; `other_bar` += the adjoint of the travelling side's potential.
template <class T>
struct AdjointPass {
  AttentionChunk<T>& chunk;

  void run(Side side, bool values, int step, const std::vector<T>& centre, const std::vector<T>& mix_bar,
           std::vector<T>& home_bar, std::vector<T>& items_bar, std::vector<T>& other_bar) const {
    const std::size_t r = chunk.rows(), ld = chunk.ld;
    const std::size_t columns = chunk.columns(side);
    T* const beta_bar = items_bar.data() + r * columns;
    const bool potentials = chunk.half_steps > 1 || chunk.settings.kernel == Kernel::l2;  // beta matters
    if (potentials) std::fill_n(beta_bar, r * chunk.heads, T(0));
    const std::vector<T> offset = chunk.plan_offset(step);
    chunk.ring.visit_and_collect(
        chunk.items(side).data(), chunk.per_token(side), chunk.per_token(side),
        [&](int rank, const T* block, T* bar) {
          chunk.for_places(
              side, values, rank, block, [&](const Home<T>& home, const Items<T>& items, const Place& at) {
                T* const b_bar = bar + at.item;
                chunk.kernel.adjoint(
                    home, mix_bar.data() + at.lane, items, offset.data() + at.lane_number,
                    centre.data() + at.lane_number, home_bar.data() + at.lane,
                    ItemBars<T>{b_bar, b_bar + chunk.width, potentials ? bar + at.item_beta : nullptr});
              });
        },
        items_bar.data());
    if (!potentials) return;
    for (std::size_t h = 0; h < chunk.heads; ++h)
      for (std::size_t i = 0; i < r; ++i) other_bar[h * ld + i] += beta_bar[h * r + i];
  }
};

/// One chunk from the output back to the input.
template <class T>
struct Backwards {
  const AttentionWeights<const T>& p;
  AttentionChunk<T>& chunk;
  AttentionAdjointWork<T>& bar;
  const LayerWeights<double>* gradient;

  void pull_output(const double* w, double scale);
  void pull_kernel();
  void pull_input(const double* u, const double* base, double* u_bar);
};

// out = alpha (W_O mix + b_o)
template <class T>
void Backwards<T>::pull_output(const double* w, double scale) {
  const std::size_t r = chunk.rows(), width = chunk.width, ld = chunk.ld;
  const auto dh = static_cast<std::size_t>(chunk.shape.channels);
  bar.seed.resize(r * width);
  chunk.gather(w, scale, bar.seed.data());
  bar.x.resize(r * width);
  chunk.w_o.apply_transpose(r, bar.seed.data(), InsertMode::insert, bar.x.data());
  bar.mix.resize(width * ld);
  transpose(bar.x.data(), r, width, width, bar.mix.data(), ld);
  for (std::size_t c = 0; c < width; ++c)
    for (std::size_t i = c * ld; i < c * ld + r; ++i) bar.mix[i] *= static_cast<T>(*p.alpha);

  bar.f.assign(chunk.heads * ld, T(0));
  if (!chunk.shape.linear)
    for (std::size_t c = 0; c < width; ++c)
      for (std::size_t i = 0; i < r; ++i)
        bar.f[c / dh * ld + i] += bar.mix[c * ld + i] * chunk.mix[c * ld + i];

  if (gradient == nullptr) return;
  const AttentionWeights<double>& to = gradient->attention;
  bar.product.resize(2 * width * width);
  T* const turned = bar.product.data() + width * width;  // sum_rows mix seed^T
  chunk.w_o.gradient(r, Stored::transposed, chunk.mix.data(), ld, bar.seed.data(), InsertMode::insert,
                     turned);
  transpose(turned, width, width, width, bar.product.data(), width);
  bar.sums.assign(width, T(0));
  simd::add_rows(bar.seed.data(), r, width, bar.sums.data());
  // <seed, W_O mix + b_o>
  *to.alpha +=
      inner_product(p.w_o, bar.product.data(), width * width) + inner_product(p.b_o, bar.sums.data(), width);
  simd::set_sum(*p.alpha, bar.product.data(), width * width, to.w_o, to.w_o);
  simd::set_sum(*p.alpha, bar.sums.data(), width, to.b_o, to.b_o);
}

// From mix_bar (and bar.f = mix_bar . mix; linear: 0) to the adjoints of q, k, v.
template <class T>
void Backwards<T>::pull_kernel() {
  const std::size_t r = chunk.rows(), width = chunk.width, heads = chunk.heads, ld = chunk.ld;
  const auto dh = static_cast<std::size_t>(chunk.shape.channels);
  const bool l2 = chunk.settings.kernel == Kernel::l2;
  const int steps = chunk.half_steps;
  const bool rows_last = steps % 2 == 1;
  const AdjointPass<T> pass{chunk};
  bar.q.assign(width * ld, T(0));
  bar.kv.assign(r * (2 * width + heads), T(0));

  // Rows backwards: bar.g becomes the adjoint of the columns' potential; -|k|^2/2 is part of beta.
  const auto rows_backwards = [&](bool values, int step, int after, const std::vector<T>& centre) {
    chunk.set_beta(Side::rows, after < 0 ? nullptr : &chunk.potential[after]);
    bar.g.assign(heads * ld, T(0));
    pass.run(Side::rows, values, step, centre, bar.mix, bar.q, bar.kv, bar.g);
    if (!l2) return;
    for (std::size_t i = 0; i < r; ++i)
      for (std::size_t c = 0; c < width; ++c)
        bar.kv[i * 2 * width + c] -= bar.g[c / dh * ld + i] * chunk.kv[i * 2 * width + c];
  };
  if (rows_last) {
    rows_backwards(true, steps - 1, steps - 2, bar.f);
  } else {
    bar.none.assign(heads * ld, T(0));
    rows_backwards(true, steps - 2, steps - 1, bar.none);
  }
  if (steps == 1) return;

  if (rows_last) bar.f.assign(heads * ld, T(0));
  bar.k.assign(width * ld, T(0));
  bar.q_items.assign(r * (width + heads), T(0));
  for (int step = rows_last ? steps - 2 : steps - 1; step >= 0; --step) {
    if (step % 2 == 0) {
      rows_backwards(false, step, step - 1, bar.f);
      bar.f.assign(heads * ld, T(0));
    } else {
      chunk.set_beta(Side::columns, &chunk.potential[static_cast<std::size_t>(step) - 1]);
      pass.run(Side::columns, false, step, bar.g, bar.mix, bar.k, bar.q_items, bar.f);
      if (l2)
        for (std::size_t c = 0; c < width; ++c)
          for (std::size_t i = 0; i < r; ++i)
            bar.k[c * ld + i] += bar.g[c / dh * ld + i] * chunk.k[c * ld + i];
    }
  }
  row_major(bar.q.data(), width, r, ld) += row_major(bar.q_items.data(), r, width).transpose();
  row_major(bar.kv.data(), r, width, 2 * width) += row_major(bar.k.data(), width, r, ld).transpose();
}

// q, k, v = W N(u) + b
template <class T>
void Backwards<T>::pull_input(const double* u, const double* base, double* u_bar) {
  const std::size_t r = chunk.rows(), width = chunk.width;
  if (gradient != nullptr) {
    const AttentionWeights<double>& to = gradient->attention;
    bar.product.resize(3 * width * width);
    chunk.w_q.gradient(r, Stored::transposed, bar.q.data(), chunk.ld, chunk.x.data(), InsertMode::insert,
                       bar.product.data());
    chunk.w_kv.gradient(r, Stored::plain, bar.kv.data(), 2 * width, chunk.x.data(), InsertMode::insert,
                        bar.product.data() + width * width);
    simd::set_sum(1.0, bar.product.data(), 3 * width * width, to.w_qkv, to.w_qkv);
    for (std::size_t c = 0; c < width; ++c) {
      const T* const row = bar.q.data() + c * chunk.ld;
      to.b_qkv[c] += static_cast<double>(simd::sum_over<T>(r, [row](auto at) { return at(row); }));
    }
    bar.sums.assign(2 * width, T(0));
    simd::add_rows(bar.kv.data(), r, 2 * width, bar.sums.data());
    simd::set_sum(1.0, bar.sums.data(), 2 * width, to.b_qkv + width, to.b_qkv + width);
  }
  bar.x.resize(r * width);
  chunk.w_q.apply_transpose(r, Stored::transposed, bar.q.data(), chunk.ld, InsertMode::insert, bar.x.data());
  chunk.w_kv.apply_transpose(r, bar.kv.data(), InsertMode::add, bar.x.data());
  if (!chunk.settings.layer_norm) return chunk.scatter(bar.x.data(), nullptr, 1.0, base, u_bar);
  chunk.for_samples([&](std::size_t at, std::size_t from) {
    layer_norm_adjoint(u + at, chunk.context.row(), bar.x.data() + from, width,
                       static_cast<int>(chunk.tokens), chunk.context.width, p.eps, p.gain, 1.0, base + at,
                       u_bar + at, gradient != nullptr ? gradient->attention.gain : nullptr,
                       gradient != nullptr ? gradient->attention.bias : nullptr);
  });
}

}  // namespace

template <class T>
void Attention<T>::set_adjoint_of_chunk(const AttentionWeights<const T>& weights, const double* u,
                                        const double* w, double scale, const double* base, double* u_bar,
                                        const LayerWeights<double>* gradient) {
  Backwards<T> backwards{weights, work_->chunk, work_->bar, gradient};
  backwards.pull_output(w, scale);
  backwards.pull_kernel();
  backwards.pull_input(u, base, u_bar);
}

template <class T>
void Attention<T>::add_adjoint(const LayerWeights<const T>& weights, const double* u, const double* w,
                               double scale, double* u_bar, const LayerWeights<double>* gradient) {
  const InPiece piece(Piece::attention);
  count(3);
  AttentionChunk<T>& chunk = work_->chunk;
  chunk.set_maps(weights.attention);
  chunk.for_chunks([&] {
    chunk.project(weights.attention, u);
    chunk.solve(true);
    set_adjoint_of_chunk(weights.attention, u, w, scale, u_bar, u_bar, gradient);
  });
}

template <class T>
void Attention<T>::set_adjoint_kept(const LayerWeights<const T>& weights, const double* u, const double* w,
                                    double scale, const double* base, double* u_bar,
                                    const LayerWeights<double>* gradient, TermTape& kept) {
  const InPiece piece(Piece::attention);
  count(2);
  work_->chunk.set_maps(weights.attention);
  work_->for_kept_chunks(
      kept, [&] { set_adjoint_of_chunk(weights.attention, u, w, scale, base, u_bar, gradient); });
}

#define FLUXFORMER_INSTANTIATE(T)                                                                           \
  template void Attention<T>::set_adjoint_of_chunk(const AttentionWeights<const T>&, const double*,         \
                                                   const double*, double, const double*, double*,           \
                                                   const LayerWeights<double>*);                            \
  template void Attention<T>::add_adjoint(const LayerWeights<const T>&, const double*, const double*,       \
                                          double, double*, const LayerWeights<double>*);                    \
  template void Attention<T>::set_adjoint_kept(const LayerWeights<const T>&, const double*, const double*,  \
                                               double, const double*, double*, const LayerWeights<double>*, \
                                               TermTape&);
FLUXFORMER_INSTANTIATE(float)
FLUXFORMER_INSTANTIATE(double)
#undef FLUXFORMER_INSTANTIATE

}  // namespace fluxformer
