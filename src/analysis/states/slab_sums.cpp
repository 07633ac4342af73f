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
  for (int local = 0; local < line.block().count(); ++local)
    for (int b = 0; b < context_.samples; ++b)
      if (context_.mask.real(b, line.global_index(line.rank(), local)))
        body(local, b,
             static_cast<std::size_t>(local * context_.samples + b) *
                 static_cast<std::size_t>(context_.width));
}

void SlabSums::add_values(const double* u, const double* previous, const float* reference, double* s) {
  const auto width = static_cast<std::size_t>(context_.width);
  token_mean_.assign(context_.row(), 0.0);
  // Real tokens of a sample on the whole line: lengths count the tokens of all ranks.
  const int tokens = context_.line->tokens();
  const auto& length = context_.mask.length;
  const auto tokens_of = [&](int b) { return length.empty() ? tokens : std::min(tokens, length[b]); };
  for_real_tokens([&](int, int b, std::size_t at) {
    double* const mean = token_mean_.data() + static_cast<std::size_t>(b) * width;
    for (std::size_t j = 0; j < width; ++j) {
      const double value = u[at + j];
      s[squares] += square(value);
      s[rate_squares] += square(value - previous[at + j]);
      s[values] += value;
      mean[j] += value / tokens_of(b);
    }
    s[numbers] += static_cast<double>(width);
    if (reference == nullptr) return;
    for (std::size_t j = at; j < at + width; ++j) {
      s[gap_squares] += square(u[j] - static_cast<double>(reference[j]));
      s[reference_squares] += square(static_cast<double>(reference[j]));
    }
  });
  const auto& line = *context_.line;
  sum_over_ranks(token_mean_, line.comm());
}

void SlabSums::add_variance(const double* u, double* s) const {
  const auto width = static_cast<std::size_t>(context_.width);
  for_real_tokens([&](int, int b, std::size_t at) {
    const double* const mean = token_mean_.data() + static_cast<std::size_t>(b) * width;
    for (std::size_t j = 0; j < width; ++j) s[variance] += square(u[at + j] - mean[j]);
  });
}

void SlabSums::add_edges(const double* u, double* s) const {
  const auto& line = *context_.line;
  const TokenBlock& block = line.block();
  const auto width = static_cast<std::size_t>(context_.width);
  const std::size_t row = context_.row();
  // The next token along an axis: in this block, or the first one of the halo.
  const auto next = [&](bool inside, std::size_t inside_token, const std::vector<double>& halo,
                        int halo_token) {
    if (inside) return u + inside_token * row;
    return halo.empty() ? nullptr : halo.data() + static_cast<std::size_t>(halo_token) * row;
  };
  for_real_tokens([&](int local, int b, std::size_t at) {
    const int lx = local % block.nx, ly = local / block.nx, x = block.x0 + lx, y = block.y0 + ly;
    const int east_token = y * line.tokens_x() + (x + 1) % line.tokens_x();
    const int south_token = (y + 1) % line.tokens_y() * line.tokens_x() + x;
    const auto add = [&](const double* other, int token) {
      if (other == nullptr || !context_.mask.real(b, token)) return;
      const double* const there = other + static_cast<std::size_t>(b) * width;
      for (std::size_t j = 0; j < width; ++j) s[edges] += square(there[j] - u[at + j]);
    };
    add(next(lx + 1 < block.nx, static_cast<std::size_t>(local + 1), halo_.east, ly), east_token);
    add(next(ly + 1 < block.ny, static_cast<std::size_t>(local + block.nx), halo_.south, lx), south_token);
  });
}

void SlabSums::add(const double* u, const double* previous, const float* reference, double* s) {
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
