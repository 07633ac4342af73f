#include "operators/attention/attention.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "base/phases.hpp"
#include "operators/attention/attention_work.hpp"

namespace fluxformer {

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
  if (!mask.length.empty() && mask.length.size() != static_cast<std::size_t>(context.samples))
    throw BadInput("the token mask has " + std::to_string(mask.length.size()) + " lengths for " +
                   std::to_string(context.samples) + " samples");
  for (const int length : mask.length)
    if (length < 1 || length > tokens)
      throw BadInput("a sample of " + std::to_string(length) + " real tokens: 1 to " +
                     std::to_string(tokens) + " are allowed");
  if (!mask.weight.empty() && mask.weight.size() != static_cast<std::size_t>(tokens))
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
    const int items = mask.length.empty() ? line.tokens() : mask.length[sample];
    for (int token = 0; token < line.block().count(); ++token)
      pairs += mask.causal ? std::min(items, line.global_index(line.rank(), token) + 1) : items;
  }
  const double d = context_.width;
  count_flops(passes * d * (8 * d * context_.rows() + 2 * (1 + work_->chunk.half_steps) * pairs));
}

template <class T>
void Attention<T>::add_rhs(const LayerWeights<const T>& weights, const double* u, double scale, double* out) {
  const InPiece piece(Piece::attention);
  count(1);
  AttentionChunk<T>& chunk = work_->chunk;
  const auto& w = weights.attention;
  chunk.set_maps(w);
  chunk.for_chunks([&] {
    chunk.project(w, u);
    chunk.solve(false);
    chunk.set_output(w.b_o, chunk.mix, scale * *w.alpha, out, out);
  });
}

template <class T>
std::unique_ptr<TermTape> Attention<T>::make_activations() const {
  return std::make_unique<AttentionActivations<T>>(work_->chunk.chunks(), work_->chunk.make_forward());
}

template <class T>
void Attention<T>::set_rhs_keeping(const LayerWeights<const T>& weights, const double* u, double scale,
                                   const double* base, double* out, TermTape& kept) {
  const InPiece piece(Piece::attention);
  count(1);
  AttentionChunk<T>& chunk = work_->chunk;
  const auto& w = weights.attention;
  chunk.set_maps(w);
  work_->for_kept_chunks(kept, [&] {
    chunk.project(w, u);
    chunk.solve(true);
    chunk.set_output(w.b_o, chunk.mix, scale * *w.alpha, base, out);
  });
}

template <class T>
void Attention<T>::matrix(const LayerWeights<const T>& weights, const double* u, double* k) {
  AttentionChunk<T>& chunk = work_->chunk;
  const auto keys = static_cast<std::size_t>(context_.line->tokens());
  const std::size_t per_head = chunk.tokens * keys;
  std::fill_n(k, static_cast<std::size_t>(context_.samples) * chunk.heads * per_head, 0.0);
  chunk.set_maps(weights.attention);
  chunk.for_chunks([&] {
    chunk.project(weights.attention, u);
    chunk.solve(true);
    // solve leaves beta as the final rows see it.
    const std::vector<T> offset = chunk.plan_offset(chunk.final_row_step());
    chunk.ring.visit(chunk.kv.data(), chunk.per_token(Side::rows), [&](int rank, const T* block) {
      chunk.for_places(
          Side::rows, false, rank, block, [&](const Home<T>& home, const Items<T>& items, const Place& at) {
            chunk.kernel.write_plan(home, items, offset.data() + at.lane_number,
                                    k + (chunk.sample(at) * chunk.heads + at.head) * per_head, keys);
          });
    });
  });
}

template class Attention<float>;
template class Attention<double>;

}  // namespace fluxformer
