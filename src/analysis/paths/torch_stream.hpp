#pragma once

// The random numbers of PyTorch's generator on a CPU, in double precision: published tasks were drawn with
// it, and keyed streams (base/random.hpp) cannot repeat them. Each number depends on all drawn before it.
// Source: specification of attention paths, section 3.1; CPUGeneratorImpl and normal_fill of PyTorch 1.13.

#include <cstdint>
#include <random>
#include <span>

#include "analysis/paths/path_examples.hpp"

namespace fluxformer::paths {

/// A stream of its own for each seed; a plain value, whose copies go on independently.
class TorchStream {
 public:
  /// MT19937 with 32 bits, seeded as std::mt19937.
  explicit TorchStream(std::uint32_t seed) : engine_(seed) {}

  /// Uniform on [0, 1): multiples of 2^-53, from two words.
  double uniform();

  /// Standard normal numbers by Box and Muller, in blocks of 16. Draws one uniform number for each, and 16
  /// more if the last block is incomplete. Throws BadInput for fewer than 16: PyTorch draws those otherwise.
  void fill_normal(std::span<double> values);

  /// rows x columns standard normal numbers, one fill, row by row.
  RowMatrix normals(Eigen::Index rows, Eigen::Index columns);

  /// The same for `held` alone, rising numbers of rows, one below the other. All are drawn; those that are not held take no memory if
  /// `columns` is a multiple of 16, the numbers of one row else not being independent of the next.
  RowMatrix normals(Eigen::Index rows, Eigen::Index columns, std::span<const int> held);

 private:
  std::mt19937 engine_;
};

}  // namespace fluxformer::paths
