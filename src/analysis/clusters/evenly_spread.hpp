#pragma once

// Tokens that are spread evenly over a sphere. Rings and designs are so as the growth of small displacements needs them: means over them are
// means over the sphere for all harmonics up to some degree. Not collective.

#include <cstdint>
#include <string>
#include <vector>

#include "base/index.hpp"

namespace fluxformer::clusters {

/// Unit vectors, [token][channel].
struct Tokens {
  int dimension = 2;
  std::vector<double> x;
  Index count() const { return std::ssize(x) / dimension; }
  const double* operator[](Index token) const { return x.data() + token * dimension; }
};

/// The largest d that is looked at.
inline constexpr int most_dimensions = 1024;

/// n equally spaced tokens on the circle.
Tokens ring(int n);

/// The names of `design`.
inline constexpr const char* designs[] = {"icosahedron", "cell600", "e8"};
/// The vertices of a regular figure, by its name: the icosahedron (12 tokens, d = 3), the 600-cell (120, d = 4), the roots of E8 (240,
/// d = 8); exact for harmonics of degrees up to 5, 11 and 7. Throws BadInput for another name.
Tokens design(const std::string& name);

/// Independent tokens, uniform on the sphere S^{d-1}: `count` of them from the token `first` on, keyed by token and channel.
Tokens random_tokens(Index first, Index count, int dimension, std::uint64_t seed);

/// The displacement by a zonal harmonic, grad P_l(<x, e>) for a random direction e, tangential to the sphere, [token][channel]. P_l is the
/// Gegenbauer polynomial of the sphere with P_l(1) = 1; on the circle, P_l(cos phi) = cos(l phi). `degree`: from 1.
std::vector<double> zonal_displacement(const Tokens& tokens, int degree, std::uint64_t seed);

/// x := x / |x| for a row of any length that is not 0; false for 0.
bool put_on_sphere(double* x, int dimension);

/// Moves each token along the geodesic in the direction of its displacement, tangential, by `step` times its length: cos(a) x + sin(a) v/|v|,
/// a = step |v|.
Tokens moved(Tokens tokens, const std::vector<double>& displacement, double step);

}  // namespace fluxformer::clusters
