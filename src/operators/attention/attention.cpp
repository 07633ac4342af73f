#include "operators/attention/attention.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <stdexcept>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/phases.hpp"
#include "operators/attention/attention_chunk.hpp"
#include "operators/attention/attention_input.hpp"
#include "operators/kernels/product.hpp"
#include "operators/kernels/simd.hpp"

namespace fluxformer {

// From queries, keys and values to the output, with the plan P(x, y) = k(x, y) and mix = sum_y P v, where v is
// that of the head's group. What makes q, k and v of u is in attention_input.hpp. A ' or _dot is a variation
// along a direction of the weights, of u and of w; a _bar is an adjoint.
//
// Value: out = alpha (W_O mix + b_O). The half-steps of the normalisation are in attention_chunk.hpp.
//
// Tangent, where each half-step takes one tour of the ring, with blocks and their variations, and the
// potentials are known from the forward pass:
//
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
// where the adjoints of keys and values are summed over the heads of their group.
//
// Tangent of the adjoint, for kernel dot with soft-max or linear: every product becomes two. A row of P sums
// to 1, so that P' = P (u - slope), slope = sum_y P u.
//
//   mix_bar' = (alpha W_O)^T seed' + (alpha W_O)'^T seed
//   centre' = mix_bar' . mix + mix_bar . mix' (linear: 0)
//   q_bar', k_bar', v_bar'                                       HeadKernel::adjoint_tangent
//   W_O_bar' = alpha sum (seed' mix^T + seed mix'^T) + alpha' sum seed mix^T
//   b_O_bar' = alpha sum seed' + alpha' sum seed
//
// Linear attention has P = w_y logit, one half-step and no potentials: P' = w_y u, s = w_y mix_bar . v, and
// c = 0.
// Nothing of size n is kept: the adjoints of keys, values and potentials follow the blocks around the ring.
// Source of the second derivatives: Pearlmutter 1994.

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
/// chunk, and the sums over all rows of seed mix^T, [width][channels of all heads], and of the seed.
template <class T>
struct AttentionSecondOrderTape final : TermTape {
  /// Room for all chunks.
  explicit AttentionSecondOrderTape(const AttentionChunk<T>& of)
      : AttentionSecondOrderTape(of, of.make_forward(), std::vector<T>(of.heads * of.ld)) {}
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

 private:
  AttentionSecondOrderTape(const AttentionChunk<T>& of, const AttentionForward<T>& chunk,
                           const std::vector<T>& per_head)
      : value_of_all(of.chunks(), chunk),
        adjoint(of.chunks(), {chunk.mix, chunk.q, chunk.kv, per_head, chunk.x, chunk.raw_q, chunk.raw_k}),
        tangent(of.chunks(), {chunk.x, chunk.raw_q, chunk.raw_k, chunk.q, chunk.kv, chunk.mix, per_head}),
        seed_product(of.width * of.query_width),
        seed_sums(of.width) {}
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
/// [width][channels of all heads], and (alpha b_O)', empty where there is no b_O.
template <class T>
struct VariedOutput {
  void set(const AttentionWeights<const T>& theta, const AttentionWeights<const T>& theta_dot, Index width,
           Index size) {
    const auto alpha = static_cast<T>(*theta.alpha), alpha_dot = static_cast<T>(*theta_dot.alpha);
    w.resize(size);
    w_dot.resize(size);
    for (Index i = 0; i < size; ++i) {
      w[i] = alpha * theta.w_o[i];
      w_dot[i] = alpha * theta_dot.w_o[i] + alpha_dot * theta.w_o[i];
    }
    b_dot.resize(theta.b_o != nullptr ? width : 0);
    if (theta.b_o == nullptr) return;
    for (Index c = 0; c < width; ++c) b_dot[c] = alpha * theta_dot.b_o[c] + alpha_dot * theta.b_o[c];
  }
  std::size_t bytes() const { return bytes_of(w, w_dot, b_dot); }

  std::vector<T> w, w_dot, b_dot;
};

/// The chunk, what fills it, and buffers for tangent and adjoint.
template <class T>
struct Attention<T>::Work {
  /// Buffers as large as a chunk of `context` needs.
  Work(const SlabContext& context, const AttentionSettings& settings, Operands operands)
      : chunk(context, settings, operands), input(chunk, operands) {}

  AttentionChunk<T> chunk;
  AttentionInput<T> input;
  AttentionTangentWork<T> dot;
  AttentionAdjointWork<T> bar;
  VariedOutput<T> output;
  std::vector<T> seed_dot;  ///< variation of the seed, [row][width]

  /// Sets the linear maps and the window, before the first chunk of a call.
  void set(const AttentionWeights<const T>& theta) {
    input.set(theta);
    chunk.w_o.set(theta.w_o, chunk.width, chunk.query_width);
    chunk.set_window(theta.window);
  }
  /// Memory allocated so far, in bytes.
  std::size_t bytes() const {
    return chunk.bytes() + input.bytes() + dot.bytes() + bar.bytes() + output.bytes() + bytes_of(seed_dot);
  }
};

namespace {

void refuse_bad_settings(const SlabContext& context, const AttentionSettings& settings) {
  const std::string heads = "attention.heads = " + std::to_string(settings.heads);
  if (settings.heads < 1 || (settings.head_width == 0 && context.width % settings.heads != 0))
    throw BadInput(heads + " must divide the width " + std::to_string(context.width) +
                   ", or attention.head_width be given");
  if (settings.head_width < 0)
    throw BadInput("attention.head_width = " + std::to_string(settings.head_width) + " must not be negative");
  if (settings.groups < 0 || settings.heads % settings.key_groups() != 0)
    throw BadInput("attention.groups = " + std::to_string(settings.groups) + " must divide " + heads);
  const int turned = settings.rotary.channels, channels = settings.channels(context.width);
  if (settings.rotary.layout != RotaryLayout::none && (turned < 2 || turned % 2 != 0 || turned > channels))
    throw BadInput("attention.rotary turns " + std::to_string(turned) + " of the " +
                   std::to_string(channels) + " channels of a head: an even number of them is allowed");
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
void Attention<T>::count(int passes, const AttentionWeights<const T>& theta) const {
  const auto& line = *context_.line;
  const Reach reach = reach_of(context_.mask.causal, theta.window);
  double pairs = 0;
  for (int sample = 0; sample < context_.samples; ++sample) {
    const Index keys = context_.real_tokens(sample);
    for (int token = 0; token < line.block().count(); ++token) {
      const Index x = line.global_index(line.rank(), token);
      pairs += reach.keys(x, keys).count();
    }
  }
  const AttentionChunk<T>& chunk = work_->chunk;
  const double d = chunk.width, queries = chunk.query_width, keys = chunk.key_width;
  count_flops(passes *
              (4 * d * (queries + keys) * context_.rows() + 2 * (1 + chunk.half_steps) * queries * pairs));
}

template <class T>
std::unique_ptr<TermTape> Attention<T>::make_tape(Order upto) const {
  if (context_.kept != nullptr) throw std::logic_error("attention: no derivatives by tokens that were kept");
  const AttentionChunk<T>& chunk = work_->chunk;
  if (upto == Order::first) return std::make_unique<AttentionTape<T>>(chunk.chunks(), chunk.make_forward());
  if (settings_.kernel != Kernel::dot)
    throw BadInput("attention.kernel = l2: products with the Hessian need attention.kernel = dot");
  if (settings_.normalisation == Normalisation::sinkhorn)
    throw BadInput(
        "attention.normalisation = sinkhorn: products with the Hessian need attention.normalisation = "
        "softmax or linear");
  return std::make_unique<AttentionSecondOrderTape<T>>(chunk);
}

template <class T>
void Attention<T>::apply(const LayerWeights<const T>& weights, const double* u, Sum out, TermTape* tape) {
  const InPiece piece(Piece::attention);
  count(1, weights.attention);
  AttentionChunk<T>& chunk = work_->chunk;
  const auto& theta = weights.attention;
  auto* const keep = value_part<AttentionTape<T>>(tape);
  if (context_.kept != nullptr) chunk.begin_stretch(theta.window);
  work_->set(theta);
  chunk.for_chunks([&] {
    const Exchanged<AttentionForward<T>> kept(chunk,
                                              keep != nullptr ? &keep->forward[chunk.number()] : nullptr);
    work_->input.apply(theta, u);
    chunk.solve(keep != nullptr);
    if (context_.kept != nullptr) chunk.keep_keys();
    chunk.set_output(theta.b_o, chunk.mix, out.scale * *theta.alpha, out.base, out.out);
  });
  if (context_.kept != nullptr) chunk.end_stretch();
}

template <class T>
template <class Body>
void Attention<T>::over_known_chunks(const AttentionWeights<const T>& theta, const double* u, TermTape* tape,
                                     Body&& body) {
  AttentionChunk<T>& chunk = work_->chunk;
  auto* const known = value_part<AttentionTape<T>>(tape);
  work_->set(theta);
  chunk.for_chunks([&] {
    const Exchanged<AttentionForward<T>> kept(chunk,
                                              known != nullptr ? &known->forward[chunk.number()] : nullptr);
    if (known == nullptr) {
      work_->input.apply(theta, u);
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
  work_->set(weights.attention);
  chunk.for_chunks([&] {
    work_->input.apply(weights.attention, u);
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

template <class T>
void Attention<T>::projections(const LayerWeights<const T>& weights, const double* u, double* q, double* k,
                               double* v) {
  AttentionChunk<T>& chunk = work_->chunk;
  const Index queries = chunk.query_width, keys = chunk.key_width;
  work_->set(weights.attention);
  chunk.for_chunks([&] {
    work_->input.apply(weights.attention, u);
    const Index r = chunk.rows();
    const auto all = row_major<const T>(chunk.kv.data(), r, 2 * keys);
    row_major(q, r, queries) =
        row_major<const T>(chunk.q.data(), queries, r, chunk.ld).transpose().template cast<double>();
    row_major(k, r, keys) = all.leftCols(keys).template cast<double>();
    row_major(v, r, keys) = all.rightCols(keys).template cast<double>();
    q += r * queries;
    k += r * keys;
    v += r * keys;
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
    if (mix != nullptr) mix->assign(chunk.query_width * chunk.ld, T(0));
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

/// The tangent of one chunk, from q', k' and v' to the output. Without theta_dot (null) the weights do not vary.
template <class T>
struct Forwards {
  const AttentionWeights<const T>& theta;
  const AttentionWeights<const T>* theta_dot;
  AttentionChunk<T>& chunk;
  AttentionTangentWork<T>& dot;

  void push_kernel();
  void push_output(const VariedOutput<T>& weights, Sum out);
};

// From q', k' and v' to mix', half-step by half-step.
template <class T>
void Forwards<T>::push_kernel() {
  const Index r = chunk.rows(), heads = chunk.heads, ld = chunk.ld;
  const Index queries = chunk.query_width, keys = chunk.key_width;
  const Index dh = chunk.shape.channels;
  dot.half_norm.assign(heads * ld, T(0));
  if (chunk.settings.kernel == Kernel::l2) chunk.key_products(dot.kv, T(1), dot.half_norm);
  if (chunk.half_steps > 1) {
    dot.k.resize(keys * ld);
    dot.q_block.resize(r * (queries + heads));
    row_major(dot.k.data(), keys, r, ld) = row_major<const T>(dot.kv.data(), r, keys, 2 * keys).transpose();
    row_major(dot.q_block.data(), r, queries) = row_major<const T>(dot.q.data(), queries, r, ld).transpose();
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
  for (Index c = 0; c < queries; ++c)
    for (Index i = 0; i < r; ++i) dot.mix[c * ld + i] += dot.f[c / dh * ld + i] * chunk.mix[c * ld + i];
}

// out' = (alpha W_O) mix' + (alpha W_O)' mix + (alpha b_O)'
template <class T>
void Forwards<T>::push_output(const VariedOutput<T>& weights, Sum out) {
  if (theta_dot == nullptr)
    return chunk.set_output(nullptr, dot.mix, out.scale * *theta.alpha, out.base, out.out);
  const Index r = chunk.rows(), width = chunk.width, queries = chunk.query_width;
  set_product_rule(row_major(chunk.projected.data(), r, width),
                   row_major<const T>(chunk.mix.data(), queries, r, chunk.ld).transpose(),
                   row_major<const T>(dot.mix.data(), queries, r, chunk.ld).transpose(),
                   row_major<const T>(weights.w.data(), width, queries).transpose(),
                   row_major<const T>(weights.w_dot.data(), width, queries).transpose());
  chunk.scatter(chunk.projected.data(), weights.b_dot.empty() ? nullptr : weights.b_dot.data(), out.scale,
                out.base, out.out);
}

}  // namespace

template <class T>
void Attention<T>::push(const LayerWeights<const T>& weights, const LayerWeights<const T>* weights_dot,
                        Point at, Sum out, TermTape* tape) {
  const InPiece piece(Piece::attention);
  count(2, weights.attention);
  AttentionChunk<T>& chunk = work_->chunk;
  const auto* const theta_dot = weights_dot != nullptr ? &weights_dot->attention : nullptr;
  if (theta_dot != nullptr)
    work_->output.set(weights.attention, *theta_dot, chunk.width, chunk.width * chunk.query_width);
  auto* const keep = theta_dot != nullptr ? second_order_part<AttentionSecondOrderTape<T>>(tape) : nullptr;
  over_known_chunks(weights.attention, at.u, tape, [&] {
    const Exchanged<AttentionTangent<T>> kept(work_->dot,
                                              keep != nullptr ? &keep->tangent[chunk.number()] : nullptr);
    work_->input.push(weights.attention, theta_dot, at, work_->dot);
    Forwards<T> forwards{weights.attention, theta_dot, chunk, work_->dot};
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
                    KeyValueAdjoint<T>{b_bar, b_bar + chunk.key_width, potentials ? bar + at.beta : nullptr});
              });
        },
        travelling_bar.data());
    if (!potentials) return;
    for (Index h = 0; h < chunk.heads; ++h)
      for (Index i = 0; i < r; ++i) other_bar[h * ld + i] += beta_bar[h * r + i];
  }
};

/// Adds to the gradients of alpha, W_O and b_O, from sums over rows of seed mix^T and of the seed: those of
/// factor (W_O mix + b_O).
template <class T, class S>
void add_output_gradients(const AttentionWeights<const T>& theta, double factor, const S* product,
                          const S* sums, Index width, Index queries, const AttentionWeights<double>& to) {
  *to.alpha += inner_product(theta.w_o, product, width * queries) +
               (theta.b_o != nullptr ? inner_product(theta.b_o, sums, width) : 0.0);
  simd::set_sum(factor, product, width * queries, to.w_o, to.w_o);
  if (to.b_o != nullptr) simd::set_sum(factor, sums, width, to.b_o, to.b_o);
}

/// The adjoint of one chunk, from the output back to q_bar, k_bar and v_bar.
template <class T>
struct Backwards {
  const AttentionWeights<const T>& theta;
  AttentionChunk<T>& chunk;
  AttentionAdjointWork<T>& bar;
  const AttentionWeights<double>* to;

  void pull_output(const double* w, double scale);
  void pull_kernel();
  void pull_rows(bool values, int step, int after, const std::vector<T>& centre);
  /// f(head, channel of its key) for all heads.
  template <class F>
  void for_key_channels(F&& f) const {
    const Index dh = chunk.shape.channels;
    for (Index h = 0; h < chunk.heads; ++h)
      for (Index c = 0; c < dh; ++c) f(h, chunk.group_of(h) * dh + c);
  }
  void keep_seed(std::vector<double>& product, std::vector<double>& sums);
};

// From the seed to mix_bar, and the gradients of alpha, W_O and b_O.
template <class T>
void Backwards<T>::pull_output(const double* w, double scale) {
  const Index r = chunk.rows(), width = chunk.width, queries = chunk.query_width, ld = chunk.ld;
  const Index dh = chunk.shape.channels;
  bar.seed.resize(r * width);
  chunk.gather(w, scale, bar.seed.data());
  chunk.w_o.apply_transpose(r, bar.seed.data(), InsertMode::insert, chunk.projected.data());
  bar.mix.resize(queries * ld);
  transpose(chunk.projected.data(), r, queries, queries, bar.mix.data(), ld);
  for (Index c = 0; c < queries; ++c)
    for (Index i = c * ld; i < c * ld + r; ++i) bar.mix[i] *= static_cast<T>(*theta.alpha);

  // bar.f = mix_bar . mix, the adjoint of the last row potential
  bar.f.assign(chunk.heads * ld, T(0));
  if (!chunk.shape.linear)
    for (Index c = 0; c < queries; ++c)
      for (Index i = 0; i < r; ++i) bar.f[c / dh * ld + i] += bar.mix[c * ld + i] * chunk.mix[c * ld + i];

  if (to == nullptr) return;
  bar.product.resize(2 * width * queries);
  T* const mix_seed = bar.product.data() + width * queries;  // sum over rows of mix seed^T
  chunk.w_o.gradient_transpose(r, Stored::transposed, chunk.mix.data(), ld, bar.seed.data(),
                               InsertMode::insert, mix_seed);
  transpose(mix_seed, queries, width, width, bar.product.data(), queries);
  bar.sums.assign(width, T(0));
  simd::add_rows(bar.seed.data(), r, width, bar.sums.data());
  add_output_gradients(theta, *theta.alpha, bar.product.data(), bar.sums.data(), width, queries, *to);
}

// From mix_bar (and bar.f = mix_bar . mix; linear: 0) to the adjoints of q, k and v, half-step by half-step.
template <class T>
void Backwards<T>::pull_kernel() {
  const Index r = chunk.rows(), heads = chunk.heads, ld = chunk.ld;
  const Index queries = chunk.query_width, keys = chunk.key_width;
  const int steps = chunk.half_steps;
  const bool rows_last = steps % 2 == 1;
  const AdjointPass<T> pass{chunk};
  bar.q.assign(queries * ld, T(0));
  bar.kv.assign(r * (2 * keys + heads), T(0));
  if (rows_last) {
    pull_rows(true, steps - 1, steps - 2, bar.f);
  } else {
    bar.none.assign(heads * ld, T(0));
    pull_rows(true, steps - 2, steps - 1, bar.none);
  }
  if (steps == 1) return;

  if (rows_last) bar.f.assign(heads * ld, T(0));
  bar.k.assign(keys * ld, T(0));
  bar.q_block.assign(r * (queries + heads), T(0));
  for (int step = rows_last ? steps - 2 : steps - 1; step >= 0; --step) {
    if (step % 2 == 0) {
      pull_rows(false, step, step - 1, bar.f);
      bar.f.assign(heads * ld, T(0));
    } else {
      chunk.set_beta(Side::columns, &chunk.potential[step - 1]);
      pass.run(Side::columns, false, step, bar.g, bar.mix, bar.k, bar.q_block, bar.f);
      if (chunk.settings.kernel == Kernel::l2)
        for_key_channels([&](Index head, Index c) {
          for (Index i = 0; i < r; ++i) bar.k[c * ld + i] += bar.g[head * ld + i] * chunk.k[c * ld + i];
        });
    }
  }
  row_major(bar.q.data(), queries, r, ld) += row_major(bar.q_block.data(), r, queries).transpose();
  row_major(bar.kv.data(), r, keys, 2 * keys) += row_major(bar.k.data(), keys, r, ld).transpose();
}

// Backwards through a half-step of rows: bar.g becomes the adjoint of the columns' potential. For l2, beta
// includes -|k|^2/2: k_bar -= beta_bar k.
template <class T>
void Backwards<T>::pull_rows(bool values, int step, int after, const std::vector<T>& centre) {
  const Index r = chunk.rows(), ld = chunk.ld, stride = 2 * chunk.key_width;
  chunk.set_beta(Side::rows, after < 0 ? nullptr : &chunk.potential[after]);
  bar.g.assign(chunk.heads * ld, T(0));
  AdjointPass<T>{chunk}.run(Side::rows, values, step, centre, bar.mix, bar.q, bar.kv, bar.g);
  if (chunk.settings.kernel != Kernel::l2) return;
  for_key_channels([&](Index head, Index c) {
    for (Index i = 0; i < r; ++i) bar.kv[i * stride + c] -= bar.g[head * ld + i] * chunk.kv[i * stride + c];
  });
}

// The sums over rows of seed mix^T and of the seed are added to, for the tangent of the adjoint.
template <class T>
void Backwards<T>::keep_seed(std::vector<double>& product, std::vector<double>& sums) {
  const Index r = chunk.rows(), width = chunk.width, queries = chunk.query_width;
  bar.product.resize(width * queries);
  set_product(row_major(bar.product.data(), width, queries),
              row_major<const T>(bar.seed.data(), r, width).transpose(),
              row_major<const T>(chunk.mix.data(), queries, r, chunk.ld).transpose());
  simd::set_sum(1.0, bar.product.data(), width * queries, product.data(), product.data());
  bar.sums.assign(width, T(0));
  simd::add_rows(bar.seed.data(), r, width, bar.sums.data());
  simd::set_sum(1.0, bar.sums.data(), width, sums.data(), sums.data());
}

}  // namespace

template <class T>
void Attention<T>::pull(const LayerWeights<const T>& weights, const double* u, const double* w, Sum u_bar,
                        const LayerWeights<double>* gradient, TermTape* tape) {
  const InPiece piece(Piece::attention);
  count(tape != nullptr ? 2 : 3, weights.attention);
  AttentionChunk<T>& chunk = work_->chunk;
  const AttentionWeights<double>* const to = gradient != nullptr ? &gradient->attention : nullptr;
  auto* const keep = second_order_part<AttentionSecondOrderTape<T>>(tape);
  if (keep != nullptr) {
    std::ranges::fill(keep->seed_product, 0.0);
    std::ranges::fill(keep->seed_sums, 0.0);
  }
  over_known_chunks(weights.attention, u, tape, [&] {
    const Exchanged<AttentionAdjoint<T>> kept(work_->bar,
                                              keep != nullptr ? &keep->adjoint[chunk.number()] : nullptr);
    Backwards<T> backwards{weights.attention, chunk, work_->bar, to};
    backwards.pull_output(w, u_bar.scale);
    backwards.pull_kernel();
    work_->input.pull(weights.attention, u, work_->bar, u_bar, to);
    if (keep != nullptr) backwards.keep_seed(keep->seed_product, keep->seed_sums);
  });
}

namespace {

/// The tangent of the adjoint of one chunk, from the output back to q_bar', k_bar' and v_bar'.
template <class T>
struct BackwardsAlong {
  const AttentionWeights<const T>& theta;
  AttentionChunk<T>& chunk;
  const AttentionTangent<T>& dot;
  const AttentionAdjoint<T>& bar;
  AttentionAdjointWork<T>& bar_dot;
  const AttentionWeights<double>& to;

  void pull_output(const VariedOutput<T>& weights, const std::vector<T>& seeds,
                   const std::vector<T>& seeds_dot);
  void pull_kernel(std::vector<T>& travelling);
};

// From seed' to mix_bar' and centre'. The gradients of alpha, W_O and b_O lack what varies with these.
template <class T>
void BackwardsAlong<T>::pull_output(const VariedOutput<T>& weights, const std::vector<T>& seeds,
                                    const std::vector<T>& seeds_dot) {
  const Index r = chunk.rows(), width = chunk.width, queries = chunk.query_width, ld = chunk.ld;
  const Index dh = chunk.shape.channels;
  const auto seed = row_major<const T>(seeds.data(), r, width),
             seed_dot = row_major<const T>(seeds_dot.data(), r, width);
  bar_dot.mix.resize(queries * ld);
  set_product_rule(row_major(bar_dot.mix.data(), queries, r, ld),
                   row_major<const T>(weights.w.data(), width, queries).transpose(),
                   row_major<const T>(weights.w_dot.data(), width, queries).transpose(), seed.transpose(),
                   seed_dot.transpose());
  bar_dot.f.assign(chunk.heads * ld, T(0));
  if (!chunk.shape.linear)
    for (Index c = 0; c < queries; ++c)
      for (Index i = 0; i < r; ++i)
        bar_dot.f[c / dh * ld + i] +=
            bar_dot.mix[c * ld + i] * chunk.mix[c * ld + i] + bar.mix[c * ld + i] * dot.mix[c * ld + i];

  bar_dot.product.resize(width * queries);
  set_product_rule(row_major(bar_dot.product.data(), width, queries), seed.transpose(), seed_dot.transpose(),
                   row_major<const T>(chunk.mix.data(), queries, r, ld).transpose(),
                   row_major<const T>(dot.mix.data(), queries, r, ld).transpose());
  bar_dot.sums.assign(width, T(0));
  simd::add_rows(seeds_dot.data(), r, width, bar_dot.sums.data());
  add_output_gradients(theta, *theta.alpha, bar_dot.product.data(), bar_dot.sums.data(), width, queries, to);
}

// From mix_bar' to q_bar', k_bar', v_bar'. Keys, values and their variations travel; the tangents of their
// adjoints follow.
template <class T>
void BackwardsAlong<T>::pull_kernel(std::vector<T>& travelling) {
  const Index r = chunk.rows(), key_width = chunk.key_width;
  set_travelling(chunk, Side::rows, dot.kv, travelling);
  bar_dot.q.assign(chunk.query_width * chunk.ld, T(0));
  bar_dot.kv.assign(r * (2 * key_width + chunk.heads), T(0));
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
                                           KeyValueAdjoint<T>{k_bar_dot, k_bar_dot + key_width, nullptr});
            });
      },
      bar_dot.kv.data());
}

}  // namespace

template <class T>
void Attention<T>::pull_along(const LayerWeights<const T>& weights, const LayerWeights<const T>& weights_dot,
                              Point at, Cotangent w, Sum u_bar_dot, const LayerWeights<double>& gradient_dot,
                              TermTape* tape) {
  const InPiece piece(Piece::attention);
  count(4, weights.attention);
  AttentionChunk<T>& chunk = work_->chunk;
  auto& bar_dot = work_->bar;
  auto& kept = *second_order_part<AttentionSecondOrderTape<T>>(tape);
  const auto &theta = weights.attention, &theta_dot = weights_dot.attention;
  const auto& to = gradient_dot.attention;
  const Index width = chunk.width, queries = chunk.query_width;
  work_->output.set(theta, theta_dot, width, width * queries);
  over_known_chunks(theta, at.u, tape, [&] {
    const Index i = chunk.number();
    BackwardsAlong<T> backwards{theta, chunk, kept.tangent[i], kept.adjoint[i], bar_dot, to};
    bar_dot.seed.resize(chunk.rows() * width);
    work_->seed_dot.resize(chunk.rows() * width);
    chunk.gather(w.w, u_bar_dot.scale, bar_dot.seed.data());
    chunk.gather(w.w_dot, u_bar_dot.scale, work_->seed_dot.data());
    backwards.pull_output(work_->output, bar_dot.seed, work_->seed_dot);
    backwards.pull_kernel(work_->dot.travelling);
    work_->input.pull_along(theta, theta_dot, at, kept.tangent[i], kept.adjoint[i], bar_dot, u_bar_dot, to);
  });
  // The gradients of alpha, W_O and b_O are <seed, W_O mix + b_O>, alpha seed mix^T and alpha seed: what
  // varies with W_O, b_O and alpha.
  add_output_gradients(theta_dot, *theta_dot.alpha, kept.seed_product.data(), kept.seed_sums.data(), width,
                       queries, to);
}

template class Attention<float>;
template class Attention<double>;

}  // namespace fluxformer
