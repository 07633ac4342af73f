#include "analysis/states/slab_sums.hpp"

#include <algorithm>
#include <cmath>

#include "base/mpi.hpp"

namespace fluxformer::states {
namespace {

double square(double x) {
  return x * x;
}

}  // namespace

template <class Body>
void SlabSums::for_real_tokens(Body&& body) const {
  const auto& line = *context_.line;
  // A slab is [token][sample][channel]; masks count tokens by their global index.
  for (int local = 0; local < line.block().count(); ++local)
    for (int b = 0; b < context_.samples; ++b)
      if (context_.mask.real(b, line.global_index(line.rank(), local)))
        body(local, b, (Index{local} * context_.samples + b) * context_.width);
}

void SlabSums::add_values(const double* u, const double* previous, const float* reference, double* s) {
  const Index width = context_.width;
  token_mean_.assign(context_.row(), 0.0);
  // Real tokens of a sample on the whole line: lengths count the tokens of all ranks.
  const int tokens = context_.line->tokens();
  const auto& length = context_.mask.length;
  const auto tokens_of = [&](int b) { return length.empty() ? tokens : std::min(tokens, length[b]); };
  for_real_tokens([&](int, int b, Index at) {
    // Sums of u^2, (u - previous)^2 and u, and mean_j = (1/n_b) sum_x u_j(x) over the n_b tokens of sample b
    double* const mean = token_mean_.data() + b * width;
    for (Index j = 0; j < width; ++j) {
      const double value = u[at + j];
      s[squares] += square(value);
      s[rate_squares] += square(value - previous[at + j]);
      s[values] += value;
      mean[j] += value / tokens_of(b);
    }
    s[numbers] += width;
    if (reference == nullptr) return;
    // Sums of (u - u*)^2 and u*^2
    for (Index j = at; j < at + width; ++j) {
      s[gap_squares] += square(u[j] - reference[j]);
      s[reference_squares] += square(reference[j]);
    }
  });
  const auto& line = *context_.line;
  sum_over_ranks(token_mean_, line.comm());
}

void SlabSums::add_variance(const double* u, double* s) const {
  const Index width = context_.width;
  for_real_tokens([&](int, int b, Index at) {
    // sum |u(x) - mean|^2 over the tokens x of all samples
    const double* const mean = token_mean_.data() + b * width;
    for (Index j = 0; j < width; ++j) s[variance] += square(u[at + j] - mean[j]);
  });
}

void SlabSums::add_edges(const double* u, double* s) const {
  const auto& line = *context_.line;
  const TokenBlock& block = line.block();
  const Index width = context_.width, row = context_.row();
  // The next token along an axis: in this block, or the first one of the halo.
  const auto next = [&](bool inside, int inside_token, const std::vector<double>& halo, int halo_token) {
    if (inside) return u + inside_token * row;
    return halo.empty() ? nullptr : halo.data() + halo_token * row;
  };
  for_real_tokens([&](int local, int b, Index at) {
    const int lx = local % block.nx, ly = local / block.nx, x = block.x0 + lx, y = block.y0 + ly;
    // sum |u(x + e) - u(x)|^2 over the unit steps e to the east and to the south. The index of a neighbour
    // wraps around; where the lattice is not periodic, there is no halo at its edge and nothing is added.
    const int east_token = y * line.tokens_x() + (x + 1) % line.tokens_x();
    const int south_token = (y + 1) % line.tokens_y() * line.tokens_x() + x;
    const auto add = [&](const double* other, int token) {
      if (other == nullptr || !context_.mask.real(b, token)) return;
      const double* const there = other + b * width;
      for (Index j = 0; j < width; ++j) s[edges] += square(there[j] - u[at + j]);
    };
    add(next(lx + 1 < block.nx, local + 1, halo_.east, ly), east_token);
    add(next(ly + 1 < block.ny, local + block.nx, halo_.south, lx), south_token);
  });
}

void SlabSums::add(const double* u, const double* previous, const float* reference, double* s) {
  // The halo travels while the sums that do not need it are formed.
  context_.line->begin_halo(u, context_.row(), halo_);
  add_values(u, previous, reference, s);
  add_variance(u, s);
  context_.line->end_halo();
  add_edges(u, s);
}

double SlabSums::norm(const double* s) {
  return std::sqrt(s[squares] / s[numbers]);
}

double SlabSums::token_variance(const double* s) {
  return s[variance] / s[numbers];
}

double SlabSums::dirichlet_energy(const double* s) {
  return 0.5 * s[edges] / s[numbers];
}

}  // namespace fluxformer::states
