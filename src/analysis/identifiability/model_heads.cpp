#include "analysis/identifiability/model_heads.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "analysis/identifiability/column_space.hpp"
#include "analysis/state_examples.hpp"
#include "base/error.hpp"
#include "base/index.hpp"

namespace fluxformer::identifiability {
namespace {

using ConstMatrix = Eigen::Map<const Matrix>;
/// Throws BadInput if a window hides tokens of a line of n: the ranks and null spaces of the analysis are those
/// of attention that hears all tokens (or all earlier ones).
void refuse_windows(const ModelSpec& spec, int n) {
  for (const int window : spec.windows)
    if (window > 0 && window < (spec.causal ? n : n - 1))
      throw BadInput("attention.window = " + std::to_string(window) +
                     ": heads are analysed for attention whose window hides no token, and lines have " +
                     std::to_string(n) + " tokens");
}

}  // namespace

ModelHeads::ModelHeads(ModelProbe& probe)
    : probe_(probe),
      weights_(probe.parameters()),
      entries_(probe.cells()),
      plain_{.line = probe.counted().line, .samples = probe.counted().samples, .width = probe.spec().width},
      attention_(plain_, probe.spec().attention) {
  const auto& attention = probe.spec().attention;
  if (attention.kernel != Kernel::dot || attention.normalisation != Normalisation::softmax)
    throw BadInput("attention.kernel = " + to_word(attention.kernel) + ", attention.normalisation = " +
                   to_word(attention.normalisation) + ": its weights are analysed for dot and softmax only");
  probe.layer_rows();  // throws
  need_whole_line(*probe.counted().line, "attention heads");
  refuse_windows(probe.spec(), probe.counted().line->tokens());
}

void ModelHeads::show(const Batch& batch) {
  probe_.embed(batch, u_);
  probe_.forward(u_, Keep::nothing, [&](int row, const double* u) {
    if (row == probe_.cells()) return;
    auto& entry = entries_[row];
    entry.assign(u, u + u_.size());
    if (!std::ranges::all_of(entry, [](double value) { return std::isfinite(value); }))
      throw NumericalFailure("hidden states are beyond the range of numbers at depth cell " +
                             std::to_string(row));
  });
}

void ModelHeads::select_cell(int cell) {
  const double* const u = entries_[cell].data();
  probe_.attention(cell, u, kernel_);
  probe_.attention_state(cell, u, state_);
  layer_ = weights_.at(probe_.point(cell));
  const auto& spec = probe_.spec();
  const Index rows = plain_.rows();
  q_.resize(rows * spec.query_width());
  k_.resize(rows * spec.key_width());
  v_.resize(k_.size());
  attention_.projections(layer_, state_.data(), q_.data(), k_.data(), v_.data());
  auto& output = outputs_[cell];
  output_ = &output;
  if (!output.factors.empty()) return;
  const Index channels = spec.attention.channels(spec.width);
  // alpha W_O^T: its rows of a head are H
  const auto& w = layer_.attention;
  output.matrix = *w.alpha * ConstMatrix(w.w_o, spec.width, spec.query_width()).transpose();
  // L of H = L Q, once for all samples
  for (int h = 0; h < heads(); ++h)
    output.factors.push_back(output_factor(output.matrix.middleRows(h * channels, channels)));
}

LayerHeads ModelHeads::of_sample(int sample) const {
  const auto& context = probe_.counted();
  const Index n = context.real_tokens(sample), tokens = context.line->tokens(), count = heads();
  if (n == 0) return {};
  const auto& spec = probe_.spec();
  const Index channels = spec.attention.channels(spec.width), shared = count / spec.attention.key_groups();
  // Columns are [head or group][channel].
  const auto of = [&](const std::vector<double>& all, Index width) {
    return ConstMatrix(all.data() + sample * tokens * width, n, width);
  };
  const auto queries = of(q_, spec.query_width()), keys = of(k_, spec.key_width()),
             values = of(v_, spec.key_width());
  LayerHeads all(count);
  for (Index h = 0; h < count; ++h) {
    const Index group = h / shared;
    // A of the head at this sample: its n real tokens are the first ones.
    const ConstMatrix kernel(kernel_.data() + (sample * count + h) * tokens * tokens, tokens, tokens);
    all[h] = {.weights = kernel.topLeftCorner(n, n),
              .queries = queries.middleCols(h * channels, channels),
              .keys = keys.middleCols(group * channels, channels),
              .values = values.middleCols(group * channels, channels),
              .output = output_->matrix.middleRows(h * channels, channels),
              .causal = spec.causal,
              .factor = output_->factors[h]};
  }
  return all;
}

}  // namespace fluxformer::identifiability
