// The tangent of the adjoint, for kernel dot with soft-max or linear: every product of the adjoint becomes two. With '
// for the variation along a direction of weights, u and w,
//
//   mix_bar' = (alpha W_O)^T seed' + (alpha W_O)'^T seed
//   centre' = mix_bar' . mix + mix_bar . mix' (linear: 0)
//   q_bar', k_bar', v_bar'                                       HeadKernel::adjoint_tangent
//   x_bar' = sum over q, k, v of W^T q_bar' + W'^T q_bar         W_bar' = q_bar' x^T + q_bar x'^T

#include "base/phases.hpp"
#include "operators/attention/attention_tangent_pass.hpp"
#include "operators/attention/attention_work.hpp"
#include "operators/kernels/simd_arrays.hpp"
#include "operators/layer_norm_second_order.hpp"

namespace fluxformer {

namespace {

/// The tangent of the adjoint of one chunk, from the output back to the input.
template <class T>
struct BackwardsAlong {
  const AttentionWeights<const T>&p, &p_dot;
  AttentionChunk<T>& chunk;
  const AttentionTangent<T>& dot;
  const AttentionAdjoint<T>& bar;
  AttentionAdjointWork<T>& bar_dot;
  const AttentionWeights<double>& to;

  void pull_output(const T* w_o, const T* w_o_dot, const std::vector<T>& seeds,
                   const std::vector<T>& seeds_dot);
  void pull_kernel(std::vector<T>& travelling);
  void pull_input(const double* u, const double* u_dot, const double* base, double* u_bar_dot);
};

// mix_bar = (alpha W_O)^T seed; the gradients of W_O and b_O, but for the variation of alpha
template <class T>
void BackwardsAlong<T>::pull_output(const T* w_o, const T* w_o_dot, const std::vector<T>& seeds,
                                    const std::vector<T>& seeds_dot) {
  const std::size_t r = chunk.rows(), width = chunk.width, ld = chunk.ld;
  const auto dh = static_cast<std::size_t>(chunk.shape.channels);
  const auto seed = row_major<const T>(seeds.data(), r, width),
             seed_dot = row_major<const T>(seeds_dot.data(), r, width);
  bar_dot.mix.resize(width * ld);
  set_product_rule(row_major(bar_dot.mix.data(), width, r, ld), row_major(w_o, width, width).transpose(),
                   row_major(w_o_dot, width, width).transpose(), seed.transpose(), seed_dot.transpose());
  bar_dot.f.assign(chunk.heads * ld, T(0));
  if (!chunk.shape.linear)
    for (std::size_t c = 0; c < width; ++c)
      for (std::size_t i = 0; i < r; ++i)
        bar_dot.f[c / dh * ld + i] +=
            bar_dot.mix[c * ld + i] * chunk.mix[c * ld + i] + bar.mix[c * ld + i] * dot.mix[c * ld + i];

  bar_dot.product.resize(3 * width * width);
  set_product_rule(row_major(bar_dot.product.data(), width, width), seed.transpose(), seed_dot.transpose(),
                   row_major<const T>(chunk.mix.data(), width, r, ld).transpose(),
                   row_major<const T>(dot.mix.data(), width, r, ld).transpose());
  bar_dot.sums.assign(2 * width, T(0));
  simd::add_rows(seeds_dot.data(), r, width, bar_dot.sums.data());
  *to.alpha += inner_product(p.w_o, bar_dot.product.data(), width * width) +
               inner_product(p.b_o, bar_dot.sums.data(), width);
  simd::set_sum(*p.alpha, bar_dot.product.data(), width * width, to.w_o, to.w_o);
  simd::set_sum(*p.alpha, bar_dot.sums.data(), width, to.b_o, to.b_o);
}

// Keys, values and their variations travel; the tangents of their adjoints follow.
template <class T>
void BackwardsAlong<T>::pull_kernel(std::vector<T>& travelling) {
  const std::size_t r = chunk.rows(), width = chunk.width;
  set_travelling(chunk, Side::rows, dot.kv, travelling);
  bar_dot.q.assign(width * chunk.ld, T(0));
  bar_dot.kv.assign(r * (2 * width + chunk.heads), T(0));
  const std::vector<T>& offset = chunk.potential[0];
  const std::size_t per_token = chunk.per_token(Side::rows);
  chunk.ring.visit_and_collect(
      travelling.data(), 2 * per_token, per_token,
      [&](int rank, const T* block, T* kv_bar_dot) {
        chunk.for_places(Side::rows, true, rank, block,
                         [&](const Home<T>& home, const Items<T>& items, const Place& at) {
                           const HomeSweep<T> sweep = {.a_dot = dot.q.data() + at.lane,
                                                       .mix_bar = bar.mix.data() + at.lane,
                                                       .mix_bar_dot = bar_dot.mix.data() + at.lane,
                                                       .offset = offset.data() + at.lane_number,
                                                       .slope = dot.slope.data() + at.lane_number,
                                                       .centre = bar.f.data() + at.lane_number,
                                                       .centre_dot = bar_dot.f.data() + at.lane_number};
                           T* const k_bar_dot = kv_bar_dot + at.item;
                           chunk.kernel.adjoint_tangent(home, sweep, items, variation_of(items, at),
                                                        bar_dot.q.data() + at.lane,
                                                        ItemBars<T>{k_bar_dot, k_bar_dot + width, nullptr});
                         });
      },
      bar_dot.kv.data());
}

// q, k, v = W N(u) + b
template <class T>
void BackwardsAlong<T>::pull_input(const double* u, const double* u_dot, const double* base,
                                   double* u_bar_dot) {
  const std::size_t r = chunk.rows(), width = chunk.width, kv = width * width;
  const auto q_bar = row_major<const T>(bar.q.data(), width, r, chunk.ld),
             q_bar_dot = row_major<const T>(bar_dot.q.data(), width, r, chunk.ld);
  const auto kv_bar = row_major<const T>(bar.kv.data(), r, 2 * width),
             kv_bar_dot = row_major<const T>(bar_dot.kv.data(), r, 2 * width);
  const auto x = row_major<const T>(chunk.x.data(), r, width),
             x_dot = row_major<const T>(dot.x.data(), r, width);
  bar_dot.product.resize(3 * width * width);
  set_product_rule(row_major(bar_dot.product.data(), width, width), q_bar, q_bar_dot, x, x_dot);
  set_product_rule(row_major(bar_dot.product.data() + kv, 2 * width, width), kv_bar.transpose(),
                   kv_bar_dot.transpose(), x, x_dot);
  simd::set_sum(1.0, bar_dot.product.data(), 3 * width * width, to.w_qkv, to.w_qkv);
  for (std::size_t c = 0; c < width; ++c) {
    const T* const row = bar_dot.q.data() + c * chunk.ld;
    to.b_qkv[c] += static_cast<double>(simd::sum_over<T>(r, [row](auto at) { return at(row); }));
  }
  bar_dot.sums.assign(2 * width, T(0));
  simd::add_rows(bar_dot.kv.data(), r, 2 * width, bar_dot.sums.data());
  simd::set_sum(1.0, bar_dot.sums.data(), 2 * width, to.b_qkv + width, to.b_qkv + width);

  bar_dot.x.resize(r * width);
  auto x_bar_dot = row_major(bar_dot.x.data(), r, width);
  set_product_rule(x_bar_dot, q_bar.transpose(), q_bar_dot.transpose(), row_major(p.w_qkv, width, width),
                   row_major(p_dot.w_qkv, width, width));
  set_product(x_bar_dot, kv_bar_dot, row_major(p.w_qkv + kv, 2 * width, width), InsertMode::add);
  set_product(x_bar_dot, kv_bar, row_major(p_dot.w_qkv + kv, 2 * width, width), InsertMode::add);
  if (!chunk.settings.layer_norm) return chunk.scatter(bar_dot.x.data(), nullptr, 1.0, base, u_bar_dot);
  chunk.for_samples([&](std::size_t at, std::size_t from) {
    layer_norm_adjoint_tangent(u + at, u_dot + at, chunk.context.row(), bar.x.data() + from,
                               bar_dot.x.data() + from, width, static_cast<int>(chunk.tokens),
                               chunk.context.width, p.eps, p.gain, p_dot.gain, 1.0, base + at, u_bar_dot + at,
                               to.gain, to.bias);
  });
}

}  // namespace

template <class T>
void Attention<T>::set_adjoint_tangent(const LayerWeights<const T>& weights,
                                       const LayerWeights<const T>& weights_dot, const double* u,
                                       const double* u_dot, const double* w, const double* w_dot,
                                       double scale, const double* base, double* u_bar_dot,
                                       const LayerWeights<double>& gradient_dot, Linearisation& at) {
  const InPiece piece(Piece::attention);
  count(4);
  AttentionChunk<T>& chunk = work_->chunk;
  const auto& tangent = dynamic_cast<AttentionTape<AttentionTangent<T>>&>(*at.tangent);
  const auto& adjoint = dynamic_cast<AttentionAdjointTape<T>&>(*at.adjoint);
  const auto &p = weights.attention, &p_dot = weights_dot.attention;
  const auto& to = gradient_dot.attention;
  const std::size_t width = chunk.width;
  scale_output(p, p_dot);
  work_->for_kept_chunks(*at.value, [&] {
    const std::size_t i = chunk.number();
    BackwardsAlong<T> backwards{p, p_dot, chunk, tangent.parts[i], adjoint.parts[i], work_->bar, to};
    work_->bar.seed.resize(chunk.rows() * width);
    work_->seed_dot.resize(chunk.rows() * width);
    chunk.gather(w, scale, work_->bar.seed.data());
    chunk.gather(w_dot, scale, work_->seed_dot.data());
    backwards.pull_output(work_->w_o.data(), work_->w_o_dot.data(), work_->bar.seed, work_->seed_dot);
    backwards.pull_kernel(work_->dot.travelling);
    backwards.pull_input(u, u_dot, base, u_bar_dot);
  });
  // The gradients of alpha, W_O and b_O are <seed, W_O mix + b_O>, alpha seed mix^T and alpha seed: what
  // varies with W_O, b_O and alpha.
  *to.alpha += inner_product(p_dot.w_o, adjoint.seed_product.data(), width * width) +
               inner_product(p_dot.b_o, adjoint.seed_sums.data(), width);
  simd::set_sum(*p_dot.alpha, adjoint.seed_product.data(), width * width, to.w_o, to.w_o);
  simd::set_sum(*p_dot.alpha, adjoint.seed_sums.data(), width, to.b_o, to.b_o);
}

#define FLUXFORMER_INSTANTIATE(T)                                                                \
  template void Attention<T>::set_adjoint_tangent(                                               \
      const LayerWeights<const T>&, const LayerWeights<const T>&, const double*, const double*,  \
      const double*, const double*, double, const double*, double*, const LayerWeights<double>&, \
      Linearisation&);
FLUXFORMER_INSTANTIATE(float)
FLUXFORMER_INSTANTIATE(double)
#undef FLUXFORMER_INSTANTIATE

}  // namespace fluxformer
