#include "training/stage_cells.hpp"

#include <algorithm>
#include <string>

#include "base/error.hpp"

namespace fluxformer {

EndWork end_work(const ModelSpec& spec, const InputShape& input, double guessed_share) {
  const double d = spec.width, n = input.tokens;
  // Per token and cell: Q, K, V and O 4 d^2, the reaction 2 d f, scores and sums over values 2 n d, each
  // counted twice (an addition and a multiplication).
  const double cell = n * (8 * d * d + 4 * d * spec.ffn + 4 * n * d);
  const double outputs = input.word_head ? guessed_share * n * input.vocabulary : input.classes;
  return {2 * d * n * input.features / cell, 2 * d * outputs / cell};
}

std::vector<DepthRange> balanced_stages(int cells, int stages, EndWork ends) {
  if (stages > cells)
    throw BadInput("mesh.ranks_depth = " + std::to_string(stages) +
                   ": every stage needs a depth cell, and mesh.cells = " + std::to_string(cells));
  std::vector<int> counts(stages, 1);
  std::vector<double> work(counts.size(), 1.0);
  work.front() += ends.first;
  work.back() += ends.last;
  // Of very many cells most are shared evenly at once.
  constexpr int one_by_one = 1000;
  const int even =
      std::max(0, cells / stages - one_by_one - static_cast<int>(std::min(ends.first + ends.last, 1e9)));
  for (auto& count : counts) count += even;
  for (int cell = stages * (1 + even); cell < cells; ++cell) {
    // From the back: the last of equals. Its activations are kept for the shortest time.
    const auto least = std::min_element(work.rbegin(), work.rend());
    const auto stage = std::ssize(work) - 1 - (least - work.rbegin());
    ++counts[stage];
    work[stage] += 1;
  }
  std::vector<DepthRange> ranges;
  int first = 1;
  for (const int count : counts) {
    ranges.push_back({first, first + count - 1});
    first += count;
  }
  return ranges;
}

}  // namespace fluxformer
