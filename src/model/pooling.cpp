#include "model/pooling.hpp"

#include <algorithm>

#include "base/reductions.hpp"

namespace fluxformer {
namespace {

int length(const SlabContext& context, int sample) {
  const auto& mask = context.mask.length;
  return mask.empty() ? context.line->tokens() : mask[static_cast<std::size_t>(sample)];
}

/// body(first number of the row in the slab, first number of the sample in the pooled state, sample) over the
/// real tokens.
template <class Body>
void over_real_rows(const SlabContext& context, Body&& body) {
  const auto& line = *context.line;
  const auto width = static_cast<std::size_t>(context.width);
  for (int local = 0; local < line.block().count(); ++local) {
    const int token = line.global_index(line.rank(), local);
    for (int sample = 0; sample < context.samples; ++sample)
      if (token < length(context, sample))
        body(static_cast<std::size_t>(local * context.samples + sample) * width,
             static_cast<std::size_t>(sample) * width, sample);
  }
}

}  // namespace

void mean_over_tokens(const SlabContext& context, const double* slab, std::vector<double>& pooled) {
  const auto width = static_cast<std::size_t>(context.width);
  pooled.assign(context.row(), 0.0);
  over_real_rows(context, [&](std::size_t row, std::size_t to, int) {
    for (std::size_t c = 0; c < width; ++c) pooled[to + c] += slab[row + c];
  });
  sum_over_ranks(pooled, context.line->comm());
  for (std::size_t j = 0; j < pooled.size(); ++j) pooled[j] /= length(context, static_cast<int>(j / width));
}

void spread_mean(const SlabContext& context, const std::vector<double>& pooled_bar, double* slab) {
  const auto width = static_cast<std::size_t>(context.width);
  std::fill_n(slab, context.size(), 0.0);
  over_real_rows(context, [&](std::size_t row, std::size_t from, int sample) {
    for (std::size_t c = 0; c < width; ++c) slab[row + c] = pooled_bar[from + c] / length(context, sample);
  });
}

}  // namespace fluxformer
