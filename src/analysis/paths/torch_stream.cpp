#include "analysis/paths/torch_stream.hpp"

#include <cmath>
#include <numbers>

#include "base/error.hpp"

namespace fluxformer::paths {
namespace {

constexpr std::size_t block = 16, half_block = block / 2;

/// Uniform numbers to normal ones: entry j is paired with entry j + 8.
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
  const std::uint64_t high = engine_(), low = engine_();
  constexpr std::uint64_t mask = (std::uint64_t{1} << 53) - 1;
  return static_cast<double>((high << 32 | low) & mask) * 0x1p-53;
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

RowMatrix TorchStream::normals(Eigen::Index rows, Eigen::Index columns) {
  RowMatrix values(rows, columns);
  fill_normal({values.data(), static_cast<std::size_t>(values.size())});
  return values;
}

RowMatrix TorchStream::normals(Eigen::Index rows, Eigen::Index columns, std::span<const int> held) {
  RowMatrix kept(static_cast<Eigen::Index>(held.size()), columns);
  if (columns % static_cast<Eigen::Index>(block) != 0) {
    const RowMatrix all = normals(rows, columns);
    for (std::size_t k = 0; k < held.size(); ++k) kept.row(static_cast<Eigen::Index>(k)) = all.row(held[k]);
    return kept;
  }
  std::vector<double> lost(columns);
  Eigen::Index next = 0;
  for (Eigen::Index row = 0; row < rows; ++row) {
    const bool keeps = next < kept.rows() && held[next] == row;
    fill_normal({keeps ? kept.row(next++).data() : lost.data(), lost.size()});
  }
  return kept;
}

}  // namespace fluxformer::paths
