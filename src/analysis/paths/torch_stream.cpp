#include "analysis/paths/torch_stream.hpp"

#include <cmath>
#include <numbers>

#include "base/error.hpp"
#include "base/index.hpp"

namespace fluxformer::paths {
namespace {

constexpr std::size_t block = 16, half_block = block / 2;

/// Turns uniform numbers into normal ones: entry j is paired with entry j + 8.
void to_normal(std::span<double, block> d) {
  for (std::size_t j = 0; j < half_block; ++j) {
    // 1 - u is never 0, the logarithm is finite.
    const double radius = std::sqrt(-2 * std::log(1 - d[j]));
    const double angle = 2 * std::numbers::pi * d[j + half_block];
    d[j] = radius * std::cos(angle);
    d[j + half_block] = radius * std::sin(angle);
  }
}

}  // namespace

double TorchStream::uniform() {
  // 53 bits of two words, the high one drawn first
  const std::uint64_t high = engine_(), low = engine_();
  constexpr std::uint64_t mask = (std::uint64_t{1} << 53) - 1;
  return ((high << 32 | low) & mask) * 0x1p-53;
}

void TorchStream::fill_normal(std::span<double> values) {
  if (values.size() < block) throw BadInput("a normal fill needs at least 16 numbers");
  for (double& value : values) value = uniform();
  for (std::size_t first = 0; first + block <= values.size(); first += block)
    to_normal(values.subspan(first).first<block>());
  if (values.size() % block == 0) return;
  // The last block is made anew; it overlaps the one before.
  const auto last = values.last<block>();
  for (double& value : last) value = uniform();
  to_normal(last);
}

RowMatrix TorchStream::normals(Index rows, Index columns) {
  RowMatrix values(rows, columns);
  fill_normal({values.data(), values.data() + values.size()});
  return values;
}

RowMatrix TorchStream::normals(Index rows, Index columns, std::span<const int> held) {
  RowMatrix kept(std::ssize(held), columns);
  if (columns % Index{block} != 0) {
    const RowMatrix all = normals(rows, columns);
    for (Index k = 0; k < std::ssize(held); ++k) kept.row(k) = all.row(held[k]);
    return kept;
  }
  std::vector<double> lost(columns);
  Index next = 0;
  for (Index row = 0; row < rows; ++row) {
    const bool keeps = next < kept.rows() && held[next] == row;
    fill_normal({keeps ? kept.row(next++).data() : lost.data(), lost.size()});
  }
  return kept;
}

}  // namespace fluxformer::paths
