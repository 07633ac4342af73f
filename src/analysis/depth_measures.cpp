#include "analysis/depth_measures.hpp"

#include <cmath>

#include "base/error.hpp"

namespace fluxformer {
namespace {

/// What is summed for each depth cell before roots and quotients are taken.
enum Sum { squares, rate_squares, gap_squares, reference_squares, values, variance, edges, numbers, sums };

}  // namespace

DepthMeter::DepthMeter(const Mesh& mesh, const SlabContext& context, const DepthFlux& flux)
    : mesh_(mesh), context_(context), flux_(flux) {}

void DepthMeter::set_reference(const std::vector<float>& reference) {
  reference_ = reference;
}

DepthMeasures DepthMeter::measure(Vec u, Vec previous, double dt) {
  const auto& line = *context_.line;
  const TokenBlock& block = line.block();
  const int samples = context_.samples;
  const auto width = static_cast<std::size_t>(context_.width);
  const std::size_t row = context_.row(), slab = context_.size();
  const auto cells = static_cast<std::size_t>(mesh_.total_cells());
  const auto real = [&](int sample, int local) {
    return context_.mask.real(sample, line.global_index(line.rank(), local));
  };
  const auto global_x = [&](int local) { return block.x0 + local % block.nx; };
  const auto global_y = [&](int local) { return block.y0 + local / block.nx; };

  std::vector<double> sum(cells * sums, 0.0);
  std::vector<double> count(static_cast<std::size_t>(samples), 0.0);
  for (int local = 0; local < block.count(); ++local)
    for (int b = 0; b < samples; ++b) count[static_cast<std::size_t>(b)] += real(b, local) ? 1 : 0;
  if (line.size() > 1)
    check_mpi(MPI_Allreduce(MPI_IN_PLACE, count.data(), samples, MPI_DOUBLE, MPI_SUM, line.comm()));

  const double *now = nullptr, *before = nullptr;
  check(VecGetArrayRead(u, &now));
  check(VecGetArrayRead(previous, &before));
  for (int cell = 0; cell < mesh_.cells(); ++cell) {
    const std::size_t first = static_cast<std::size_t>(cell) * slab;
    const double* const here = now + first;
    double* const s = sum.data() + static_cast<std::size_t>(mesh_.first_cell() + cell - 1) * sums;
    line.begin_halo(here, row, halo_);
    token_mean_.assign(row, 0.0);
    for (int local = 0; local < block.count(); ++local) {
      for (int b = 0; b < samples; ++b) {
        if (!real(b, local)) continue;
        const std::size_t at = (static_cast<std::size_t>(local) * static_cast<std::size_t>(samples) +
                                static_cast<std::size_t>(b)) *
                               width;
        double* const mean = token_mean_.data() + static_cast<std::size_t>(b) * width;
        for (std::size_t j = 0; j < width; ++j) {
          const double value = here[at + j], change = value - before[first + at + j];
          s[squares] += value * value;
          s[rate_squares] += change * change;
          s[values] += value;
          mean[j] += value;
        }
        if (!reference_.empty())
          for (std::size_t j = 0; j < width; ++j) {
            const double target = reference_[first + at + j], gap = here[at + j] - target;
            s[gap_squares] += gap * gap;
            s[reference_squares] += target * target;
          }
        s[numbers] += static_cast<double>(width);
      }
    }
    if (line.size() > 1)
      check_mpi(MPI_Allreduce(MPI_IN_PLACE, token_mean_.data(), static_cast<int>(row), MPI_DOUBLE, MPI_SUM,
                              line.comm()));
    for (std::size_t j = 0; j < row; ++j) token_mean_[j] /= std::max(1.0, count[j / width]);
    line.end_halo();

    // The next tokens east and south, in this rank's block or in the halo; with `periodic` the last has the
    // first.
    const auto add_edge = [&](int local, const double* other, int other_token) {
      const double* const mine = here + static_cast<std::size_t>(local) * row;
      for (int b = 0; b < samples; ++b) {
        if (!real(b, local) || !context_.mask.real(b, other_token)) continue;
        for (std::size_t j = static_cast<std::size_t>(b) * width;
             j < (static_cast<std::size_t>(b) + 1) * width; ++j)
          s[edges] += (other[j] - mine[j]) * (other[j] - mine[j]);
      }
    };
    for (int local = 0; local < block.count(); ++local) {
      const int x = global_x(local), y = global_y(local), lx = local % block.nx, ly = local / block.nx;
      const std::size_t at = static_cast<std::size_t>(local) * row;
      for (int b = 0; b < samples; ++b) {
        if (!real(b, local)) continue;
        for (std::size_t j = static_cast<std::size_t>(b) * width;
             j < (static_cast<std::size_t>(b) + 1) * width; ++j)
          s[variance] += (here[at + j] - token_mean_[j]) * (here[at + j] - token_mean_[j]);
      }
      const bool wraps = line.periodic();
      if (line.tokens_x() > 1 && (x + 1 < line.tokens_x() || wraps)) {
        const int token = y * line.tokens_x() + (x + 1) % line.tokens_x();
        const double* const east = lx + 1 < block.nx ? here + at + row
                                   : !halo_.east.empty()
                                       ? halo_.east.data() + static_cast<std::size_t>(ly) * row
                                       : here + static_cast<std::size_t>(ly * block.nx) * row;
        add_edge(local, east, token);
      }
      if (line.tokens_y() > 1 && (y + 1 < line.tokens_y() || wraps)) {
        const int token = (y + 1) % line.tokens_y() * line.tokens_x() + x;
        const double* const south = ly + 1 < block.ny ? here + at + static_cast<std::size_t>(block.nx) * row
                                    : !halo_.south.empty()
                                        ? halo_.south.data() + static_cast<std::size_t>(lx) * row
                                        : here + static_cast<std::size_t>(lx) * row;
        add_edge(local, south, token);
      }
    }
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
    if (!reference_.empty()) m.distance.push_back(std::sqrt(s[gap_squares] / s[reference_squares]));
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
