#include "analysis/clusters/circle.hpp"

#include <algorithm>
#include <array>
#include <boost/math/tools/roots.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "base/error.hpp"
#include "base/mpi.hpp"

namespace fluxformer::clusters {
namespace {

constexpr int block = 64;  // tokens at a time: their powers stay in the cache
constexpr double negligible = 1e-18;
constexpr double full_circle = 2 * std::numbers::pi;

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

/// Tokens of consecutive angles.
struct Stretch {
  double first, last, weight, cosine, sine;
  void append(const Stretch& next) {
    last = next.last;
    weight += next.weight;
    cosine += next.cosine;
    sine += next.sine;
  }
};

}  // namespace

CircleKernel::CircleKernel(double inverse_temperature) : beta(inverse_temperature) {
  do {
    const int k = static_cast<int>(value.size());
    value.push_back(kernel_eigenvalue(2, beta, k));
    slope.push_back(k == 0 ? 0 : k * kernel_eigenvalue_over_beta(2, beta, k));
  } while (value.back() >= negligible * value.front() || value.size() < 2);
}

CircleAttention::CircleAttention(std::vector<double> weights, double beta, double value, MPI_Comm comm,
                                 Weights normalisation)
    : weights_(std::move(weights)), value_(value), normalisation_(normalisation), comm_(comm), kernel_(beta) {
  const auto rank = static_cast<std::size_t>(mpi::rank(comm));
  std::vector<double> held(mpi::size(comm) + 1, 0.0);  // tokens of each rank; the weight of all
  held[rank] = static_cast<double>(weights_.size());
  held.back() = std::accumulate(weights_.begin(), weights_.end(), 0.0);
  sum_over_ranks(held, comm);
  weight_ = held.back();
  held.pop_back();
  for (std::size_t other = 0; other < held.size(); ++other) {
    if (other < rank) before_ += static_cast<Index>(held[other]);
    tokens_ += static_cast<Index>(held[other]);
  }
}

std::vector<std::complex<double>> CircleAttention::sums_of_powers(std::span<const double> angles,
                                                                  int count) const {
  std::vector<double> sums(2 * count, 0.0);
  for_each_block(angles, [&](std::size_t first, std::span<const double> some) {
    Powers powers(some);
    const int held = static_cast<int>(some.size());
    for (int k = 0; k < count; ++k) {
      double re = 0, im = 0;
      for (int j = 0; j < held; ++j) {
        re += weights_[first + j] * powers.re[j];
        im += weights_[first + j] * powers.im[j];
      }
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

void CircleAttention::by_moments(std::span<const double> angles, std::span<double> z,
                                 std::span<double> slope) const {
  const auto sums = sums_of_powers(angles, kernel_.order());
  for_each_block(angles, [&](std::size_t first, std::span<const double> some) {
    Powers powers(some);
    std::array<double, block> value{}, rise{};
    for (int k = 1; k <= kernel_.order(); ++k) {
      const double c = 2 * kernel_.value[k], d = 2 * kernel_.slope[k], re = sums[k - 1].real(),
                   im = sums[k - 1].imag();
      for (int j = 0; j < block; ++j) {
        value[j] += c * (re * powers.re[j] + im * powers.im[j]);
        rise[j] += d * (im * powers.re[j] - re * powers.im[j]);
      }
      powers.next();
    }
    for (std::size_t j = 0; j < some.size(); ++j) {
      z[first + j] = kernel_.value[0] * weight_ + value[j];
      slope[first + j] = rise[j];
    }
  });
}

void CircleAttention::by_pairs(std::span<const double> angles, std::span<double> z,
                               std::span<double> slope) const {
  std::vector<double> all(2 * tokens_, 0.0);  // angles and weights of all ranks
  std::ranges::copy(angles, all.begin() + before_);
  std::ranges::copy(weights_, all.begin() + tokens_ + before_);
  sum_over_ranks(all, comm_);
  for (std::size_t i = 0; i < angles.size(); ++i) {
    z[i] = slope[i] = 0;
    for (Index j = 0; j < tokens_; ++j) {
      const double distance = all[j] - angles[i], half = std::sin(distance / 2);
      const double pull = all[tokens_ + j] * std::exp(-2 * kernel_.beta * half * half);
      z[i] += pull;
      slope[i] += pull * std::sin(distance);
    }
  }
}

void CircleAttention::densities(std::span<const double> angles, std::span<double> z,
                                std::span<double> slope) const {
  if (tokens_ < kernel_.order())
    by_pairs(angles, z, slope);
  else
    by_moments(angles, z, slope);
}

void CircleAttention::velocity(std::span<const double> angles, std::span<double> rate) const {
  std::vector<double> z(angles.size());
  densities(angles, z, rate);
  for (std::size_t j = 0; j < z.size(); ++j) rate[j] *= value_ / denominator(z[j]);
}

SoftNumbers CircleAttention::sums(std::span<const double> angles) const {
  std::vector<double> z(angles.size()), slope(angles.size()), gain(angles.size());
  densities(angles, z, slope);
  for (std::size_t j = 0; j < z.size(); ++j) gain[j] = std::pow(value_ * slope[j], 2) / denominator(z[j]);
  return soft_numbers({.weights = weights_, .z = z, .gain = gain}, weight_, kernel_.beta, value_, comm_);
}

std::vector<std::complex<double>> CircleAttention::moments(std::span<const double> angles, int count) const {
  auto found = sums_of_powers(angles, count);
  for (auto& one : found) one /= weight_;
  return found;
}

CircleClusters clusters_on_circle(std::span<const double> angles, std::span<const double> weights,
                                  double delta, MPI_Comm comm) {
  if (!(delta > 0 && delta < std::numbers::pi))
    throw std::invalid_argument("clusters: delta must be in (0, pi)");
  const auto bins = static_cast<std::size_t>(std::ceil(full_circle / delta));
  // The largest of each bin, and of the opposite of the smallest: both are maxima over ranks.
  constexpr double nothing = -std::numeric_limits<double>::infinity();
  std::vector<double> largest(2 * bins, nothing), sums(3 * bins, 0.0);  // of w, w cos, w sin
  for (std::size_t j = 0; j < angles.size(); ++j) {
    double place = std::fmod(angles[j], full_circle);
    if (place < 0) place += full_circle;
    if (place >= full_circle) place = 0;  // a tiny negative angle
    const auto bin =
        std::min(bins - 1, static_cast<std::size_t>(place / full_circle * static_cast<double>(bins)));
    largest[bin] = std::max(largest[bin], place);
    largest[bins + bin] = std::max(largest[bins + bin], -place);
    sums[bin] += weights[j];
    sums[bins + bin] += weights[j] * std::cos(place);
    sums[2 * bins + bin] += weights[j] * std::sin(place);
  }
  largest_over_ranks(largest, comm);
  sum_over_ranks(sums, comm);
  std::vector<Stretch> parts;
  for (std::size_t bin = 0; bin < bins; ++bin)
    if (largest[bin] > nothing) {
      const Stretch next{-largest[bins + bin], largest[bin], sums[bin], sums[bins + bin],
                         sums[2 * bins + bin]};
      if (!parts.empty() && next.first - parts.back().last <= delta)
        parts.back().append(next);
      else
        parts.push_back(next);
    }
  if (parts.size() > 1 && parts.front().first + full_circle - parts.back().last <= delta) {  // across 2 pi
    parts.back().append(parts.front());
    parts.back().last += full_circle;
    parts.front() = parts.back();
    parts.pop_back();
  }
  CircleClusters found;
  // One component that closes the circle has no end.
  const bool closed = parts.size() == 1 && parts.front().first + full_circle - parts.front().last <= delta;
  double all = 0, compact = 0;
  for (const auto& part : parts) {
    const double diameter = closed ? std::numeric_limits<double>::infinity() : part.last - part.first;
    found.each.push_back({part.weight, std::atan2(part.sine, part.cosine), diameter});
    found.diameter = std::max(found.diameter, diameter);
    all += part.weight;
    if (diameter <= 3 * delta) compact += part.weight;
  }
  found.compact_share = compact / all;
  std::ranges::sort(found.each, [](const CircleCluster& one, const CircleCluster& other) {
    return std::pair(-one.weight, one.angle) < std::pair(-other.weight, other.angle);
  });
  return found;
}

double wave_quantile(double share, int waves, double amplitude) {
  const double even = full_circle * share, most = amplitude / waves;  // |theta - even| <= most
  std::uintmax_t steps = 100;
  return boost::math::tools::newton_raphson_iterate(
      [&](double theta) {
        return std::pair(theta + most * std::sin(waves * theta) - even,
                         1 + amplitude * std::cos(waves * theta));
      },
      even, even - most, even + most, std::numeric_limits<double>::digits, steps);
}

}  // namespace fluxformer::clusters
