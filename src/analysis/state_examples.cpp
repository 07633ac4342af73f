#include "analysis/state_examples.hpp"

#include <algorithm>
#include <string>

#include "base/error.hpp"
#include "base/index.hpp"

namespace fluxformer {

SampleView sample_of(const SlabContext& context, const double* u, int sample) {
  // A slab is [token][sample][channel], so that the tokens of one sample are samples * width numbers apart.
  const int tokens = context.line->tokens();
  const auto& length = context.mask.length;
  const int real = length.empty() ? tokens : std::min(tokens, length[sample]);
  return {u + Index{sample} * context.width, real, context.width, Eigen::OuterStride<>(context.row())};
}

RowMatrix examples_of(const SlabContext& context, const double* u, Examples what) {
  need_whole_line(*context.line, "examples of hidden states");
  const auto rows_of = [&](const SampleView& sample) {
    return what == Examples::tokens ? sample.rows() : std::min<Index>(sample.rows(), 1);
  };
  // One example for each token, or one for each sample that has tokens
  Index count = 0;
  for (int b = 0; b < context.samples; ++b) count += rows_of(sample_of(context, u, b));
  RowMatrix out(count, context.width);
  Index at = 0;
  for (int b = 0; b < context.samples; ++b) {
    const auto sample = sample_of(context, u, b);
    // All u(x), or their mean (1/n) sum_x u(x) over the real tokens x. The mean has memory of its own at first:
    // the order of such sums depends on where they lie.
    const auto rows = rows_of(sample);
    if (rows == 0) continue;
    if (what == Examples::tokens)
      out.middleRows(at, rows) = sample;
    else
      out.row(at) = sample.colwise().mean().eval();
    at += rows;
  }
  return out;
}

void need_whole_line(const TokenLine& line, const char* measure) {
  if (line.size() > 1)
    throw BadInput(std::string("mesh.ranks_token = ") + std::to_string(line.size()) + ": " + measure +
                   " need all tokens of a sample on one rank, mesh.ranks_token = 1");
}

}  // namespace fluxformer
