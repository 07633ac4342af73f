#include "analysis/clusters/evenly_spread.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <numeric>

#include "base/error.hpp"
#include "base/random.hpp"
#include "operators/layer_norm.hpp"

namespace fluxformer::clusters {
namespace {

/// Calls f with all choices of signs of `numbers`, those of zeros once.
template <std::size_t n, class F>
void for_each_sign(const std::array<double, n>& numbers, F&& f) {
  for (unsigned signs = 0; signs < 1u << n; ++signs) {
    auto x = numbers;
    bool again = false;  // the sign of a zero
    for (std::size_t k = 0; k < n; ++k)
      if (signs >> k & 1) {
        again = again || x[k] == 0;
        x[k] = -x[k];
      }
    if (!again) f(x);
  }
}

constexpr double golden = std::numbers::phi;

Tokens icosahedron() {
  Tokens tokens{3, {}};
  const double norm = std::sqrt(1 + golden * golden);
  const std::array<double, 3> vertex{0, 1 / norm, golden / norm};
  for (std::size_t turn = 0; turn < 3; ++turn)  // cyclic permutations
    for_each_sign(std::array{vertex[turn], vertex[(turn + 1) % 3], vertex[(turn + 2) % 3]},
                  [&](const auto& x) { tokens.x.insert(tokens.x.end(), x.begin(), x.end()); });
  return tokens;
}

Tokens cell600() {
  Tokens tokens{4, {}};
  const auto add = [&](const auto& x) { tokens.x.insert(tokens.x.end(), x.begin(), x.end()); };
  for (std::size_t axis = 0; axis < 4; ++axis) {
    std::array<double, 4> unit{};
    unit[axis] = 1;
    for_each_sign(unit, add);
  }
  for_each_sign(std::array{0.5, 0.5, 0.5, 0.5}, add);
  const std::array<double, 4> vertex{golden / 2, 0.5, 1 / (2 * golden), 0};
  std::array<std::size_t, 4> order{0, 1, 2, 3};
  do {  // even permutations
    int inversions = 0;
    for (std::size_t a = 0; a < 4; ++a)
      for (std::size_t b = a + 1; b < 4; ++b) inversions += order[a] > order[b];
    if (inversions % 2 == 0)
      for_each_sign(std::array{vertex[order[0]], vertex[order[1]], vertex[order[2]], vertex[order[3]]}, add);
  } while (std::ranges::next_permutation(order).found);
  return tokens;
}

Tokens e8() {
  Tokens tokens{8, {}};
  const auto add = [&](const auto& x) { tokens.x.insert(tokens.x.end(), x.begin(), x.end()); };
  const double half = std::numbers::sqrt2 / 2;
  for (std::size_t a = 0; a < 8; ++a)
    for (std::size_t b = a + 1; b < 8; ++b) {
      std::array<double, 8> root{};
      root[a] = root[b] = half;
      for_each_sign(root, add);
    }
  std::array<double, 8> root;
  root.fill(half / 2);
  for_each_sign(root, [&](const auto& x) {
    int negative = 0;
    for (const double one : x) negative += one < 0;
    if (negative % 2 == 0) add(x);
  });
  return tokens;
}

/// The derivative of P_l at t, by the recurrence (l+d-2) P_{l+1} = (2l+d-2) t P_l - l P_{l-1}.
double gegenbauer_slope(int dimension, int degree, double t) {
  double before = 1, value = t, slope_before = 0, slope = 1;
  for (int l = 1; l < degree; ++l) {
    const double next = ((2 * l + dimension - 2) * t * value - l * before) / (l + dimension - 2);
    const double slope_next =
        ((2 * l + dimension - 2) * (value + t * slope) - l * slope_before) / (l + dimension - 2);
    before = value;
    value = next;
    slope_before = slope;
    slope = slope_next;
  }
  return slope;
}

}  // namespace

Tokens ring(int n) {
  Tokens tokens{2, {}};
  for (int j = 0; j < n; ++j) {
    const double angle = 2 * std::numbers::pi * j / n;
    tokens.x.insert(tokens.x.end(), {std::cos(angle), std::sin(angle)});
  }
  return tokens;
}

Tokens design(const std::string& name) {
  if (name == "icosahedron") return icosahedron();
  if (name == "cell600") return cell600();
  if (name == "e8") return e8();
  throw BadInput("design " + name + ": icosahedron, cell600 or e8");
}

Tokens random_tokens(Index first, Index count, int dimension, std::uint64_t seed) {
  const RandomStream random(seed, "tokens on the sphere");
  Tokens tokens{dimension, std::vector<double>(count * dimension)};
  // Normal numbers have no preferred direction.
  for (Index k = 0; k < std::ssize(tokens.x); ++k) tokens.x[k] = random.normal(first * dimension + k);
  project_to_sphere(tokens.x.data(), count, dimension);
  return tokens;
}

std::vector<double> zonal_displacement(const Tokens& tokens, int degree, std::uint64_t seed) {
  const int d = tokens.dimension;
  const RandomStream random(seed, "zonal displacement");
  std::vector<double> direction(d);
  for (int k = 0; k < d; ++k) direction[k] = random.normal(k);
  const double norm =
      std::sqrt(std::inner_product(direction.begin(), direction.end(), direction.begin(), 0.0));
  for (double& one : direction) one /= norm;
  std::vector<double> displacement(tokens.x.size());
  for (Index i = 0; i < tokens.count(); ++i) {
    const double* const x = tokens[i];
    double t = 0;
    for (int k = 0; k < d; ++k) t += x[k] * direction[k];
    const double slope = gegenbauer_slope(d, degree, t);
    for (int k = 0; k < d; ++k) displacement[i * d + k] = slope * (direction[k] - t * x[k]);
  }
  return displacement;
}

bool put_on_sphere(double* x, int dimension) {
  double largest = 0;  // squares of the row itself may be too small or too large for a number
  for (int c = 0; c < dimension; ++c) largest = std::max(largest, std::abs(x[c]));
  if (largest == 0) return false;
  for (int c = 0; c < dimension; ++c) x[c] /= largest;
  return project_to_sphere(x, 1, dimension);
}

Tokens moved(Tokens tokens, const std::vector<double>& displacement, double step) {
  const int d = tokens.dimension;
  for (Index i = 0; i < tokens.count(); ++i) {
    const double* const along = displacement.data() + i * d;
    const double length = std::sqrt(std::inner_product(along, along + d, along, 0.0)), angle = step * length;
    if (length == 0) continue;
    for (int k = 0; k < d; ++k) {
      double& x = tokens.x[i * d + k];
      x = std::cos(angle) * x + std::sin(angle) / length * along[k];
    }
  }
  return tokens;
}

}  // namespace fluxformer::clusters
