#include "analysis/depth_measures.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"

namespace fluxformer {
namespace {

/// What is summed for each depth cell before roots and quotients are taken.
enum Sum { squares, rate_squares, gap_squares, reference_squares, values, variance, edges, numbers, sums };

double square(double x) {
  return x * x;
}

}  // namespace

DepthMeter::DepthMeter(const Mesh& mesh, const SlabContext& context, const DepthFlux& flux)
    : mesh_(mesh), context_(context), flux_(flux) {
  // Real tokens of each sample on the whole line; lengths are those of all ranks.
  const int tokens = context_.line->tokens();
  for (int b = 0; b < context_.samples; ++b)
    tokens_of_.push_back(context_.mask.length.empty()
                             ? tokens
                             : std::min(tokens, context_.mask.length[static_cast<std::size_t>(b)]));
}

template <class Body>
void DepthMeter::for_real_tokens(Body&& body) const {
  const auto& line = *context_.line;
  for (int local = 0; local < line.block().count(); ++local)
    for (int b = 0; b < context_.samples; ++b)
      if (context_.mask.real(b, line.global_index(line.rank(), local)))
        body(local, b,
             static_cast<std::size_t>(local * context_.samples + b) *
                 static_cast<std::size_t>(context_.width));
}

void DepthMeter::add_values(const double* u, const double* previous, const float* reference, double* s) {
  const auto width = static_cast<std::size_t>(context_.width);
  token_mean_.assign(context_.row(), 0.0);
  for_real_tokens([&](int, int b, std::size_t at) {
    double* const mean = token_mean_.data() + static_cast<std::size_t>(b) * width;
    for (std::size_t j = 0; j < width; ++j) {
      const double value = u[at + j];
      s[squares] += square(value);
      s[rate_squares] += square(value - previous[at + j]);
      s[values] += value;
      mean[j] += value / tokens_of_[static_cast<std::size_t>(b)];
    }
    s[numbers] += static_cast<double>(width);
    if (reference == nullptr) return;
    for (std::size_t j = at; j < at + width; ++j) {
      s[gap_squares] += square(u[j] - static_cast<double>(reference[j]));
      s[reference_squares] += square(static_cast<double>(reference[j]));
    }
  });
  const auto& line = *context_.line;
  if (line.size() > 1)
    check_mpi(MPI_Allreduce(MPI_IN_PLACE, token_mean_.data(), static_cast<int>(token_mean_.size()),
                            MPI_DOUBLE, MPI_SUM, line.comm()));
}

void DepthMeter::add_variance(const double* u, double* s) const {
  const auto width = static_cast<std::size_t>(context_.width);
  for_real_tokens([&](int, int b, std::size_t at) {
    const double* const mean = token_mean_.data() + static_cast<std::size_t>(b) * width;
    for (std::size_t j = 0; j < width; ++j) s[variance] += square(u[at + j] - mean[j]);
  });
}

void DepthMeter::add_edges(const double* u, double* s) const {
  const auto& line = *context_.line;
  const TokenBlock& block = line.block();
  const auto width = static_cast<std::size_t>(context_.width);
  const std::size_t row = context_.row();
  // The token one step on along an axis: in this block, or the first of the halo.
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

DepthMeasures DepthMeter::measure(Vec u, Vec previous, double dt) {
  const auto cells = static_cast<std::size_t>(mesh_.total_cells());
  std::vector<double> sum(cells * sums, 0.0);
  const double *now = nullptr, *before = nullptr;
  check(VecGetArrayRead(u, &now));
  check(VecGetArrayRead(previous, &before));
  for (int cell = 0; cell < mesh_.cells(); ++cell) {
    const std::size_t first = static_cast<std::size_t>(cell) * context_.size();
    double* const s = sum.data() + static_cast<std::size_t>(mesh_.first_cell() + cell - 1) * sums;
    context_.line->begin_halo(now + first, context_.row(), halo_);
    add_values(now + first, before + first, reference_.empty() ? nullptr : reference_.data() + first, s);
    add_variance(now + first, s);
    context_.line->end_halo();
    add_edges(now + first, s);
  }
  check(VecRestoreArrayRead(previous, &before));
  check(VecRestoreArrayRead(u, &now));
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, sum.data(), static_cast<int>(sum.size()), MPI_DOUBLE, MPI_SUM,
                          mesh_.comm()));

  DepthMeasures m;
  std::vector<double> mean(cells);
  for (std::size_t i = 0; i < cells; ++i) {
    const double* const s = sum.data() + i * sums;
    m.norm.push_back(std::sqrt(s[squares] / s[numbers]));
    m.rate.push_back(dt > 0 ? std::sqrt(s[rate_squares] / s[numbers]) / dt : 0.0);
    if (has_reference()) m.distance.push_back(std::sqrt(s[gap_squares] / s[reference_squares]));
    m.token_variance.push_back(s[variance] / s[numbers]);
    m.dirichlet_energy.push_back(0.5 * s[edges] / s[numbers]);
    mean[i] = s[values] / s[numbers];
  }
  for (std::size_t i = 0; i < cells; ++i) {
    // Central difference, one-sided at the ends.
    const std::size_t low = i > 0 ? i - 1 : 0, high = i + 1 < cells ? i + 1 : i;
    const double slope =
        high > low ? (mean[high] - mean[low]) / (static_cast<double>(high - low) * flux_.spacing) : 0.0;
    m.flux.push_back(flux_.speed * mean[i] - flux_.epsilon * slope);
  }
  return m;
}

}  // namespace fluxformer
