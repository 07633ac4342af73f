#include "token_drift.hpp"

#include "base/error.hpp"

namespace own {

using fluxformer::CellRange;
using fluxformer::Column;

TokenDrift::TokenDrift(const fluxformer::SlabContext& context, double speed)
    : context_(context), speed_(speed) {
  if (speed < 0) throw fluxformer::BadInput("drift.speed = " + std::to_string(speed) + ": must be >= 0");
  if (context.mask.causal && context.line->periodic())
    throw fluxformer::BadInput(
        "mesh.periodic = true: a causal mask (attention.causal) has no token before the first");
}

/// Calls visit(row, west, in_halo) for every real token and sample that has a real token to the west: the
/// offsets of the two rows, that of the western one in the slab or in halo_.west.
template <class Visit>
void TokenDrift::for_each_pair(Visit&& visit) const {
  const auto& line = *context_.line;
  const auto& block = line.block();
  const bool beyond = line.neighbour(-1, 0) >= 0;
  for (int token = 0; token < block.count(); ++token) {
    const bool in_halo = token % block.nx == 0;
    if (in_halo && !beyond) continue;
    const int x = block.x0 + token % block.nx, y = block.y0 + token / block.nx;
    const int west_x = (x - 1 + line.tokens_x()) % line.tokens_x();
    const auto west_token = static_cast<std::size_t>(in_halo ? token / block.nx : token - 1);
    for (int sample = 0; sample < context_.samples; ++sample) {
      if (!context_.mask.real(sample, y * line.tokens_x() + x) ||
          !context_.mask.real(sample, y * line.tokens_x() + west_x))
        continue;
      const auto inside = static_cast<std::size_t>(sample) * static_cast<std::size_t>(context_.width);
      visit(static_cast<std::size_t>(token) * context_.row() + inside, west_token * context_.row() + inside,
            in_halo);
    }
  }
}

void TokenDrift::add_rhs(const Column<const double>& u, CellRange cells, const Column<double>& out) {
  const auto width = static_cast<std::size_t>(context_.width);
  for (int cell = cells.begin; cell < cells.end; ++cell) {
    const double* slab = u.at(cell);
    double* result = out.at(cell);
    context_.line->begin_halo(slab, context_.row(), halo_);
    context_.line->end_halo();
    for_each_pair([&](std::size_t row, std::size_t west, bool in_halo) {
      const double* upstream = (in_halo ? halo_.west.data() : slab) + west;
      for (std::size_t c = 0; c < width; ++c) result[row + c] -= speed_ * (slab[row + c] - upstream[c]);
    });
  }
}

void TokenDrift::add_tangent(const Column<const double>&, const Column<const double>& v, CellRange cells,
                             const Column<double>& out) {
  add_rhs(v, cells, out);  // linear
}

void TokenDrift::add_adjoint(const Column<const double>&, const Column<const double>& w, CellRange cells,
                             const Column<double>& u_bar, std::span<double>) {
  const auto width = static_cast<std::size_t>(context_.width);
  for (int cell = cells.begin; cell < cells.end; ++cell) {
    const double* weight = w.at(cell);
    double* result = u_bar.at(cell);
    auto bar = context_.line->zero_halo(context_.row());  // for rows on other ranks
    for_each_pair([&](std::size_t row, std::size_t west, bool in_halo) {
      double* upstream = (in_halo ? bar.west.data() : result) + west;
      for (std::size_t c = 0; c < width; ++c) {
        result[row + c] -= speed_ * weight[row + c];
        upstream[c] += speed_ * weight[row + c];
      }
    });
    context_.line->add_halo_to_owners(bar, context_.row(), result);
  }
}

std::optional<fluxformer::StepLimit> TokenDrift::step_limit() const {
  return fluxformer::StepLimit{fluxformer::StepLimit::Kind::transport, speed_, "v dt"};
}

fluxformer::TermText TokenDrift::text() const {
  return {"v (u_i(x-1) - u_i(x))", {fluxformer::value_text("v", speed_)}};
}

}  // namespace own
