#include "operators/attention/attention.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/phases.hpp"
#include "operators/attention/attention_chunk.hpp"
#include "operators/kernels/matrix_product.hpp"
#include "operators/kernels/simd.hpp"
#include "operators/kernels/transpose.hpp"
#include "operators/layer_norm.hpp"

namespace fluxformer {

// Work space and tapes. A ' or _dot is a variation along a direction, a _bar an adjoint. Buffers of
// derivatives are allocated on first use.

/// Variations of a chunk: of N(u); of lanes q, k and mix; of blocks; of |k|^2/2 and of the potentials of rows
/// and columns; and the travelling blocks with their variations.
template <class T>
struct AttentionTangentWork {
  std::vector<T> x, q, k, mix, kv, q_block, half_norm, f, g, slope, travelling;
};

/// Results of the adjoint of a chunk that its tangent needs: the adjoints of lanes mix and q, and of kv;
/// mix_bar . mix, [head][row]; the adjoint of N(u), [row][width].
template <class T>
struct AttentionAdjoint {
  std::vector<T> mix, q, kv, f, x;

  std::size_t bytes() const { return bytes_of(mix, q, kv, f, x); }
};

/// Results of the tangent of a chunk: variations of N(u), q, kv and mix, and sum_y P u, [head][row].
template <class T>
struct AttentionTangent {
  std::vector<T> x, q, kv, mix, slope;

  std::size_t bytes() const { return bytes_of(x, q, kv, mix, slope); }
};

/// All adjoints of a chunk: also of lanes k, of q_block and of the potentials of columns; seeds
/// [row][width]; gradients of a matrix and of a vector.
template <class T>
struct AttentionAdjointWork : AttentionAdjoint<T> {
  std::vector<T> k, q_block, g, none, seed, product, sums;
};

/// Results of every chunk, of type Part. A chunk works in this memory instead of its own: nothing is copied.
template <class Part>
struct ChunkTape : TermTape {
  ChunkTape(Index chunks, const Part& part) : parts(chunks, part) {}
  std::size_t bytes() const override {
    std::size_t total = 0;
    for (const auto& one : parts) total += one.bytes();
    return total;
  }

  std::vector<Part> parts;
};

/// Tape of the forward pass.
template <class T>
using AttentionTape = ChunkTape<AttentionForward<T>>;

/// Tape of the adjoint, with the sums over rows of seed mix^T, [width][width], and of the seed.
template <class T>
struct AttentionAdjointTape final : ChunkTape<AttentionAdjoint<T>> {
  /// Room for `chunks` copies of `part`, and sums of zero for states of `width` channels.
  AttentionAdjointTape(Index chunks, const AttentionAdjoint<T>& part, Index width)
      : ChunkTape<AttentionAdjoint<T>>(chunks, part), seed_product(width * width), seed_sums(width) {}
  std::size_t bytes() const override {
    return ChunkTape<AttentionAdjoint<T>>::bytes() + bytes_of(seed_product, seed_sums);
  }

  std::vector<double> seed_product, seed_sums;
};

/// Tape of the tangent.
template <class T>
using AttentionTangentTape = ChunkTape<AttentionTangent<T>>;

/// The chunk, and buffers for tangent and adjoint.
template <class T>
struct Attention<T>::Work {
  /// Buffers as large as a chunk of `context` needs.
  Work(const SlabContext& context, const AttentionSettings& settings, Operands operands)
      : chunk(context, settings, operands) {}

  AttentionChunk<T> chunk;
  AttentionTangentWork<T> dot;
  AttentionAdjointWork<T> bar;
  std::vector<T> w_o, w_o_dot, b_o_dot;  ///< alpha W_O, its variation and the variation of alpha b_O
  std::vector<T> seed_dot;               ///< variation of the seed, [row][width]

  /// f() for every chunk, in the memory of its forward pass.
  template <class F>
  void for_kept_chunks(TermTape& kept, F&& f) {
    auto& tape = dynamic_cast<AttentionTape<T>&>(kept);
    chunk.for_chunks([&] {
      auto& part = tape.parts[chunk.number()];
      std::swap(static_cast<AttentionForward<T>&>(chunk), part);
      f();
      std::swap(static_cast<AttentionForward<T>&>(chunk), part);
    });
  }
  /// Memory allocated so far, in bytes.
  std::size_t bytes() const {
    return chunk.bytes() + bar.bytes() +
           bytes_of(dot.x, dot.q, dot.k, dot.mix, dot.kv, dot.q_block, dot.half_norm, dot.f, dot.g, dot.slope,
                    dot.travelling) +
           bytes_of(bar.k, bar.q_block, bar.g, bar.none, bar.seed, bar.product, bar.sums) +
           bytes_of(w_o, w_o_dot, b_o_dot, seed_dot);
  }
};

namespace {

void refuse_bad_settings(const SlabContext& context, const AttentionSettings& settings) {
  if (settings.heads < 1 || context.width % settings.heads != 0)
    throw BadInput("attention.heads = " + std::to_string(settings.heads) + " must divide the width " +
                   std::to_string(context.width));
  if (settings.sinkhorn_iterations < 1)
    throw BadInput("sinkhorn needs at least 1 iteration, not " +
                   std::to_string(settings.sinkhorn_iterations));
  if (settings.normalisation == Normalisation::sinkhorn && context.mask.causal)
    throw BadInput(
        "attention.normalisation = sinkhorn cannot be used with attention.causal: no doubly stochastic "
        "matrix but the identity is causal");
  if (settings.normalisation == Normalisation::linear && settings.kernel == Kernel::l2)
    throw BadInput(
        "attention.normalisation = linear needs attention.kernel = dot: the logits of l2 are no weights");
}

/// Every row of the kernel needs a visible token.
void refuse_bad_mask(const SlabContext& context) {
  const int tokens = context.line->tokens();
  const TokenMask& mask = context.mask;
  if (!mask.length.empty() && std::ssize(mask.length) != context.samples)
    throw BadInput("the token mask has " + std::to_string(mask.length.size()) + " lengths for " +
                   std::to_string(context.samples) + " samples");
  for (const int length : mask.length)
    if (length < 1 || length > tokens)
      throw BadInput("a sample of " + std::to_string(length) + " real tokens: 1 to " +
                     std::to_string(tokens) + " are allowed");
  if (!mask.weight.empty() && std::ssize(mask.weight) != tokens)
    throw BadInput("the token mask has " + std::to_string(mask.weight.size()) + " quadrature weights for " +
                   std::to_string(tokens) + " tokens");
  for (const double weight : mask.weight)
    if (!(weight > 0) || !std::isfinite(weight))
      throw BadInput("a quadrature weight of " + std::to_string(weight) +
                     ": weights must be positive and finite (padding is given by lengths)");
}

}  // namespace

template <class T>
Attention<T>::Attention(const SlabContext& context, const AttentionSettings& settings, Operands operands)
    : context_(context), settings_(settings) {
  refuse_bad_settings(context, settings);
  refuse_bad_mask(context);
  work_ = std::make_unique<Work>(context, settings, operands);
}

template <class T>
Attention<T>::~Attention() = default;

template <class T>
std::size_t Attention<T>::work_bytes() const {
  return work_->bytes();
}

template <class T>
void Attention<T>::count(int passes) const {
  const auto& line = *context_.line;
  const auto& mask = context_.mask;
  double pairs = 0;
  for (int sample = 0; sample < context_.samples; ++sample) {
    const int keys = mask.length.empty() ? line.tokens() : mask.length[sample];
    for (int token = 0; token < line.block().count(); ++token)
      pairs += mask.causal ? std::min(keys, line.global_index(line.rank(), token) + 1) : keys;
  }
  const double d = context_.width;
  count_flops(passes * d * (8 * d * context_.rows() + 2 * (1 + work_->chunk.half_steps) * pairs));
}

template <class T>
void Attention<T>::add_rhs(const LayerWeights<const T>& weights, const double* u, double scale, double* out) {
  const InPiece piece(Piece::attention);
  count(1);
  AttentionChunk<T>& chunk = work_->chunk;
  const auto& theta = weights.attention;
  chunk.set_maps(theta);
  chunk.for_chunks([&] {
    chunk.project(theta, u);
    chunk.solve(false);
    chunk.set_output(theta.b_o, chunk.mix, scale * *theta.alpha, out, out);
  });
}

template <class T>
std::unique_ptr<TermTape> Attention<T>::make_activations() const {
  return std::make_unique<AttentionTape<T>>(work_->chunk.chunks(), work_->chunk.make_forward());
}

template <class T>
void Attention<T>::set_rhs_keeping(const LayerWeights<const T>& weights, const double* u, double scale,
                                   const double* base, double* out, TermTape& kept) {
  const InPiece piece(Piece::attention);
  count(1);
  AttentionChunk<T>& chunk = work_->chunk;
  const auto& theta = weights.attention;
  chunk.set_maps(theta);
  work_->for_kept_chunks(kept, [&] {
    chunk.project(theta, u);
    chunk.solve(true);
    chunk.set_output(theta.b_o, chunk.mix, scale * *theta.alpha, base, out);
  });
}

template <class T>
void Attention<T>::matrix(const LayerWeights<const T>& weights, const double* u, double* k) {
  AttentionChunk<T>& chunk = work_->chunk;
  const Index n = context_.line->tokens();
  const Index per_head = chunk.tokens * n;
  std::fill_n(k, context_.samples * chunk.heads * per_head, 0.0);
  chunk.set_maps(weights.attention);
  chunk.for_chunks([&] {
    chunk.project(weights.attention, u);
    chunk.solve(true);
    // solve leaves beta as the final rows see it.
    const std::vector<T> offset = chunk.plan_offset(chunk.final_row_step());
    chunk.ring.visit(chunk.kv.data(), chunk.per_token(Side::rows), [&](int rank, const T* block) {
      chunk.for_heads(
          Side::rows, false, rank, block,
          [&](const QueryBlock<T>& queries, const KeyValueBlock<T>& keys, const HeadPosition& at) {
            chunk.kernel.write_plan(queries, keys, offset.data() + at.lane_number,
                                    k + (chunk.sample(at) * chunk.heads + at.head) * per_head, n);
          });
    });
  });
}

// The tangent J v. The potentials of the normalisation are known from the forward pass: each half-step takes
// one tour of the ring, with blocks and their variations:
//
//   f' = -sum_y P u,  u = logit' + beta'      (P: the plan right after this half-step; columns likewise)
//   mix' = sum_y P (u v + v') + f' mix        (P: the final plan)

/// `travelling` := the chunk's block, followed by its variation.
template <class T>
void set_travelling(AttentionChunk<T>& chunk, Side side, const std::vector<T>& travelling_dot,
                    std::vector<T>& travelling) {
  const Index size = chunk.rows() * (chunk.columns(side) + chunk.heads);
  travelling.resize(2 * size);
  std::copy_n(chunk.travelling(side).begin(), size, travelling.begin());
  std::copy_n(travelling_dot.begin(), size, travelling.begin() + size);
}

/// The variation that follows the keys of a position in `travelling`.
template <class T>
KeyValueBlock<T> variation_of(const KeyValueBlock<T>& keys, const HeadPosition& at) {
  KeyValueBlock<T> dot = keys;
  dot.b += at.block;
  dot.beta += at.block;
  if (dot.v != nullptr) dot.v += at.block;
  return dot;
}

/// The tangent of a half-step.
template <class T>
struct TangentPass {
  AttentionChunk<T>& chunk;
  std::vector<T>& slope;

  /// Makes one tour: `slope` := sum_y P u and, with `mix`, mix := sum_y P (u v + v').
  void run(Side side, int step, const std::vector<T>& stationary_dot, const std::vector<T>& travelling_dot,
           std::vector<T>& travelling, std::vector<T>* mix) const {
    set_travelling(chunk, side, travelling_dot, travelling);
    slope.assign(chunk.heads * chunk.ld, T(0));
    if (mix != nullptr) mix->assign(chunk.width * chunk.ld, T(0));
    const std::vector<T> offset = chunk.plan_offset(step);
    chunk.ring.visit(travelling.data(), 2 * chunk.per_token(side), [&](int rank, const T* block) {
      chunk.for_heads(
          side, mix != nullptr, rank, block,
          [&](const QueryBlock<T>& queries, const KeyValueBlock<T>& keys, const HeadPosition& at) {
            chunk.kernel.tangent(queries, stationary_dot.data() + at.lane, keys, variation_of(keys, at),
                                 offset.data() + at.lane_number, slope.data() + at.lane_number,
                                 mix != nullptr ? mix->data() + at.lane : nullptr);
          });
    });
  }
};

namespace {

/// Sets beta' of the block from [head][row] lanes: -(|k|^2/2)' of travelling keys, and the variation of the
/// other side's potential.
template <class T>
void set_beta_dot(const AttentionChunk<T>& chunk, Side side, const std::vector<T>& half_norm_dot,
                  const std::vector<T>* other, std::vector<T>& travelling_dot) {
  const Index r = chunk.rows();
  T* beta = travelling_dot.data() + r * chunk.columns(side);
  for (Index h = 0; h < chunk.heads; ++h, beta += r)
    for (Index i = 0; i < r; ++i)
      beta[i] = (other != nullptr ? (*other)[h * chunk.ld + i] : T(0)) -
                (side == Side::rows ? half_norm_dot[h * chunk.ld + i] : T(0));
}

}  // namespace

template <class T>
void Attention<T>::set_tangent_of_chunk(const AttentionWeights<const T>& theta, const double* u,
                                        const double* v, double scale, const double* base, double* out) {
  AttentionChunk<T>& chunk = work_->chunk;
  auto& dot = work_->dot;
  const Index r = chunk.rows(), width = chunk.width, heads = chunk.heads, ld = chunk.ld;
  const Index dh = chunk.shape.channels;
  // x' = N'(u) v,  q', k', v' = W_{Q,K,V} x',  (|k|^2/2)' = k . k'
  dot.x.resize(r * width);
  if (settings_.layer_norm) {
    chunk.for_samples([&](Index at, Index to) {
      layer_norm_tangent(u + at, v + at, context_.row(), chunk.tokens, width, theta.eps, theta.gain,
                         dot.x.data() + to, width);
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
    dot.q_block.resize(r * (width + heads));
    row_major(dot.k.data(), width, r, ld) =
        row_major<const T>(dot.kv.data(), r, width, 2 * width).transpose();
    row_major(dot.q_block.data(), r, width) = row_major<const T>(dot.q.data(), width, r, ld).transpose();
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
      // f' = -sum_y P u
      rows_pass(step - 1, step, step + 1 == chunk.half_steps);
      dot.f.assign(heads * ld, T(0));
      for (Index i = 0; i < std::ssize(dot.f); ++i) dot.f[i] = -dot.slope[i];
    } else {
      // g' = -sum_x P u
      chunk.set_beta(Side::columns, &chunk.potential[step - 1]);
      set_beta_dot(chunk, Side::columns, dot.half_norm, &dot.f, dot.q_block);
      pass.run(Side::columns, step, dot.k, dot.q_block, dot.travelling, nullptr);
      dot.g.assign(heads * ld, T(0));
      for (Index i = 0; i < std::ssize(dot.g); ++i) dot.g[i] = dot.half_norm[i] - dot.slope[i];
    }
  }
  if (!rows_last) rows_pass(chunk.half_steps - 1, chunk.final_row_step(), true);

  // mix' = sum_y P (u v + v') + f' mix,  out = base + scale alpha W_O mix'
  for (Index c = 0; c < width; ++c)
    for (Index i = 0; i < r; ++i) dot.mix[c * ld + i] += dot.f[c / dh * ld + i] * chunk.mix[c * ld + i];
  chunk.set_output(nullptr, dot.mix, scale * *theta.alpha, base, out);
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

// The adjoint J^T w and the gradient with respect to the parameters, half-step by half-step backwards. The
// plan P is known from the potentials kept in the forward pass:
//
//   final rows     s = P (mix_bar . v - c)      v_bar += sum_x P mix_bar
//                  c = mix_bar . mix if a row half-step was the last (c is then the adjoint of its
//                  potential), else 0
//   a half-step    s = -P c                     c: the adjoint of its potential
//   both           logit_bar = s    a_bar += scale sum s b    b_bar += scale sum s a    beta_bar += sum s
//
// Linear attention has s = w_y mix_bar . v in its only half-step, with c = 0.
// Nothing of size n is kept: the adjoints of keys, values and potentials follow the blocks around the ring.

namespace {

/// The adjoint of a half-step.
template <class T>
struct AdjointPass {
  AttentionChunk<T>& chunk;

  /// Makes one tour: adds to stationary_bar, to travelling_bar and to other_bar, the adjoint of the
  /// travelling side's potential.
  void run(Side side, bool values, int step, const std::vector<T>& centre, const std::vector<T>& mix_bar,
           std::vector<T>& stationary_bar, std::vector<T>& travelling_bar, std::vector<T>& other_bar) const {
    const Index r = chunk.rows(), ld = chunk.ld;
    const Index columns = chunk.columns(side);
    T* const beta_bar = travelling_bar.data() + r * columns;
    const bool potentials = chunk.half_steps > 1 || chunk.settings.kernel == Kernel::l2;  // beta matters
    if (potentials) std::fill_n(beta_bar, r * chunk.heads, T(0));
    const std::vector<T> offset = chunk.plan_offset(step);
    chunk.ring.visit_and_collect(
        chunk.travelling(side).data(), chunk.per_token(side), chunk.per_token(side),
        [&](int rank, const T* block, T* bar) {
          chunk.for_heads(
              side, values, rank, block,
              [&](const QueryBlock<T>& queries, const KeyValueBlock<T>& keys, const HeadPosition& at) {
                T* const b_bar = bar + at.key;
                chunk.kernel.adjoint(
                    queries, mix_bar.data() + at.lane, keys, offset.data() + at.lane_number,
                    centre.data() + at.lane_number, stationary_bar.data() + at.lane,
                    KeyValueAdjoint<T>{b_bar, b_bar + chunk.width, potentials ? bar + at.beta : nullptr});
              });
        },
        travelling_bar.data());
    if (!potentials) return;
    for (Index h = 0; h < chunk.heads; ++h)
      for (Index i = 0; i < r; ++i) other_bar[h * ld + i] += beta_bar[h * r + i];
  }
};

/// The adjoint of one chunk, from the output back to the input.
template <class T>
struct Backwards {
  const AttentionWeights<const T>& theta;
  AttentionChunk<T>& chunk;
  AttentionAdjointWork<T>& bar;
  const LayerWeights<double>* gradient;

  void pull_output(const double* w, double scale);
  void pull_kernel();
  void pull_input(const double* u, const double* base, double* u_bar);
};

// out = alpha (W_O mix + b_O), with the seed, the adjoint of out, and sums over rows:
//
//   mix_bar = alpha W_O^T seed            alpha_bar = <seed, W_O mix + b_O>
//   W_O_bar = alpha sum seed mix^T        b_O_bar = alpha sum seed
template <class T>
void Backwards<T>::pull_output(const double* w, double scale) {
  const Index r = chunk.rows(), width = chunk.width, ld = chunk.ld;
  const Index dh = chunk.shape.channels;
  bar.seed.resize(r * width);
  chunk.gather(w, scale, bar.seed.data());
  bar.x.resize(r * width);
  chunk.w_o.apply_transpose(r, bar.seed.data(), InsertMode::insert, bar.x.data());
  bar.mix.resize(width * ld);
  transpose(bar.x.data(), r, width, width, bar.mix.data(), ld);
  for (Index c = 0; c < width; ++c)
    for (Index i = c * ld; i < c * ld + r; ++i) bar.mix[i] *= static_cast<T>(*theta.alpha);

  // bar.f = mix_bar . mix, the adjoint of the last row potential
  bar.f.assign(chunk.heads * ld, T(0));
  if (!chunk.shape.linear)
    for (Index c = 0; c < width; ++c)
      for (Index i = 0; i < r; ++i) bar.f[c / dh * ld + i] += bar.mix[c * ld + i] * chunk.mix[c * ld + i];

  if (gradient == nullptr) return;
  const AttentionWeights<double>& to = gradient->attention;
  bar.product.resize(2 * width * width);
  T* const mix_seed = bar.product.data() + width * width;  // sum over rows of mix seed^T
  chunk.w_o.gradient(r, Stored::transposed, chunk.mix.data(), ld, bar.seed.data(), InsertMode::insert,
                     mix_seed);
  transpose(mix_seed, width, width, width, bar.product.data(), width);
  bar.sums.assign(width, T(0));
  simd::add_rows(bar.seed.data(), r, width, bar.sums.data());
  *to.alpha += inner_product(theta.w_o, bar.product.data(), width * width) +
               inner_product(theta.b_o, bar.sums.data(), width);
  simd::set_sum(*theta.alpha, bar.product.data(), width * width, to.w_o, to.w_o);
  simd::set_sum(*theta.alpha, bar.sums.data(), width, to.b_o, to.b_o);
}

// From mix_bar (and bar.f = mix_bar . mix; linear: 0) to the adjoints of q, k and v, half-step by half-step.
template <class T>
void Backwards<T>::pull_kernel() {
  const Index r = chunk.rows(), width = chunk.width, heads = chunk.heads, ld = chunk.ld;
  const Index dh = chunk.shape.channels;
  const bool l2 = chunk.settings.kernel == Kernel::l2;
  const int steps = chunk.half_steps;
  const bool rows_last = steps % 2 == 1;
  const AdjointPass<T> pass{chunk};
  bar.q.assign(width * ld, T(0));
  bar.kv.assign(r * (2 * width + heads), T(0));

  // Backwards through a half-step of rows: bar.g becomes the adjoint of the columns' potential. For l2, beta
  // includes -|k|^2/2: k_bar -= beta_bar k.
  const auto rows_backwards = [&](bool values, int step, int after, const std::vector<T>& centre) {
    chunk.set_beta(Side::rows, after < 0 ? nullptr : &chunk.potential[after]);
    bar.g.assign(heads * ld, T(0));
    pass.run(Side::rows, values, step, centre, bar.mix, bar.q, bar.kv, bar.g);
    if (!l2) return;
    for (Index i = 0; i < r; ++i)
      for (Index c = 0; c < width; ++c)
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
  bar.q_block.assign(r * (width + heads), T(0));
  for (int step = rows_last ? steps - 2 : steps - 1; step >= 0; --step) {
    if (step % 2 == 0) {
      rows_backwards(false, step, step - 1, bar.f);
      bar.f.assign(heads * ld, T(0));
    } else {
      chunk.set_beta(Side::columns, &chunk.potential[step - 1]);
      pass.run(Side::columns, false, step, bar.g, bar.mix, bar.k, bar.q_block, bar.f);
      if (l2)
        for (Index c = 0; c < width; ++c)
          for (Index i = 0; i < r; ++i) bar.k[c * ld + i] += bar.g[c / dh * ld + i] * chunk.k[c * ld + i];
    }
  }
  row_major(bar.q.data(), width, r, ld) += row_major(bar.q_block.data(), r, width).transpose();
  row_major(bar.kv.data(), r, width, 2 * width) += row_major(bar.k.data(), width, r, ld).transpose();
}

// q = W_Q x + b_Q, x = N(u), and k, v likewise:
//
//   W_Q_bar = sum over rows of q_bar x^T  b_Q_bar = sum over rows of q_bar
//   x_bar = W_Q^T q_bar + W_K^T k_bar + W_V^T v_bar
template <class T>
void Backwards<T>::pull_input(const double* u, const double* base, double* u_bar) {
  const Index r = chunk.rows(), width = chunk.width;
  if (gradient != nullptr) {
    const AttentionWeights<double>& to = gradient->attention;
    bar.product.resize(3 * width * width);
    chunk.w_q.gradient(r, Stored::transposed, bar.q.data(), chunk.ld, chunk.x.data(), InsertMode::insert,
                       bar.product.data());
    chunk.w_kv.gradient(r, Stored::plain, bar.kv.data(), 2 * width, chunk.x.data(), InsertMode::insert,
                        bar.product.data() + width * width);
    simd::set_sum(1.0, bar.product.data(), 3 * width * width, to.w_qkv, to.w_qkv);
    for (Index c = 0; c < width; ++c) {
      const T* const row = bar.q.data() + c * chunk.ld;
      to.b_qkv[c] += simd::sum_over<T>(r, [row](auto at) { return at(row); });
    }
    bar.sums.assign(2 * width, T(0));
    simd::add_rows(bar.kv.data(), r, 2 * width, bar.sums.data());
    simd::set_sum(1.0, bar.sums.data(), 2 * width, to.b_qkv + width, to.b_qkv + width);
  }
  bar.x.resize(r * width);
  chunk.w_q.apply_transpose(r, Stored::transposed, bar.q.data(), chunk.ld, InsertMode::insert, bar.x.data());
  chunk.w_kv.apply_transpose(r, bar.kv.data(), InsertMode::add, bar.x.data());
  if (!chunk.settings.layer_norm) return chunk.scatter(bar.x.data(), nullptr, 1.0, base, u_bar);
  chunk.for_samples([&](Index at, Index from) {
    layer_norm_adjoint(u + at, chunk.context.row(), bar.x.data() + from, width, chunk.tokens, width,
                       theta.eps, theta.gain, 1.0, base + at, u_bar + at,
                       gradient != nullptr ? gradient->attention.gain : nullptr,
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

// Products with the Hessian, for kernel dot with soft-max or linear. Source: Pearlmutter 1994. With ' for the
// variation along a direction of the weights theta, of u and of w,
//
//   x' = N(u)'    q' = W_Q x' + W_Q' x + b_Q', k and v likewise    mix' = sum_y P ((u - slope) v + v')
//   out' = (alpha W_O) mix' + (alpha W_O)' mix + (alpha b_O)'
//
// A row of P sums to 1, so that P' = P (u - slope): u the variation of the logits, slope = sum_y P u. Linear
// attention has P' = w_y u and mix' = sum_y w_y u v + P v'.

namespace {

/// x' = N(u)', q' = W_Q x' + W_Q' x + b_Q', and k', v' likewise, of a chunk.
template <class T>
void project_along(const AttentionChunk<T>& chunk, const AttentionWeights<const T>& theta,
                   const AttentionWeights<const T>& theta_dot, const double* u, const double* u_dot,
                   AttentionTangent<T>& dot) {
  const Index r = chunk.rows(), width = chunk.width;
  if (chunk.settings.layer_norm) {
    chunk.for_samples([&](Index at, Index to) {
      layer_norm_full_tangent(u + at, u_dot + at, chunk.context.row(), chunk.tokens, width, theta.eps,
                              theta.gain, theta_dot.gain, theta_dot.bias, dot.x.data() + to, width);
    });
  } else {
    chunk.gather(u_dot, 1.0, dot.x.data());
  }
  const auto x = row_major<const T>(chunk.x.data(), r, width),
             x_dot = row_major<const T>(dot.x.data(), r, width);
  auto queries = row_major(dot.q.data(), width, r, chunk.ld);
  set_product_rule(queries, row_major(theta.w_qkv, width, width), row_major(theta_dot.w_qkv, width, width),
                   x.transpose(), x_dot.transpose());
  queries.colwise() +=
      Eigen::Map<const Eigen::Matrix<T, Eigen::Dynamic, 1>>(theta_dot.b_qkv, chunk.context.width);
  auto keys_values = row_major(dot.kv.data(), r, 2 * width);
  const Index kv = width * width;
  set_product_rule(keys_values, x, x_dot, row_major(theta.w_qkv + kv, 2 * width, width).transpose(),
                   row_major(theta_dot.w_qkv + kv, 2 * width, width).transpose());
  keys_values.rowwise() +=
      Eigen::Map<const Eigen::Matrix<T, 1, Eigen::Dynamic>>(theta_dot.b_qkv + width, 2 * chunk.context.width);
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
          std::make_unique<AttentionTangentTape<T>>(chunk.chunks(), tangent)};
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
  const Index width = chunk.width;
  std::fill(tape.seed_product.begin(), tape.seed_product.end(), 0.0);
  std::fill(tape.seed_sums.begin(), tape.seed_sums.end(), 0.0);
  work_->chunk.set_maps(weights.attention);
  work_->for_kept_chunks(*at.value, [&] {
    AttentionAdjoint<T>& part = tape.parts[chunk.number()];
    std::swap(static_cast<AttentionAdjoint<T>&>(bar), part);
    set_adjoint_of_chunk(weights.attention, u, w, scale, base, u_bar, gradient);
    std::swap(static_cast<AttentionAdjoint<T>&>(bar), part);

    // The sums over rows of seed mix^T and of seed, for the tangent of the adjoint.
    const Index r = chunk.rows();
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
void Attention<T>::scale_output(const AttentionWeights<const T>& theta,
                                const AttentionWeights<const T>& theta_dot) {
  const Index width = work_->chunk.width;
  const auto alpha = static_cast<T>(*theta.alpha), alpha_dot = static_cast<T>(*theta_dot.alpha);
  work_->w_o.resize(width * width);
  work_->w_o_dot.resize(width * width);
  work_->b_o_dot.resize(width);
  for (Index i = 0; i < width * width; ++i) {
    work_->w_o[i] = alpha * theta.w_o[i];
    work_->w_o_dot[i] = alpha * theta_dot.w_o[i] + alpha_dot * theta.w_o[i];
  }
  for (Index c = 0; c < width; ++c) work_->b_o_dot[c] = alpha * theta_dot.b_o[c] + alpha_dot * theta.b_o[c];
}

template <class T>
void Attention<T>::set_tangent(const LayerWeights<const T>& weights, const LayerWeights<const T>& weights_dot,
                               const double* u, const double* u_dot, double scale, const double* base,
                               double* out, Linearisation& at) {
  const InPiece piece(Piece::attention);
  count(2);
  AttentionChunk<T>& chunk = work_->chunk;
  auto& tape = dynamic_cast<AttentionTangentTape<T>&>(*at.tangent);
  const auto &theta = weights.attention, &theta_dot = weights_dot.attention;
  scale_output(theta, theta_dot);
  work_->for_kept_chunks(*at.value, [&] {
    AttentionTangent<T>& dot = tape.parts[chunk.number()];
    project_along(chunk, theta, theta_dot, u, u_dot, dot);
    TangentPass<T>{chunk, dot.slope}.run(Side::rows, 0, dot.q, dot.kv, work_->dot.travelling, &dot.mix);
    const Index r = chunk.rows(), width = chunk.width;
    // mix' = sum_y P (u v + v') - slope mix
    for (Index c = 0; c < width; ++c) {
      const Index first = c * chunk.ld, head = c / chunk.shape.channels;
      for (Index i = 0; i < r; ++i)
        dot.mix[first + i] -= dot.slope[head * chunk.ld + i] * chunk.mix[first + i];
    }
    // out' = (alpha W_O) mix' + (alpha W_O)' mix + (alpha b_O)'
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

// The tangent of the adjoint, for kernel dot with soft-max or linear: every product of the adjoint becomes
// two. With ' for the variation along a direction of the weights theta, of u and of w,
//
//   mix_bar' = (alpha W_O)^T seed' + (alpha W_O)'^T seed
//   centre' = mix_bar' . mix + mix_bar . mix' (linear: 0)
//   q_bar', k_bar', v_bar'                                       HeadKernel::adjoint_tangent
//   x_bar' = sum over q, k, v of W^T q_bar' + W'^T q_bar         W_bar' = q_bar' x^T + q_bar x'^T

namespace {

/// The tangent of the adjoint of one chunk, from the output back to the input.
template <class T>
struct BackwardsAlong {
  const AttentionWeights<const T>&theta, &theta_dot;
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

// Without the parts of the gradients that vary with alpha, W_O and b_O themselves:
//
//   mix_bar' = (alpha W_O)^T seed' + (alpha W_O)'^T seed
//   W_O_bar' = alpha sum (seed' mix^T + seed mix'^T)      b_O_bar' = alpha sum seed'
template <class T>
void BackwardsAlong<T>::pull_output(const T* w_o, const T* w_o_dot, const std::vector<T>& seeds,
                                    const std::vector<T>& seeds_dot) {
  const Index r = chunk.rows(), width = chunk.width, ld = chunk.ld;
  const Index dh = chunk.shape.channels;
  const auto seed = row_major<const T>(seeds.data(), r, width),
             seed_dot = row_major<const T>(seeds_dot.data(), r, width);
  bar_dot.mix.resize(width * ld);
  set_product_rule(row_major(bar_dot.mix.data(), width, r, ld), row_major(w_o, width, width).transpose(),
                   row_major(w_o_dot, width, width).transpose(), seed.transpose(), seed_dot.transpose());
  bar_dot.f.assign(chunk.heads * ld, T(0));
  if (!chunk.shape.linear)
    for (Index c = 0; c < width; ++c)
      for (Index i = 0; i < r; ++i)
        bar_dot.f[c / dh * ld + i] +=
            bar_dot.mix[c * ld + i] * chunk.mix[c * ld + i] + bar.mix[c * ld + i] * dot.mix[c * ld + i];

  bar_dot.product.resize(3 * width * width);
  set_product_rule(row_major(bar_dot.product.data(), width, width), seed.transpose(), seed_dot.transpose(),
                   row_major<const T>(chunk.mix.data(), width, r, ld).transpose(),
                   row_major<const T>(dot.mix.data(), width, r, ld).transpose());
  bar_dot.sums.assign(2 * width, T(0));
  simd::add_rows(seeds_dot.data(), r, width, bar_dot.sums.data());
  *to.alpha += inner_product(theta.w_o, bar_dot.product.data(), width * width) +
               inner_product(theta.b_o, bar_dot.sums.data(), width);
  simd::set_sum(*theta.alpha, bar_dot.product.data(), width * width, to.w_o, to.w_o);
  simd::set_sum(*theta.alpha, bar_dot.sums.data(), width, to.b_o, to.b_o);
}

// From mix_bar' to q_bar', k_bar', v_bar'. Keys, values and their variations travel; the tangents of their
// adjoints follow.
template <class T>
void BackwardsAlong<T>::pull_kernel(std::vector<T>& travelling) {
  const Index r = chunk.rows(), width = chunk.width;
  set_travelling(chunk, Side::rows, dot.kv, travelling);
  bar_dot.q.assign(width * chunk.ld, T(0));
  bar_dot.kv.assign(r * (2 * width + chunk.heads), T(0));
  const std::vector<T>& offset = chunk.potential[0];
  const Index per_token = chunk.per_token(Side::rows);
  chunk.ring.visit_and_collect(
      travelling.data(), 2 * per_token, per_token,
      [&](int rank, const T* block, T* kv_bar_dot) {
        chunk.for_heads(
            Side::rows, true, rank, block,
            [&](const QueryBlock<T>& queries, const KeyValueBlock<T>& keys, const HeadPosition& at) {
              const QueryTangent<T> sweep = {.a_dot = dot.q.data() + at.lane,
                                             .mix_bar = bar.mix.data() + at.lane,
                                             .mix_bar_dot = bar_dot.mix.data() + at.lane,
                                             .offset = offset.data() + at.lane_number,
                                             .slope = dot.slope.data() + at.lane_number,
                                             .centre = bar.f.data() + at.lane_number,
                                             .centre_dot = bar_dot.f.data() + at.lane_number};
              T* const k_bar_dot = kv_bar_dot + at.key;
              chunk.kernel.adjoint_tangent(queries, sweep, keys, variation_of(keys, at),
                                           bar_dot.q.data() + at.lane,
                                           KeyValueAdjoint<T>{k_bar_dot, k_bar_dot + width, nullptr});
            });
      },
      bar_dot.kv.data());
}

// Through q = W_Q x + b_Q, and k, v likewise:
//
//   W_Q_bar' = sum over rows of q_bar' x^T + q_bar x'^T
//   x_bar'   = sum over q, k, v of W^T q_bar' + W'^T q_bar
template <class T>
void BackwardsAlong<T>::pull_input(const double* u, const double* u_dot, const double* base,
                                   double* u_bar_dot) {
  const Index r = chunk.rows(), width = chunk.width, kv = width * width;
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
  for (Index c = 0; c < width; ++c) {
    const T* const row = bar_dot.q.data() + c * chunk.ld;
    to.b_qkv[c] += simd::sum_over<T>(r, [row](auto at) { return at(row); });
  }
  bar_dot.sums.assign(2 * width, T(0));
  simd::add_rows(bar_dot.kv.data(), r, 2 * width, bar_dot.sums.data());
  simd::set_sum(1.0, bar_dot.sums.data(), 2 * width, to.b_qkv + width, to.b_qkv + width);

  bar_dot.x.resize(r * width);
  auto x_bar_dot = row_major(bar_dot.x.data(), r, width);
  set_product_rule(x_bar_dot, q_bar.transpose(), q_bar_dot.transpose(), row_major(theta.w_qkv, width, width),
                   row_major(theta_dot.w_qkv, width, width));
  set_product(x_bar_dot, kv_bar_dot, row_major(theta.w_qkv + kv, 2 * width, width), InsertMode::add);
  set_product(x_bar_dot, kv_bar, row_major(theta_dot.w_qkv + kv, 2 * width, width), InsertMode::add);
  if (!chunk.settings.layer_norm) return chunk.scatter(bar_dot.x.data(), nullptr, 1.0, base, u_bar_dot);
  chunk.for_samples([&](Index at, Index from) {
    layer_norm_adjoint_tangent(u + at, u_dot + at, chunk.context.row(), bar.x.data() + from,
                               bar_dot.x.data() + from, width, chunk.tokens, width, theta.eps, theta.gain,
                               theta_dot.gain, 1.0, base + at, u_bar_dot + at, to.gain, to.bias);
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
  const auto& tangent = dynamic_cast<AttentionTangentTape<T>&>(*at.tangent);
  const auto& adjoint = dynamic_cast<AttentionAdjointTape<T>&>(*at.adjoint);
  const auto &theta = weights.attention, &theta_dot = weights_dot.attention;
  const auto& to = gradient_dot.attention;
  const Index width = chunk.width;
  scale_output(theta, theta_dot);
  work_->for_kept_chunks(*at.value, [&] {
    const Index i = chunk.number();
    BackwardsAlong<T> backwards{theta, theta_dot, chunk, tangent.parts[i], adjoint.parts[i], work_->bar, to};
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
  *to.alpha += inner_product(theta_dot.w_o, adjoint.seed_product.data(), width * width) +
               inner_product(theta_dot.b_o, adjoint.seed_sums.data(), width);
  simd::set_sum(*theta_dot.alpha, adjoint.seed_product.data(), width * width, to.w_o, to.w_o);
  simd::set_sum(*theta_dot.alpha, adjoint.seed_sums.data(), width, to.b_o, to.b_o);
}

template class Attention<float>;
template class Attention<double>;

}  // namespace fluxformer
