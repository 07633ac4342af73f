#include "model/pooling.hpp"

#include <algorithm>

#include "base/mpi.hpp"

namespace fluxformer {
namespace {

int length(const SlabContext& context, int sample) {
  const auto& mask = context.mask.length;
  return mask.empty() ? context.line->tokens() : mask[sample];
}

/// Whether a classifier sees this token (global index).
bool seen(Pooling pooling, const SlabContext& context, int sample, int token) {
  const int real = length(context, sample);
  if (pooling == Pooling::mean) return token < real;
  return token == (pooling == Pooling::first ? 0 : real - 1);
}

/// body(first number of the row in the slab, first number of the sample in the pooled state, its sample) over the rows
/// that are seen.
template <class Body>
void over_seen_rows(Pooling pooling, const SlabContext& context, Body&& body) {
  const auto& line = *context.line;
  const auto width = static_cast<std::size_t>(context.width);
  for (int local = 0; local < line.block().count(); ++local) {
    const int token = line.global_index(line.rank(), local);
    for (int sample = 0; sample < context.samples; ++sample)
      if (seen(pooling, context, sample, token))
        body(static_cast<std::size_t>(local * context.samples + sample) * width,
             static_cast<std::size_t>(sample) * width, sample);
  }
}

/// What the sum over the rows that are seen is divided by.
double divisor(Pooling pooling, const SlabContext& context, int sample) {
  return pooling == Pooling::mean ? length(context, sample) : 1;
}

}  // namespace

void pool(Pooling pooling, const SlabContext& context, const double* slab, std::vector<double>& pooled) {
  const auto width = static_cast<std::size_t>(context.width);
  pooled.assign(context.row(), 0.0);
  over_seen_rows(pooling, context, [&](std::size_t row, std::size_t to, int) {
    for (std::size_t c = 0; c < width; ++c) pooled[to + c] += slab[row + c];
  });
  sum_over_ranks(pooled, context.line->comm());
  for (std::size_t j = 0; j < pooled.size(); ++j)
    pooled[j] /= divisor(pooling, context, static_cast<int>(j / width));
}

void spread(Pooling pooling, const SlabContext& context, const std::vector<double>& pooled_bar,
            double* slab) {
  const auto width = static_cast<std::size_t>(context.width);
  std::fill_n(slab, context.size(), 0.0);
  over_seen_rows(pooling, context, [&](std::size_t row, std::size_t from, int sample) {
    const double divided_by = divisor(pooling, context, sample);
    for (std::size_t c = 0; c < width; ++c) slab[row + c] = pooled_bar[from + c] / divided_by;
  });
}

}  // namespace fluxformer
