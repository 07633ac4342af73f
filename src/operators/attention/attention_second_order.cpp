// Products with the Hessian, for kernel dot with soft-max or linear. Source: Pearlmutter 1994; with ' for the variation
// along a direction of weights, u and w,
//
//   x' = N(u)'    q' = W_Q x' + W_Q' x + b_Q', k and v likewise    mix' = sum_y P ((u - slope) v + v')
//   out' = (alpha W_O) mix' + (alpha W_O)' mix + (alpha b_O)'
//
// A row of P sums to 1, so that P' = P (u - slope): u the variation of the logits, slope = sum_y P u. Linear
// attention has P' = w_y u and mix' = sum_y w_y u v + P v'.

#include "base/error.hpp"
#include "base/phases.hpp"
#include "operators/attention/attention_tangent_pass.hpp"
#include "operators/attention/attention_work.hpp"
#include "operators/kernels/simd_arrays.hpp"
#include "operators/layer_norm_second_order.hpp"

namespace fluxformer {

namespace {

/// x' and the projections' variations of a chunk.
template <class T>
void project_along(const AttentionChunk<T>& chunk, const AttentionWeights<const T>& p,
                   const AttentionWeights<const T>& p_dot, const double* u, const double* u_dot,
                   AttentionTangent<T>& dot) {
  const std::size_t r = chunk.rows(), width = chunk.width;
  if (chunk.settings.layer_norm) {
    chunk.for_samples([&](std::size_t at, std::size_t to) {
      layer_norm_full_tangent(u + at, u_dot + at, chunk.context.row(), static_cast<int>(chunk.tokens),
                              chunk.context.width, p.eps, p.gain, p_dot.gain, p_dot.bias, dot.x.data() + to,
                              width);
    });
  } else {
    chunk.gather(u_dot, 1.0, dot.x.data());
  }
  const auto x = row_major<const T>(chunk.x.data(), r, width),
             x_dot = row_major<const T>(dot.x.data(), r, width);
  auto queries = row_major(dot.q.data(), width, r, chunk.ld);
  set_product_rule(queries, row_major(p.w_qkv, width, width), row_major(p_dot.w_qkv, width, width),
                   x.transpose(), x_dot.transpose());
  queries.colwise() +=
      Eigen::Map<const Eigen::Matrix<T, Eigen::Dynamic, 1>>(p_dot.b_qkv, chunk.context.width);
  auto keys_values = row_major(dot.kv.data(), r, 2 * width);
  const std::size_t kv = width * width;
  set_product_rule(keys_values, x, x_dot, row_major(p.w_qkv + kv, 2 * width, width).transpose(),
                   row_major(p_dot.w_qkv + kv, 2 * width, width).transpose());
  keys_values.rowwise() +=
      Eigen::Map<const Eigen::Matrix<T, 1, Eigen::Dynamic>>(p_dot.b_qkv + width, 2 * chunk.context.width);
}

}  // namespace

template <class T>
Linearisation Attention<T>::make_linearisation() const {
  if (settings_.kernel != Kernel::dot)
    throw BadInput("attention.kernel = l2: products with the Hessian need attention.kernel = dot");
  if (settings_.normalisation == Normalisation::sinkhorn)
    throw BadInput(
        "attention.normalisation = sinkhorn: products with the Hessian need attention.normalisation = "
        "softmax or linear");
  const AttentionChunk<T>& chunk = work_->chunk;
  const AttentionForward<T> forward = chunk.make_forward();
  const std::vector<T> one_per_head(chunk.heads * chunk.ld);
  const AttentionAdjoint<T> adjoint = {forward.mix, forward.q, forward.kv, one_per_head, forward.x};
  const AttentionTangent<T> tangent = {forward.x, forward.q, forward.kv, forward.mix, one_per_head};
  return {make_activations(), std::make_unique<AttentionAdjointTape<T>>(chunk.chunks(), adjoint, chunk.width),
          std::make_unique<AttentionTape<AttentionTangent<T>>>(chunk.chunks(), tangent)};
}

template <class T>
void Attention<T>::set_rhs_linearised(const LayerWeights<const T>& weights, const double* u, double scale,
                                      const double* base, double* out, Linearisation& at) {
  set_rhs_keeping(weights, u, scale, base, out, *at.value);
}

template <class T>
void Attention<T>::set_adjoint_linearised(const LayerWeights<const T>& weights, const double* u,
                                          const double* w, double scale, const double* base, double* u_bar,
                                          const LayerWeights<double>* gradient, Linearisation& at) {
  const InPiece piece(Piece::attention);
  count(2);
  const AttentionChunk<T>& chunk = work_->chunk;
  auto& bar = work_->bar;
  auto& tape = dynamic_cast<AttentionAdjointTape<T>&>(*at.adjoint);
  const std::size_t width = chunk.width;
  std::fill(tape.seed_product.begin(), tape.seed_product.end(), 0.0);
  std::fill(tape.seed_sums.begin(), tape.seed_sums.end(), 0.0);
  work_->chunk.set_maps(weights.attention);
  work_->for_kept_chunks(*at.value, [&] {
    AttentionAdjoint<T>& part = tape.parts[chunk.number()];
    std::swap(static_cast<AttentionAdjoint<T>&>(bar), part);
    set_adjoint_of_chunk(weights.attention, u, w, scale, base, u_bar, gradient);
    std::swap(static_cast<AttentionAdjoint<T>&>(bar), part);

    const std::size_t r = chunk.rows();
    bar.product.resize(width * width);
    set_product(row_major(bar.product.data(), width, width),
                row_major<const T>(bar.seed.data(), r, width).transpose(),
                row_major<const T>(chunk.mix.data(), width, r, chunk.ld).transpose());
    simd::set_sum(1.0, bar.product.data(), width * width, tape.seed_product.data(), tape.seed_product.data());
    bar.sums.assign(width, T(0));
    simd::add_rows(bar.seed.data(), r, width, bar.sums.data());
    simd::set_sum(1.0, bar.sums.data(), width, tape.seed_sums.data(), tape.seed_sums.data());
  });
}

template <class T>
void Attention<T>::scale_output(const AttentionWeights<const T>& p, const AttentionWeights<const T>& p_dot) {
  const std::size_t width = work_->chunk.width;
  const auto alpha = static_cast<T>(*p.alpha), alpha_dot = static_cast<T>(*p_dot.alpha);
  work_->w_o.resize(width * width);
  work_->w_o_dot.resize(width * width);
  work_->b_o_dot.resize(width);
  for (std::size_t i = 0; i < width * width; ++i) {
    work_->w_o[i] = alpha * p.w_o[i];
    work_->w_o_dot[i] = alpha * p_dot.w_o[i] + alpha_dot * p.w_o[i];
  }
  for (std::size_t c = 0; c < width; ++c) work_->b_o_dot[c] = alpha * p_dot.b_o[c] + alpha_dot * p.b_o[c];
}

template <class T>
void Attention<T>::set_tangent(const LayerWeights<const T>& weights, const LayerWeights<const T>& weights_dot,
                               const double* u, const double* u_dot, double scale, const double* base,
                               double* out, Linearisation& at) {
  const InPiece piece(Piece::attention);
  count(2);
  AttentionChunk<T>& chunk = work_->chunk;
  auto& tape = dynamic_cast<AttentionTape<AttentionTangent<T>>&>(*at.tangent);
  const auto &p = weights.attention, &p_dot = weights_dot.attention;
  scale_output(p, p_dot);
  work_->for_kept_chunks(*at.value, [&] {
    AttentionTangent<T>& dot = tape.parts[chunk.number()];
    project_along(chunk, p, p_dot, u, u_dot, dot);
    TangentPass<T>{chunk, dot.slope}.run(Side::rows, 0, dot.q, dot.kv, work_->dot.travelling, &dot.mix);
    const std::size_t r = chunk.rows(), width = chunk.width;
    for (std::size_t c = 0; c < width; ++c) {
      const std::size_t first = c * chunk.ld, head = c / static_cast<std::size_t>(chunk.shape.channels);
      for (std::size_t i = 0; i < r; ++i)
        dot.mix[first + i] -= dot.slope[head * chunk.ld + i] * chunk.mix[first + i];
    }
    auto output = row_major(chunk.projected.data(), r, width);
    set_product_rule(output, row_major<const T>(chunk.mix.data(), width, r, chunk.ld).transpose(),
                     row_major<const T>(dot.mix.data(), width, r, chunk.ld).transpose(),
                     row_major<const T>(work_->w_o.data(), width, width).transpose(),
                     row_major<const T>(work_->w_o_dot.data(), width, width).transpose());
    chunk.scatter(chunk.projected.data(), work_->b_o_dot.data(), scale, base, out);
  });
}

template <class T>
void Attention<T>::set_gauss_newton(const LayerWeights<const T>& weights, const double* u,
                                    const double* w_dot, double scale, const double* base, double* u_bar_dot,
                                    const LayerWeights<double>& gradient_dot, Linearisation& at) {
  set_adjoint_kept(weights, u, w_dot, scale, base, u_bar_dot, &gradient_dot, *at.value);
}

#define FLUXFORMER_INSTANTIATE(T)                                                                           \
  template Linearisation Attention<T>::make_linearisation() const;                                          \
  template void Attention<T>::set_rhs_linearised(const LayerWeights<const T>&, const double*, double,       \
                                                 const double*, double*, Linearisation&);                   \
  template void Attention<T>::set_adjoint_linearised(const LayerWeights<const T>&, const double*,           \
                                                     const double*, double, const double*, double*,         \
                                                     const LayerWeights<double>*, Linearisation&);          \
  template void Attention<T>::scale_output(const AttentionWeights<const T>&,                                \
                                           const AttentionWeights<const T>&);                               \
  template void Attention<T>::set_tangent(const LayerWeights<const T>&, const LayerWeights<const T>&,       \
                                          const double*, const double*, double, const double*, double*,     \
                                          Linearisation&);                                                  \
  template void Attention<T>::set_gauss_newton(const LayerWeights<const T>&, const double*, const double*,  \
                                               double, const double*, double*, const LayerWeights<double>&, \
                                               Linearisation&);
FLUXFORMER_INSTANTIATE(float)
FLUXFORMER_INSTANTIATE(double)
#undef FLUXFORMER_INSTANTIATE

}  // namespace fluxformer
