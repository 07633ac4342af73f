#include "analysis/attention/null_rows.hpp"

#include <utility>

namespace fluxformer::attention {

std::vector<double> uniform_row(int n) {
  return std::vector<double>(static_cast<std::size_t>(n), 1.0 / n);
}

void KeyShuffle::permute(long sample, int layer, int head, int query, std::span<double> row) const {
  const auto index = [](auto i) { return static_cast<std::uint64_t>(i); };
  const auto draw = stream_.item(index(sample)).item(index(layer)).item(index(head)).item(index(query));
  for (std::size_t last = row.size(); last > 1; --last) std::swap(row[last - 1], row[draw.below(last, last)]);
}

}  // namespace fluxformer::attention
