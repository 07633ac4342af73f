#include "analysis/clusters/circle.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <numbers>
#include <stdexcept>

#include "analysis/clusters/growth_rates.hpp"
#include "base/error.hpp"
#include "base/mpi.hpp"

namespace fluxformer::clusters {
namespace {

constexpr int block = 64;  // tokens at a time: their powers stay in the cache
constexpr double negligible = 1e-18;

/// Powers e^{i k theta} of a block of tokens, one k after another.
struct Powers {
  std::array<double, block> cosine, sine, re, im;
  explicit Powers(std::span<const double> angles) {
    cosine.fill(0), sine.fill(0), re.fill(0), im.fill(0);
    for (std::size_t j = 0; j < angles.size(); ++j) {
      cosine[j] = re[j] = std::cos(angles[j]);
      sine[j] = im[j] = std::sin(angles[j]);
    }
  }
  void next() {
    for (int j = 0; j < block; ++j) {
      const double real = re[j] * cosine[j] - im[j] * sine[j];
      im[j] = re[j] * sine[j] + im[j] * cosine[j];
      re[j] = real;
    }
  }
};

template <class F>
void for_each_block(std::span<const double> angles, F&& f) {
  for (std::size_t first = 0; first < angles.size(); first += block)
    f(first, angles.subspan(first, std::min<std::size_t>(block, angles.size() - first)));
}

}  // namespace

CircleAttention::CircleAttention(Index tokens, double beta, double value, MPI_Comm comm)
    : tokens_(tokens), beta_(beta), value_(value), comm_(comm) {
  do {
    const int k = static_cast<int>(of_kernel_.size());
    of_kernel_.push_back(kernel_eigenvalue(2, beta, k));
    over_beta_.push_back(k == 0 ? 0 : k * kernel_eigenvalue_over_beta(2, beta, k));
  } while (of_kernel_.back() >= negligible * of_kernel_.front() || of_kernel_.size() < 2);
}

std::vector<std::complex<double>> CircleAttention::sums_of_powers(std::span<const double> angles,
                                                                  int count) const {
  std::vector<double> sums(2 * count, 0.0);
  for_each_block(angles, [&](std::size_t, std::span<const double> some) {
    Powers powers(some);
    const int held = static_cast<int>(some.size());
    for (int k = 0; k < count; ++k) {
      double re = 0, im = 0;
      for (int j = 0; j < held; ++j) re += powers.re[j], im += powers.im[j];
      sums[2 * k] += re;
      sums[2 * k + 1] += im;
      powers.next();
    }
  });
  sum_over_ranks(sums, comm_);
  std::vector<std::complex<double>> all(count);
  for (int k = 0; k < count; ++k) all[k] = {sums[2 * k], sums[2 * k + 1]};
  return all;
}

void CircleAttention::densities(std::span<const double> angles, std::span<const std::complex<double>> sums,
                                std::span<double> z, std::span<double> slope) const {
  for_each_block(angles, [&](std::size_t first, std::span<const double> some) {
    Powers powers(some);
    std::array<double, block> value{}, rise{};
    for (int k = 1; k <= order(); ++k) {
      const double c = 2 * of_kernel_[k], d = 2 * over_beta_[k], re = sums[k - 1].real(),
                   im = sums[k - 1].imag();
      for (int j = 0; j < block; ++j) {
        value[j] += c * (re * powers.re[j] + im * powers.im[j]);
        rise[j] += d * (im * powers.re[j] - re * powers.im[j]);
      }
      powers.next();
    }
    for (std::size_t j = 0; j < some.size(); ++j) {
      z[first + j] = of_kernel_[0] * static_cast<double>(tokens_) + value[j];
      slope[first + j] = rise[j];
    }
  });
}

void CircleAttention::velocity(std::span<const double> angles, std::span<double> rate) const {
  const auto sums = sums_of_powers(angles, order());
  std::vector<double> z(angles.size());
  densities(angles, sums, z, rate);
  for (std::size_t j = 0; j < z.size(); ++j) rate[j] *= value_ / z[j];
}

CircleAttention::Sums CircleAttention::sums(std::span<const double> angles) const {
  const auto powers = sums_of_powers(angles, order());
  std::vector<double> z(angles.size()), slope(angles.size());
  densities(angles, powers, z, slope);
  const auto n = static_cast<double>(tokens_);
  std::array<double, 3> all{};  // z, log(z / n), z times the square of slope / z
  for (std::size_t j = 0; j < z.size(); ++j) {
    all[0] += z[j];
    all[1] += std::log(z[j] / n);
    all[2] += slope[j] * slope[j] / z[j];
  }
  sum_over_ranks(all, comm_);
  return {.number_2 = n * n / all[0],
          .number_1 = std::exp(-all[1] / n),
          .energy = all[0] / (2 * beta_ * n * n),
          .dissipation = value_ * all[2] / (n * n)};
}

std::vector<std::complex<double>> CircleAttention::moments(std::span<const double> angles, int count) const {
  auto found = sums_of_powers(angles, count);
  for (auto& one : found) one /= static_cast<double>(tokens_);
  return found;
}

CircleClusters clusters_on_circle(std::span<const double> angles, double delta, MPI_Comm comm) {
  constexpr double turn = 2 * std::numbers::pi;
  if (!(delta > 0 && delta < std::numbers::pi))
    throw std::invalid_argument("clusters: delta must be in (0, pi)");
  const auto bins = static_cast<std::size_t>(std::ceil(turn / delta));
  // The largest of each bin, and of the opposite of the smallest: both are maxima over ranks.
  std::vector<double> largest(2 * bins, -std::numeric_limits<double>::infinity()), count(bins, 0.0);
  for (const double angle : angles) {
    double place = std::fmod(angle, turn);
    if (place < 0) place += turn;
    if (place >= turn) place = 0;  // a tiny negative angle
    const auto bin = std::min(bins - 1, static_cast<std::size_t>(place / turn * static_cast<double>(bins)));
    largest[bin] = std::max(largest[bin], place);
    largest[bins + bin] = std::max(largest[bins + bin], -place);
    ++count[bin];
  }
  largest_over_ranks(largest, comm);
  sum_over_ranks(count, comm);
  struct Stretch {
    double first, last, mass;
  };
  std::vector<Stretch> parts;
  double all = 0;
  for (std::size_t bin = 0; bin < bins; ++bin) {
    if (count[bin] == 0) continue;
    all += count[bin];
    const double first = -largest[bins + bin], last = largest[bin];
    if (!parts.empty() && first - parts.back().last <= delta) {
      parts.back().last = last;
      parts.back().mass += count[bin];
    } else {
      parts.push_back({first, last, count[bin]});
    }
  }
  if (parts.size() > 1 && parts.front().first + turn - parts.back().last <= delta) {  // across 2 pi
    parts.front().first = parts.back().first - turn;
    parts.front().mass += parts.back().mass;
    parts.pop_back();
  }
  CircleClusters found{.number = static_cast<long>(parts.size())};
  // One component that closes the circle has no end.
  const bool closed = parts.size() == 1 && parts.front().first + turn - parts.front().last <= delta;
  for (const auto& part : parts) {
    found.masses.push_back(part.mass / all);
    if (!closed && part.last - part.first <= 3 * delta) found.compact_share += part.mass / all;
  }
  std::ranges::sort(found.masses, std::greater<>());
  return found;
}

}  // namespace fluxformer::clusters
