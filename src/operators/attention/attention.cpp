#include "operators/attention/attention.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/phases.hpp"
#include "operators/attention/attention_chunk.hpp"
#include "operators/kernels/product.hpp"
#include "operators/kernels/simd.hpp"
#include "operators/layer_norm.hpp"

namespace fluxformer {

// With x = N(u), q, k, v = W_{Q,K,V} x + b_{Q,K,V}, the plan P(x, y) = k(x, y) and mix = sum_y P v. A ' or
// _dot is a variation along a direction of the weights, of u and of w; a _bar is an adjoint.
//
// Value: out = alpha (W_O mix + b_O). The half-steps of the normalisation are in attention_chunk.hpp.
//
// Tangent, where each half-step takes one tour of the ring, with blocks and their variations, and the
// potentials are known from the forward pass:
//
//   x' = N(u)'    q' = W_Q x' + W_Q' x + b_Q', k and v likewise
//   f' = -sum_y P u,  u = logit' + beta'      (P: the plan right after this half-step; columns likewise)
//   mix' = sum_y P (u v + v') + f' mix        (P: the final plan)
//   out' = (alpha W_O) mix' + (alpha W_O)' mix + (alpha b_O)'
//
// Adjoint, with the seed, the adjoint of out, and sums over rows:
//
//   mix_bar = alpha W_O^T seed                alpha_bar = <seed, W_O mix + b_O>
//   W_O_bar = alpha sum seed mix^T            b_O_bar = alpha sum seed
//
// then half-step by half-step backwards, where the plan P follows from the potentials kept:
//
//   final rows     s = P (mix_bar . v - c)      v_bar += sum_x P mix_bar
//                  c = mix_bar . mix if a row half-step was the last (c is then the adjoint of its
//                  potential), else 0
//   a half-step    s = -P c                     c: the adjoint of its potential
//   both           logit_bar = s    a_bar += scale sum s b    b_bar += scale sum s a    beta_bar += sum s
//
//   W_Q_bar = sum q_bar x^T, b_Q_bar = sum q_bar, k and v likewise
//   x_bar = W_Q^T q_bar + W_K^T k_bar + W_V^T v_bar
//
// Tangent of the adjoint, for kernel dot with soft-max or linear: every product becomes two. A row of P sums
// to 1, so that P' = P (u - slope), slope = sum_y P u.
//
//   mix_bar' = (alpha W_O)^T seed' + (alpha W_O)'^T seed
//   centre' = mix_bar' . mix + mix_bar . mix' (linear: 0)
//   q_bar', k_bar', v_bar'                                       HeadKernel::adjoint_tangent
//   W_O_bar' = alpha sum (seed' mix^T + seed mix'^T) + alpha' sum seed mix^T
//   b_O_bar' = alpha sum seed' + alpha' sum seed
//   W_Q_bar' = sum q_bar' x^T + q_bar x'^T, k and v likewise
//   x_bar' = sum over q, k, v of W^T q_bar' + W'^T q_bar
//
// Linear attention has P = w_y logit, one half-step and no potentials: P' = w_y u, s = w_y mix_bar . v, and
// c = 0.
// Nothing of size n is kept: the adjoints of keys, values and potentials follow the blocks around the ring.
// Source of the second derivatives: Pearlmutter 1994.

/// Results of the adjoint of a chunk that its tangent needs: the adjoints of lanes mix and q, and of kv;
/// mix_bar . mix, [head][row]; the adjoint of N(u), [row][width].
template <class T>
struct AttentionAdjoint {
  std::vector<T> mix, q, kv, f, x;

  std::size_t bytes() const { return bytes_of(mix, q, kv, f, x); }
};

/// All adjoints of a chunk: also of lanes k, of q_block and of the potentials of columns; seeds
/// [row][width]; gradients of a matrix and of a vector.
template <class T>
struct AttentionAdjointWork : AttentionAdjoint<T> {
  std::vector<T> k, q_block, g, none, seed, product, sums;

  std::size_t bytes() const {
    return AttentionAdjoint<T>::bytes() + bytes_of(k, q_block, g, none, seed, product, sums);
  }
};

/// Results of the tangent of a chunk that the tangent of the adjoint needs: variations of N(u), of lanes q
/// and mix, and of kv; sum_y P u of the last half-step of rows, [head][row].
template <class T>
struct AttentionTangent {
  std::vector<T> x, q, kv, mix, slope;

  std::size_t bytes() const { return bytes_of(x, q, kv, mix, slope); }
};

/// All variations of a chunk: also of lanes k, of q_block, of |k|^2/2 and of the potentials of rows and
/// columns; and the travelling blocks with their variations.
template <class T>
struct AttentionTangentWork : AttentionTangent<T> {
  std::vector<T> k, q_block, half_norm, f, g, travelling;

  std::size_t bytes() const {
    return AttentionTangent<T>::bytes() + bytes_of(k, q_block, half_norm, f, g, travelling);
  }
};

/// Tape of the value: the forward pass of every chunk. A chunk works in this memory instead of its own:
/// nothing is copied.
template <class T>
struct AttentionTape final : TermTape {
  AttentionTape(Index chunks, const AttentionForward<T>& chunk) : forward(chunks, chunk) {}
  std::size_t bytes() const override {
    std::size_t total = 0;
    for (const auto& chunk : forward) total += chunk.bytes();
    return total;
  }

  std::vector<AttentionForward<T>> forward;
};

/// Tape of second order: that of the value, and what pull (of w) and push leave for pull_along: for every
/// chunk, and the sums over all rows of seed mix^T, [width][width], and of the seed.
template <class T>
struct AttentionSecondOrderTape final : TermTape {
  /// Room for `chunks` copies of a chunk of `width` channels with `per_head` numbers [head][row].
  AttentionSecondOrderTape(Index chunks, const AttentionForward<T>& chunk, Index per_head, Index width)
      : value_of_all(chunks, chunk),
        adjoint(chunks, {chunk.mix, chunk.q, chunk.kv, std::vector<T>(per_head), chunk.x}),
        tangent(chunks, {chunk.x, chunk.q, chunk.kv, chunk.mix, std::vector<T>(per_head)}),
        seed_product(width * width),
        seed_sums(width) {}
  std::size_t bytes() const override {
    std::size_t total = value_of_all.bytes() + bytes_of(seed_product, seed_sums);
    for (const auto& chunk : adjoint) total += chunk.bytes();
    for (const auto& chunk : tangent) total += chunk.bytes();
    return total;
  }
  TermTape& value() override { return value_of_all; }

  AttentionTape<T> value_of_all;
  std::vector<AttentionAdjoint<T>> adjoint;
  std::vector<AttentionTangent<T>> tangent;
  std::vector<double> seed_product, seed_sums;
};

/// Exchanges the work space of a chunk with a part of a tape, and back at the end of the scope.
template <class Part>
class Exchanged {
 public:
  /// Without a part (null) nothing is exchanged.
  Exchanged(Part& work, Part* part) : work_(work), part_(part) { exchange(); }
  ~Exchanged() { exchange(); }
  Exchanged(const Exchanged&) = delete;
  Exchanged& operator=(const Exchanged&) = delete;

 private:
  void exchange() {
    if (part_ != nullptr) std::swap(work_, *part_);
  }
  Part& work_;
  Part* part_;
};

/// The output's weights and their variation, with alpha moved into them: alpha W_O and (alpha W_O)',
/// [width][width], and (alpha b_O)'.
template <class T>
struct VariedOutput {
  void set(const AttentionWeights<const T>& theta, const AttentionWeights<const T>& theta_dot, Index width) {
    const auto alpha = static_cast<T>(*theta.alpha), alpha_dot = static_cast<T>(*theta_dot.alpha);
    w.resize(width * width);
    w_dot.resize(width * width);
    b_dot.resize(width);
    for (Index i = 0; i < width * width; ++i) {
      w[i] = alpha * theta.w_o[i];
      w_dot[i] = alpha * theta_dot.w_o[i] + alpha_dot * theta.w_o[i];
    }
    for (Index c = 0; c < width; ++c) b_dot[c] = alpha * theta_dot.b_o[c] + alpha_dot * theta.b_o[c];
  }
  std::size_t bytes() const { return bytes_of(w, w_dot, b_dot); }

  std::vector<T> w, w_dot, b_dot;
};

/// The chunk, and buffers for tangent and adjoint.
template <class T>
struct Attention<T>::Work {
  /// Buffers as large as a chunk of `context` needs.
  Work(const SlabContext& context, const AttentionSettings& settings, Operands operands)
      : chunk(context, settings, operands) {}

  AttentionChunk<T> chunk;
  AttentionTangentWork<T> dot;
  AttentionAdjointWork<T> bar;
  VariedOutput<T> output;
  std::vector<T> seed_dot;  ///< variation of the seed, [row][width]

  /// Memory allocated so far, in bytes.
  std::size_t bytes() const {
    return chunk.bytes() + dot.bytes() + bar.bytes() + output.bytes() + bytes_of(seed_dot);
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
    const int keys = context_.real_tokens(sample);
    for (int token = 0; token < line.block().count(); ++token)
      pairs += mask.causal ? std::min(keys, line.global_index(line.rank(), token) + 1) : keys;
  }
  const double d = context_.width;
  count_flops(passes * d * (8 * d * context_.rows() + 2 * (1 + work_->chunk.half_steps) * pairs));
}

template <class T>
std::unique_ptr<TermTape> Attention<T>::make_tape(Order upto) const {
  const AttentionChunk<T>& chunk = work_->chunk;
  if (upto == Order::first) return std::make_unique<AttentionTape<T>>(chunk.chunks(), chunk.make_forward());
  if (settings_.kernel != Kernel::dot)
    throw BadInput("attention.kernel = l2: products with the Hessian need attention.kernel = dot");
  if (settings_.normalisation == Normalisation::sinkhorn)
    throw BadInput(
        "attention.normalisation = sinkhorn: products with the Hessian need attention.normalisation = "
        "softmax or linear");
  return std::make_unique<AttentionSecondOrderTape<T>>(chunk.chunks(), chunk.make_forward(),
                                                       chunk.heads * chunk.ld, chunk.width);
}

template <class T>
void Attention<T>::apply(const LayerWeights<const T>& weights, const double* u, Sum out, TermTape* tape) {
  const InPiece piece(Piece::attention);
  count(1);
  AttentionChunk<T>& chunk = work_->chunk;
  const auto& theta = weights.attention;
  auto* const keep = value_part<AttentionTape<T>>(tape);
  chunk.set_maps(theta);
  chunk.for_chunks([&] {
    const Exchanged<AttentionForward<T>> kept(chunk,
                                              keep != nullptr ? &keep->forward[chunk.number()] : nullptr);
    chunk.project(theta, u);
    chunk.solve(keep != nullptr);
    chunk.set_output(theta.b_o, chunk.mix, out.scale * *theta.alpha, out.base, out.out);
  });
}

template <class T>
template <class Body>
void Attention<T>::over_known_chunks(const AttentionWeights<const T>& theta, const double* u, TermTape* tape,
                                     Body&& body) {
  AttentionChunk<T>& chunk = work_->chunk;
  auto* const known = value_part<AttentionTape<T>>(tape);
  chunk.set_maps(theta);
  chunk.for_chunks([&] {
    const Exchanged<AttentionForward<T>> kept(chunk,
                                              known != nullptr ? &known->forward[chunk.number()] : nullptr);
    if (known == nullptr) {
      chunk.project(theta, u);
      chunk.solve(true);
    }
    body();
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

namespace {

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

/// The tangent of one chunk, from the input to the output. Without theta_dot (null) the weights do not vary.
template <class T>
struct Forwards {
  const AttentionWeights<const T>& theta;
  const AttentionWeights<const T>* theta_dot;
  AttentionChunk<T>& chunk;
  AttentionTangentWork<T>& dot;

  void push_input(Point at);
  void push_kernel();
  void push_output(const VariedOutput<T>& weights, Sum out);
};

// x' = N(u)', q' = W_Q x' + W_Q' x + b_Q', and k', v' likewise, by products with W and W' side by side.
template <class T>
void Forwards<T>::push_input(Point at) {
  const Index r = chunk.rows(), width = chunk.width, ld = chunk.ld;
  dot.x.resize(r * width);
  dot.q.resize(width * ld);
  dot.kv.resize(r * (2 * width + chunk.heads));
  if (!chunk.settings.layer_norm) {
    chunk.gather(at.u_dot, 1.0, dot.x.data());
  } else {
    chunk.for_samples([&](Index from, Index to) {
      const double *const u = at.u + from, *const u_dot = at.u_dot + from;
      if (theta_dot == nullptr)
        layer_norm_tangent(u, u_dot, chunk.context.row(), chunk.tokens, width, theta.norm, theta.gain,
                           dot.x.data() + to, width);
      else
        layer_norm_full_tangent(u, u_dot, chunk.context.row(), chunk.tokens, width, theta.norm, theta.gain,
                                theta_dot->gain, theta_dot->bias, dot.x.data() + to, width);
    });
  }
  if (theta_dot == nullptr) {
    chunk.w_q.apply(r, dot.x.data(), chunk.projected.data());
    transpose(chunk.projected.data(), r, width, width, dot.q.data(), ld);
    chunk.w_kv.apply(r, dot.x.data(), dot.kv.data());
    return;
  }
  const auto x = row_major<const T>(chunk.x.data(), r, width),
             x_dot = row_major<const T>(dot.x.data(), r, width);
  auto queries = row_major(dot.q.data(), width, r, ld);
  set_product_rule(queries, row_major(theta.w_qkv, width, width), row_major(theta_dot->w_qkv, width, width),
                   x.transpose(), x_dot.transpose());
  queries.colwise() +=
      Eigen::Map<const Eigen::Matrix<T, Eigen::Dynamic, 1>>(theta_dot->b_qkv, chunk.context.width);
  auto keys_values = row_major(dot.kv.data(), r, 2 * width);
  const Index kv = width * width;
  set_product_rule(keys_values, x, x_dot, row_major(theta.w_qkv + kv, 2 * width, width).transpose(),
                   row_major(theta_dot->w_qkv + kv, 2 * width, width).transpose());
  keys_values.rowwise() += Eigen::Map<const Eigen::Matrix<T, 1, Eigen::Dynamic>>(theta_dot->b_qkv + width,
                                                                                 2 * chunk.context.width);
}

// From q', k' and v' to mix', half-step by half-step.
template <class T>
void Forwards<T>::push_kernel() {
  const Index r = chunk.rows(), width = chunk.width, heads = chunk.heads, ld = chunk.ld;
  const Index dh = chunk.shape.channels;
  dot.half_norm.assign(heads * ld, T(0));
  if (chunk.settings.kernel == Kernel::l2) chunk.key_products(dot.kv, T(1), dot.half_norm);
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

  // mix' = sum_y P (u v + v') + f' mix
  for (Index c = 0; c < width; ++c)
    for (Index i = 0; i < r; ++i) dot.mix[c * ld + i] += dot.f[c / dh * ld + i] * chunk.mix[c * ld + i];
}

// out' = (alpha W_O) mix' + (alpha W_O)' mix + (alpha b_O)'
template <class T>
void Forwards<T>::push_output(const VariedOutput<T>& weights, Sum out) {
  if (theta_dot == nullptr)
    return chunk.set_output(nullptr, dot.mix, out.scale * *theta.alpha, out.base, out.out);
  const Index r = chunk.rows(), width = chunk.width;
  set_product_rule(row_major(chunk.projected.data(), r, width),
                   row_major<const T>(chunk.mix.data(), width, r, chunk.ld).transpose(),
                   row_major<const T>(dot.mix.data(), width, r, chunk.ld).transpose(),
                   row_major<const T>(weights.w.data(), width, width).transpose(),
                   row_major<const T>(weights.w_dot.data(), width, width).transpose());
  chunk.scatter(chunk.projected.data(), weights.b_dot.data(), out.scale, out.base, out.out);
}

}  // namespace

template <class T>
void Attention<T>::push(const LayerWeights<const T>& weights, const LayerWeights<const T>* weights_dot,
                        Point at, Sum out, TermTape* tape) {
  const InPiece piece(Piece::attention);
  count(2);
  AttentionChunk<T>& chunk = work_->chunk;
  const auto* const theta_dot = weights_dot != nullptr ? &weights_dot->attention : nullptr;
  if (theta_dot != nullptr) work_->output.set(weights.attention, *theta_dot, chunk.width);
  auto* const keep = theta_dot != nullptr ? second_order_part<AttentionSecondOrderTape<T>>(tape) : nullptr;
  over_known_chunks(weights.attention, at.u, tape, [&] {
    const Exchanged<AttentionTangent<T>> kept(work_->dot,
                                              keep != nullptr ? &keep->tangent[chunk.number()] : nullptr);
    Forwards<T> forwards{weights.attention, theta_dot, chunk, work_->dot};
    forwards.push_input(at);
    forwards.push_kernel();
    forwards.push_output(work_->output, out);
  });
}

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
  void pull_input(const double* u, Sum u_bar);
  void keep_seed(std::vector<double>& product, std::vector<double>& sums);
};

// From the seed to mix_bar, and the gradients of alpha, W_O and b_O.
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

// From q_bar, k_bar, v_bar to u_bar, and the gradients of W_{Q,K,V}, b_{Q,K,V}, gain and bias.
template <class T>
void Backwards<T>::pull_input(const double* u, Sum u_bar) {
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
      to.b_qkv[c] += simd::sum_over<T>(r, [row](auto load) { return load(row); });
    }
    bar.sums.assign(2 * width, T(0));
    simd::add_rows(bar.kv.data(), r, 2 * width, bar.sums.data());
    simd::set_sum(1.0, bar.sums.data(), 2 * width, to.b_qkv + width, to.b_qkv + width);
  }
  bar.x.resize(r * width);
  chunk.w_q.apply_transpose(r, Stored::transposed, bar.q.data(), chunk.ld, InsertMode::insert, bar.x.data());
  chunk.w_kv.apply_transpose(r, bar.kv.data(), InsertMode::add, bar.x.data());
  if (!chunk.settings.layer_norm) return chunk.scatter(bar.x.data(), nullptr, 1.0, u_bar.base, u_bar.out);
  chunk.for_samples([&](Index at, Index from) {
    layer_norm_adjoint(u + at, chunk.context.row(), bar.x.data() + from, width, chunk.tokens, width,
                       theta.norm, theta.gain, 1.0, u_bar.base + at, u_bar.out + at,
                       gradient != nullptr ? gradient->attention.gain : nullptr,
                       gradient != nullptr ? gradient->attention.bias : nullptr);
  });
}

// The sums over rows of seed mix^T and of the seed are added to, for the tangent of the adjoint.
template <class T>
void Backwards<T>::keep_seed(std::vector<double>& product, std::vector<double>& sums) {
  const Index r = chunk.rows(), width = chunk.width;
  bar.product.resize(width * width);
  set_product(row_major(bar.product.data(), width, width),
              row_major<const T>(bar.seed.data(), r, width).transpose(),
              row_major<const T>(chunk.mix.data(), width, r, chunk.ld).transpose());
  simd::set_sum(1.0, bar.product.data(), width * width, product.data(), product.data());
  bar.sums.assign(width, T(0));
  simd::add_rows(bar.seed.data(), r, width, bar.sums.data());
  simd::set_sum(1.0, bar.sums.data(), width, sums.data(), sums.data());
}

}  // namespace

template <class T>
void Attention<T>::pull(const LayerWeights<const T>& weights, const double* u, const double* w, Sum u_bar,
                        const LayerWeights<double>* gradient, TermTape* tape) {
  const InPiece piece(Piece::attention);
  count(tape != nullptr ? 2 : 3);
  const AttentionChunk<T>& chunk = work_->chunk;
  auto* const keep = second_order_part<AttentionSecondOrderTape<T>>(tape);
  if (keep != nullptr) {
    std::ranges::fill(keep->seed_product, 0.0);
    std::ranges::fill(keep->seed_sums, 0.0);
  }
  over_known_chunks(weights.attention, u, tape, [&] {
    const Exchanged<AttentionAdjoint<T>> kept(work_->bar,
                                              keep != nullptr ? &keep->adjoint[chunk.number()] : nullptr);
    Backwards<T> backwards{weights.attention, work_->chunk, work_->bar, gradient};
    backwards.pull_output(w, u_bar.scale);
    backwards.pull_kernel();
    backwards.pull_input(u, u_bar);
    if (keep != nullptr) backwards.keep_seed(keep->seed_product, keep->seed_sums);
  });
}

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

  void pull_output(const VariedOutput<T>& weights, const std::vector<T>& seeds,
                   const std::vector<T>& seeds_dot);
  void pull_kernel(std::vector<T>& travelling);
  void pull_input(Point at, Sum u_bar_dot);
};

// From seed' to mix_bar' and centre'. The gradients of alpha, W_O and b_O lack what varies with these.
template <class T>
void BackwardsAlong<T>::pull_output(const VariedOutput<T>& weights, const std::vector<T>& seeds,
                                    const std::vector<T>& seeds_dot) {
  const Index r = chunk.rows(), width = chunk.width, ld = chunk.ld;
  const Index dh = chunk.shape.channels;
  const auto seed = row_major<const T>(seeds.data(), r, width),
             seed_dot = row_major<const T>(seeds_dot.data(), r, width);
  bar_dot.mix.resize(width * ld);
  set_product_rule(row_major(bar_dot.mix.data(), width, r, ld),
                   row_major<const T>(weights.w.data(), width, width).transpose(),
                   row_major<const T>(weights.w_dot.data(), width, width).transpose(), seed.transpose(),
                   seed_dot.transpose());
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

// From q_bar', k_bar', v_bar' to u_bar', and the tangents of the gradients of the input's weights.
template <class T>
void BackwardsAlong<T>::pull_input(Point at, Sum u_bar_dot) {
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
    to.b_qkv[c] += simd::sum_over<T>(r, [row](auto load) { return load(row); });
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
  if (!chunk.settings.layer_norm)
    return chunk.scatter(bar_dot.x.data(), nullptr, 1.0, u_bar_dot.base, u_bar_dot.out);
  chunk.for_samples([&](Index row, Index from) {
    layer_norm_adjoint_tangent(at.u + row, at.u_dot + row, chunk.context.row(), bar.x.data() + from,
                               bar_dot.x.data() + from, width, chunk.tokens, width, theta.norm, theta.gain,
                               theta_dot.gain, 1.0, u_bar_dot.base + row, u_bar_dot.out + row, to.gain,
                               to.bias);
  });
}

}  // namespace

template <class T>
void Attention<T>::pull_along(const LayerWeights<const T>& weights, const LayerWeights<const T>& weights_dot,
                              Point at, Cotangent w, Sum u_bar_dot, const LayerWeights<double>& gradient_dot,
                              TermTape* tape) {
  const InPiece piece(Piece::attention);
  count(4);
  AttentionChunk<T>& chunk = work_->chunk;
  auto& bar_dot = work_->bar;
  auto& kept = *second_order_part<AttentionSecondOrderTape<T>>(tape);
  const auto &theta = weights.attention, &theta_dot = weights_dot.attention;
  const auto& to = gradient_dot.attention;
  const Index width = chunk.width;
  work_->output.set(theta, theta_dot, width);
  over_known_chunks(theta, at.u, tape, [&] {
    const Index i = chunk.number();
    BackwardsAlong<T> backwards{theta, theta_dot, chunk, kept.tangent[i], kept.adjoint[i], bar_dot, to};
    bar_dot.seed.resize(chunk.rows() * width);
    work_->seed_dot.resize(chunk.rows() * width);
    chunk.gather(w.w, u_bar_dot.scale, bar_dot.seed.data());
    chunk.gather(w.w_dot, u_bar_dot.scale, work_->seed_dot.data());
    backwards.pull_output(work_->output, bar_dot.seed, work_->seed_dot);
    backwards.pull_kernel(work_->dot.travelling);
    backwards.pull_input(at, u_bar_dot);
  });
  // The gradients of alpha, W_O and b_O are <seed, W_O mix + b_O>, alpha seed mix^T and alpha seed: what
  // varies with W_O, b_O and alpha.
  *to.alpha += inner_product(theta_dot.w_o, kept.seed_product.data(), width * width) +
               inner_product(theta_dot.b_o, kept.seed_sums.data(), width);
  simd::set_sum(*theta_dot.alpha, kept.seed_product.data(), width * width, to.w_o, to.w_o);
  simd::set_sum(*theta_dot.alpha, kept.seed_sums.data(), width, to.b_o, to.b_o);
}

template class Attention<float>;
template class Attention<double>;

}  // namespace fluxformer
