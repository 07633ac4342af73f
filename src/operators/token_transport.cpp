#include "operators/token_transport.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/index.hpp"
#include "base/phases.hpp"
#include "operators/kept_tokens.hpp"

namespace fluxformer {
namespace {

/// True if there is flux into the token at (x, y) of a sample, from the token in front of it: not into the
/// first of a row, and neither from nor into padding.
bool flows_into(const SlabContext& context, int x, int y, int sample) {
  const int nx = context.line->tokens_x();
  if (nx == 1 || x < 0 || x >= nx || (x == 0 && !context.line->periodic())) return false;
  const int in_front = (x + nx - 1) % nx;
  return context.mask.real(sample, y * nx + x) && context.mask.real(sample, y * nx + in_front);
}

/// Calls visit(offset of a row, row of the token in front, row of the token behind), null where there is no
/// flux between the two, for every row of the slab. `in_front`: the row in front of a stretch, or null. Rows
/// that need the halo come last, so that its exchange overlaps with the others; a row's arithmetic does not
/// depend on the split.
template <class Visit>
void for_each_row(const SlabContext& context, const double* u, const double* in_front, TokenHalo& halo,
                  Visit&& visit) {
  const auto& line = *context.line;
  const auto& block = line.block();
  const Index row = context.row(), width = context.width;
  const auto token = [&](int x, int y) {
    const Index t = y * block.nx + x;
    const double* const west = x > 0                 ? u + (t - 1) * row
                               : in_front != nullptr ? in_front
                               : halo.west.empty()   ? nullptr
                                                     : halo.west.data() + y * row;
    const bool last = x == block.nx - 1;
    const double* const east = !last               ? u + (t + 1) * row
                               : halo.east.empty() ? nullptr
                                                   : halo.east.data() + y * row;
    // Behind the last token of a periodic row comes its first; behind a stretch nothing is known.
    const int behind = block.x0 + x + 1 < line.tokens_x() || !line.periodic() ? block.x0 + x + 1 : 0;
    for (int sample = 0; sample < context.samples; ++sample) {
      const Index inside = sample * width;
      visit(t * row + inside,
            west != nullptr && flows_into(context, block.x0 + x, block.y0 + y, sample) ? west + inside
                                                                                       : nullptr,
            east != nullptr && flows_into(context, behind, block.y0 + y, sample) ? east + inside : nullptr);
    }
  };
  const auto rim = [&](int x) { return x == 0 || x == block.nx - 1; };
  line.begin_halo(u, row, halo);
  for (int y = 0; y < block.ny; ++y)
    for (int x = 1; x < block.nx - 1; ++x) token(x, y);
  line.end_halo();
  for (int y = 0; y < block.ny; ++y)
    for (int x = 0; x < block.nx; ++x)
      if (rim(x)) token(x, y);
}

/// out += scale nu (u(x-1) - u(x))
template <class P>
void add_flux(const SlabContext& context, const TransportWeights<P>& weights, const double* u,
              const double* in_front, double scale, TokenHalo& halo, double* out) {
  const Index step = weights.per_channel ? 1 : 0;
  for_each_row(context, u, in_front, halo, [&](Index row, const double* west, const double*) {
    if (west == nullptr) return;
    for (Index c = 0; c < context.width; ++c)
      out[row + c] += scale * weights.nu[c * step] * (west[c] - u[row + c]);
  });
}

}  // namespace

template <class T>
TokenTransport<T>::TokenTransport(const SlabContext& context) : context_(context) {
  if (context.mask.causal && context.line->periodic())
    throw BadInput(
        "attention.causal = on with transport over tokens (equation.nu) needs mesh.periodic = off: the first "
        "token "
        "would see the last");
}

// T u is linear in nu and in u:
//
//   value     nu (u(x-1) - u(x))              tangent   T u_dot + T_dot u
//   adjoint   u_bar(x) = nu (w(x+1) - w(x)), each part where there is flux;
//             nu_bar = sum over tokens of w(x) (u(x-1) - u(x)), for each channel
//
// The tangent of the adjoint follows by the product rule.

template <class T>
void TokenTransport<T>::apply(const LayerWeights<const T>& theta, const double* u, Sum out, TermTape*) {
  const InPiece piece(Piece::token_transport);
  auto* const kept = context_.kept != nullptr ? &context_.kept->next_row() : nullptr;
  const double* const in_front = kept != nullptr && !kept->empty() ? kept->data() : nullptr;
  add_flux(context_, theta.transport, u, in_front, out.scale, halo_, started(context_, out));
  if (kept != nullptr) kept->assign(u + context_.size() - context_.row(), u + context_.size());
}

template <class T>
void TokenTransport<T>::push(const LayerWeights<const T>& theta, const LayerWeights<const T>* theta_dot,
                             Point at, Sum out, TermTape* tape) {
  apply(theta, at.u_dot, out, tape);
  if (theta_dot != nullptr) apply(*theta_dot, at.u, add_to(out.out, out.scale), tape);
}

template <class T>
void TokenTransport<T>::pull(const LayerWeights<const T>& theta, const double* u, const double* w, Sum u_bar,
                             const LayerWeights<double>* gradient, TermTape*) {
  const InPiece piece(Piece::token_transport);
  const Index step = theta.transport.per_channel ? 1 : 0, width = context_.width;
  double* const out = started(context_, u_bar);
  for_each_row(context_, w, nullptr, halo_, [&](Index row, const double* west, const double* east) {
    for (Index c = 0; c < width; ++c) {
      const double given = (east != nullptr ? east[c] : 0) - (west != nullptr ? w[row + c] : 0);
      out[row + c] += u_bar.scale * theta.transport.nu[c * step] * given;
    }
  });
  if (gradient == nullptr || gradient->transport.nu == nullptr) return;
  double* const nu_bar = gradient->transport.nu;
  for_each_row(context_, u, nullptr, halo_, [&](Index row, const double* west, const double*) {
    if (west == nullptr) return;
    for (Index c = 0; c < width; ++c) nu_bar[c * step] += u_bar.scale * w[row + c] * (west[c] - u[row + c]);
  });
}

template <class T>
void TokenTransport<T>::pull_along(const LayerWeights<const T>& theta, const LayerWeights<const T>& theta_dot,
                                   Point at, Cotangent w, Sum u_bar_dot,
                                   const LayerWeights<double>& gradient_dot, TermTape* tape) {
  pull(theta, at.u, w.w_dot, u_bar_dot, &gradient_dot, tape);
  pull(theta_dot, at.u_dot, w.w, add_to(u_bar_dot.out, u_bar_dot.scale), &gradient_dot, tape);
}

template class TokenTransport<float>;
template class TokenTransport<double>;

}  // namespace fluxformer
