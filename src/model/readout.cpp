#include "model/readout.hpp"

#include <algorithm>
#include <string>

#include "base/error.hpp"
#include "base/index.hpp"
#include "base/mpi.hpp"

namespace fluxformer {
namespace {

/// True if a classifier sees this token (global index).
bool seen(PooledTokens tokens, const SlabContext& context, int sample, int token) {
  const int real = context.real_tokens(sample);
  switch (tokens.pooling) {
    case Pooling::mean:
      return token < real;
    case Pooling::first:
      return token == 0;
    case Pooling::last:
      return token == real - 1;
    case Pooling::front:
      return token < tokens.count;
  }
  return false;
}

/// Calls body(row, to, sample) for the rows that the classifier sees: the offset of the row in the slab and
/// its place in the pooled state, that of its sample or of a front token of it.
template <class Body>
void over_seen_rows(PooledTokens tokens, const SlabContext& context, Body&& body) {
  const auto& line = *context.line;
  const Index width = context.width, count = tokens.count;
  for (int local = 0; local < line.block().count(); ++local) {
    const int token = line.global_index(line.rank(), local);
    for (int sample = 0; sample < context.samples; ++sample)
      if (seen(tokens, context, sample, token))
        body(Index{local * context.samples + sample} * width,
             (sample * count + (count > 1 ? token : 0)) * width, sample);
  }
}

/// The divisor of the sum over the rows that the classifier sees: 1, or the number of real tokens for the
/// mean.
double divisor(PooledTokens tokens, const SlabContext& context, int sample) {
  return tokens.pooling == Pooling::mean ? context.real_tokens(sample) : 1;
}

}  // namespace

void pool(PooledTokens tokens, const SlabContext& context, const double* slab, std::vector<double>& pooled) {
  const Index width = context.width;
  // p_b = (1/n_b) sum of the rows of sample b that are seen; n_b = 1 for the first and the last token. Front
  // tokens have a place each: no sum.
  pooled.assign(context.row() * tokens.count, 0.0);
  over_seen_rows(tokens, context, [&](Index row, Index to, int) {
    for (Index c = 0; c < width; ++c) pooled[to + c] += slab[row + c];
  });
  sum_over_ranks(pooled, context.line->comm());
  for (Index j = 0; j < std::ssize(pooled); ++j)
    pooled[j] /= divisor(tokens, context, static_cast<int>(j / (tokens.count * width)));
}

void spread(PooledTokens tokens, const SlabContext& context, const std::vector<double>& pooled_bar,
            double* slab) {
  const Index width = context.width;
  // Each row that is seen gets p_bar_b / n_b.
  std::fill_n(slab, context.size(), 0.0);
  over_seen_rows(tokens, context, [&](Index row, Index from, int sample) {
    const double divided_by = divisor(tokens, context, sample);
    for (Index c = 0; c < width; ++c) slab[row + c] = pooled_bar[from + c] / divided_by;
  });
}

RowStack final_norm_stack(const Parameters& parameters) {
  RowStack stack(parameters, parameters.spec.width);
  if (parameters.spec.has_final_norm()) stack.add(norm_stage(parameters.spec, "final_norm/"));
  return stack;
}

Readout::Readout(const Parameters& parameters, const SlabContext& context)
    : context_(context),
      pooled_tokens_{parameters.spec.pooling, parameters.spec.pooled_tokens()},
      norm_(final_norm_stack(parameters)),
      head_(parameters, parameters.spec.pooled_tokens() * parameters.spec.width),
      rows_(norm_.empty() ? 0 : context.size()),
      pooled_bar_(context.row() * parameters.spec.pooled_tokens()) {
  if (parameters.spec.classes == 0) return;
  if (context.line->tokens() < pooled_tokens_.count)
    throw BadInput("the classifier reads " + std::to_string(pooled_tokens_.count) +
                   " class tokens, and a sample has " + std::to_string(context.line->tokens()) + " token(s)");
  head_.add(parameters.spec.head_transform, "head");
  head_.add(dense_stage(parameters.layout, "head/W", "head/b"));
}

std::span<double> Readout::of_head(std::span<double> gradient) const {
  // The gradient is summed over the line, and p is the same on all of its ranks: only one may contribute.
  return context_.line->rank() == 0 ? gradient : std::span<double>{};
}

void Readout::logits(const double* u, double* logits, ReadoutTape& tape) {
  // p = pool_x N_f(u)(x),  z = W_h g + b_h with g of p (docs/model.md, section 7)
  if (head_.empty()) return;
  if (!norm_.empty()) {
    norm_.forward(context_.rows(), u, rows_.data(), tape.norm);
    u = rows_.data();
  }
  pool(pooled_tokens_, context_, u, pooled_);
  head_.forward(context_.samples, pooled_.data(), logits, tape.head);
}

template <class Back>
void Readout::unpool(double* u_bar, Back&& back) {
  // u_bar = N_f'(u)^T (transpose of the pooling) p_bar
  spread(pooled_tokens_, context_, pooled_bar_, norm_.empty() ? u_bar : rows_.data());
  if (!norm_.empty()) back(rows_.data(), u_bar);
}

void Readout::adjoint(const double* logits_bar, double* u_bar, std::span<double> gradient,
                      ReadoutTape& tape) {
  head_.adjoint(logits_bar, pooled_bar_.data(), of_head(gradient), tape.head);
  unpool(u_bar, [&](const double* from, double* to) { norm_.adjoint(from, to, gradient, tape.norm); });
}

void Readout::pull(const double* logits_bar, double* u_bar, std::span<double> gradient,
                   const ReadoutTape& tape) {
  head_.pull(logits_bar, pooled_bar_.data(), of_head(gradient), tape.head);
  unpool(u_bar, [&](const double* from, double* to) { norm_.pull(from, to, gradient, tape.norm); });
}

void Readout::tangent(const ParameterVector& direction, const double* u_dot, double* logits_dot,
                      ReadoutTape& tape) {
  // p_dot = pool_x (N_f'(u) u_dot + (dN_f/dtheta) theta_dot),  z_dot = (dz/dp) p_dot + (dz/dtheta) theta_dot
  if (!norm_.empty()) {
    norm_.tangent(direction, u_dot, rows_.data(), tape.norm);
    u_dot = rows_.data();
  }
  pool(pooled_tokens_, context_, u_dot, pooled_);
  head_.tangent(direction, pooled_.data(), logits_dot, tape.head);
}

void Readout::adjoint_tangent(const ParameterVector& direction, const double* logits_bar_dot,
                              double* u_bar_dot, std::span<double> gradient_dot, ReadoutTape& tape) {
  // The pooling is linear: only head and N_f have second derivatives.
  head_.adjoint_tangent(direction, logits_bar_dot, pooled_bar_.data(), of_head(gradient_dot), tape.head);
  unpool(u_bar_dot, [&](const double* from, double* to) {
    norm_.adjoint_tangent(direction, from, to, gradient_dot, tape.norm);
  });
}

}  // namespace fluxformer
