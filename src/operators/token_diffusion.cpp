#include "operators/token_diffusion.hpp"

#include <algorithm>
#include <array>

#include "base/error.hpp"
#include "base/index.hpp"
#include "base/phases.hpp"

namespace fluxformer {
namespace {

struct Displacement {
  int dx, dy;
};
// West, east, north, south.
constexpr std::array<Displacement, 4> steps = {{{-1, 0}, {1, 0}, {0, -1}, {0, 1}}};

/// The neighbours that each token of this rank exchanges flux with.
class Neighbours {
 public:
  explicit Neighbours(const SlabContext& context)
      : context_(context), line_(*context.line), block_(line_.block()) {
    for (int k = 0; k < 4; ++k) beyond_[k] = line_.neighbour(steps[k].dx, steps[k].dy) >= 0;
  }

  /// True if the token's stencil needs the halo.
  bool at_rim(int token) const {
    for (int k = 0; k < 4; ++k)
      if (beyond_[k] && leaves(token, k)) return true;
    return false;
  }

  /// True if flux passes from `token` through side `k` for this sample: not through the boundary of the
  /// lattice, and neither from nor into padding.
  bool open(int token, int k, int sample) const {
    if (!beyond_[k] && leaves(token, k)) return false;
    if (context_.mask.length.empty()) return true;
    const int x = block_.x0 + token % block_.nx, y = block_.y0 + token / block_.nx;
    const int x2 = (x + steps[k].dx + line_.tokens_x()) % line_.tokens_x();
    const int y2 = (y + steps[k].dy + line_.tokens_y()) % line_.tokens_y();
    return context_.mask.real(sample, y * line_.tokens_x() + x) &&
           context_.mask.real(sample, y2 * line_.tokens_x() + x2);
  }

  /// The row of the neighbour through an open side.
  const double* row(const double* u, const TokenHalo& halo, int token, int k) const {
    if (!leaves(token, k)) return u + at(token + steps[k].dx + steps[k].dy * block_.nx);
    switch (k) {
      case 0:
        return halo.west.data() + at(token / block_.nx);
      case 1:
        return halo.east.data() + at(token / block_.nx);
      case 2:
        return halo.north.data() + at(token % block_.nx);
      default:
        return halo.south.data() + at(token % block_.nx);
    }
  }

  /// Offset of the token's first row in the slab.
  Index at(int token) const { return token * context_.row(); }

 private:
  bool leaves(int token, int k) const {
    const int x = token % block_.nx + steps[k].dx, y = token / block_.nx + steps[k].dy;
    return x < 0 || x >= block_.nx || y < 0 || y >= block_.ny;
  }

  const SlabContext& context_;
  const TokenLine& line_;
  const TokenBlock& block_;
  std::array<bool, 4> beyond_;
};

/// Calls visit(offset of the row of a token and sample, neighbours' rows, number of neighbours) for every row
/// of the slab; rows that need the halo come last, so that its exchange overlaps with the others. A row's
/// arithmetic does not depend on the split.
template <class Visit>
void for_each_stencil(const SlabContext& context, const double* u, TokenHalo& halo, Visit&& visit) {
  const Neighbours around(context);
  const auto pass = [&](bool rim) {
    for (int token = 0; token < context.line->block().count(); ++token) {
      if (around.at_rim(token) != rim) continue;
      for (int sample = 0; sample < context.samples; ++sample) {
        const Index inside = Index{sample} * context.width;
        std::array<const double*, 4> near{};
        int count = 0;
        for (int k = 0; k < 4; ++k)
          if (around.open(token, k, sample)) near[count++] = around.row(u, halo, token, k) + inside;
        visit(around.at(token) + inside, near, count);
      }
    }
  };
  context.line->begin_halo(u, context.row(), halo);
  pass(false);
  context.line->end_halo();
  pass(true);
}

/// visit(channel, sum over the neighbours y of u(y) - u(x)) for the channels of a row; exactly 0 where all
/// are equal. The number of neighbours is a compile-time constant, so that the inner loop is vectorised.
template <int count, class Visit>
inline void laplacian(const std::array<const double*, 4>& near, const double* u, Index width, Visit&& visit) {
  for (Index c = 0; c < width; ++c) {
    double sum = 0;
    for (int k = 0; k < count; ++k) sum += near[k][c] - u[c];
    visit(c, sum);
  }
}

template <class Visit>
void laplacian(const std::array<const double*, 4>& near, int count, const double* u, Index width,
               Visit&& visit) {
  switch (count) {
    case 0:
      return;
    case 1:
      return laplacian<1>(near, u, width, visit);
    case 2:
      return laplacian<2>(near, u, width, visit);
    case 3:
      return laplacian<3>(near, u, width, visit);
    default:
      return laplacian<4>(near, u, width, visit);
  }
}

/// The stride of kappa over channels: 0 repeats the scalar.
template <class P>
Index stride(const DiffusionWeights<P>& weights) {
  return weights.per_channel ? 1 : 0;
}

/// out(x) += scale kappa (sum over the neighbours y of u(y) - u(x)).
template <class P>
void add_flux(const SlabContext& context, const DiffusionWeights<P>& weights, const double* u, double scale,
              TokenHalo& halo, double* out) {
  const Index width = context.width;
  for_each_stencil(context, u, halo, [&](Index row, const auto& near, int count) {
    double* result = out + row;
    if (weights.per_channel)
      laplacian(near, count, u + row, width,
                [=, &weights](Index c, double sum) { result[c] += scale * weights.kappa[c] * sum; });
    else
      laplacian(near, count, u + row, width,
                [=, k = scale * weights.kappa[0]](Index c, double sum) { result[c] += k * sum; });
  });
}

}  // namespace

template <class T>
TokenDiffusion<T>::TokenDiffusion(const SlabContext& context) : context_(context) {
  if (context.mask.causal)
    throw BadInput(
        "attention.causal=true requires equation.kappa=0: diffusion makes a token depend on later ones");
}

// D u is linear in kappa and in u, and D is symmetric:
//
//   value     kappa Lap u                      tangent   kappa Lap u_dot + kappa_dot Lap u
//   adjoint   u_bar = kappa Lap w              kappa_bar = sum over tokens of w Lap u, for each channel
//
// The tangent of the adjoint follows by the product rule.

template <class T>
void TokenDiffusion<T>::apply(const LayerWeights<const T>& theta, const double* u, Sum out, TermTape*) {
  const InPiece piece(Piece::token_diffusion);
  add_flux(context_, theta.diffusion, u, out.scale, halo_, started(context_, out));
}

template <class T>
void TokenDiffusion<T>::push(const LayerWeights<const T>& theta, const LayerWeights<const T>* theta_dot,
                             Point at, Sum out, TermTape* tape) {
  apply(theta, at.u_dot, out, tape);
  if (theta_dot != nullptr) apply(*theta_dot, at.u, add_to(out.out, out.scale), tape);
}

template <class T>
void TokenDiffusion<T>::pull(const LayerWeights<const T>& theta, const double* u, const double* w, Sum u_bar,
                             const LayerWeights<double>* gradient, TermTape* tape) {
  apply(theta, w, u_bar, tape);
  if (gradient == nullptr || gradient->diffusion.kappa == nullptr) return;
  const InPiece piece(Piece::token_diffusion);
  const Index width = context_.width;
  double* kappa_bar = gradient->diffusion.kappa;
  const Index step = stride(theta.diffusion);
  for_each_stencil(context_, u, halo_, [&](Index row, const auto& near, int count) {
    laplacian(near, count, u + row, width,
              [&](Index c, double sum) { kappa_bar[c * step] += u_bar.scale * w[row + c] * sum; });
  });
}

template <class T>
void TokenDiffusion<T>::pull_along(const LayerWeights<const T>& theta, const LayerWeights<const T>& theta_dot,
                                   Point at, Cotangent w, Sum u_bar_dot,
                                   const LayerWeights<double>& gradient_dot, TermTape* tape) {
  pull(theta, at.u, w.w_dot, u_bar_dot, &gradient_dot, tape);
  pull(theta_dot, at.u_dot, w.w, add_to(u_bar_dot.out, u_bar_dot.scale), &gradient_dot, tape);
}

template <class T>
void TokenDiffusion<T>::add_diagonal(const LayerWeights<const T>& weights, double scale,
                                     double* diagonal) const {
  // The diagonal of D is -kappa times the number of sides through which flux passes.
  const Neighbours around(context_);
  const Index step = stride(weights.diffusion);
  for (int token = 0; token < context_.line->block().count(); ++token)
    for (int sample = 0; sample < context_.samples; ++sample) {
      int sides = 0;
      for (int k = 0; k < 4; ++k) sides += around.open(token, k, sample) ? 1 : 0;
      double* row = diagonal + around.at(token) + Index{sample} * context_.width;
      for (Index c = 0; c < context_.width; ++c) row[c] -= scale * weights.diffusion.kappa[c * step] * sides;
    }
}

template class TokenDiffusion<float>;
template class TokenDiffusion<double>;

}  // namespace fluxformer
