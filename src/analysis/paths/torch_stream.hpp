#pragma once

// The random numbers of PyTorch's generator on a CPU, in double precision: published tasks were drawn with
// it, and keyed streams (base/random.hpp) cannot repeat them. Each number depends on all drawn before it.
// Source: docs/model.md, section 11.10; CPUGeneratorImpl and normal_fill of PyTorch 1.13.

#include <cstdint>
#include <random>
#include <span>

#include "analysis/paths/path_examples.hpp"
#include "base/index.hpp"

namespace fluxformer::paths {

/// A stream of its own for each seed; a plain value, whose copies go on independently.
class TorchStream {
 public:
  /// Seeds MT19937 with 32 bits as std::mt19937 does.
  explicit TorchStream(std::uint32_t seed) : engine_(seed) {}

  /// A uniform number on [0, 1): multiples of 2^-53, from two words.
  double uniform();

  /// Fills with standard normal numbers by Box and Muller, in blocks of 16. Draws one uniform number for
  /// each, and 16 more if the last block is incomplete. Throws BadInput for fewer than 16: PyTorch draws
  /// those otherwise.
  void fill_normal(std::span<double> values);

  /// rows x columns standard normal numbers, one fill, row by row.
  RowMatrix normals(Index rows, Index columns);

  /// Rows `held` (rising) of the matrix that normals(rows, columns) draws, one below the other. All rows are
  /// drawn. Rows that are not held take no memory if `columns` is a multiple of 16; else the numbers of one
  /// row depend on the next.
  RowMatrix normals(Index rows, Index columns, std::span<const int> held);

 private:
  std::mt19937 engine_;
};

}  // namespace fluxformer::paths
