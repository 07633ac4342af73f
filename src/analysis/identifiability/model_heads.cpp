#include "analysis/identifiability/model_heads.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "analysis/identifiability/column_space.hpp"
#include "analysis/state_examples.hpp"
#include "base/error.hpp"
#include "base/index.hpp"
#include "operators/layer_norm.hpp"

namespace fluxformer::identifiability {
namespace {

using ConstMatrix = Eigen::Map<const Matrix>;
using ConstVector = Eigen::Map<const Eigen::RowVectorXd>;

}  // namespace

ModelHeads::ModelHeads(ModelProbe& probe)
    : probe_(probe), weights_(probe.parameters()), entries_(probe.cells()) {
  const auto& attention = probe.spec().attention;
  if (attention.kernel != Kernel::dot || attention.normalisation != Normalisation::softmax)
    throw BadInput("attention.kernel = " + to_word(attention.kernel) + ", attention.normalisation = " +
                   to_word(attention.normalisation) + ": its weights are analysed for dot and softmax only");
  probe.layer_rows();  // throws
  need_whole_line(*probe.counted().line, "attention heads");
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
  const auto& w = layer_.attention;
  auto& output = outputs_[cell];
  output_ = &output;
  if (!output.factors.empty()) return;
  const Index d = probe_.spec().width, channels = d / heads();
  // alpha W_O^T: its rows of a head are H
  output.matrix = *w.alpha * ConstMatrix(w.w_o, d, d).transpose();
  // L of H = L Q, once for all samples
  for (int h = 0; h < heads(); ++h)
    output.factors.push_back(output_factor(output.matrix.middleRows(h * channels, channels)));
}

LayerHeads ModelHeads::of_sample(int sample) const {
  const auto& w = layer_.attention;
  const auto& context = probe_.counted();
  const SampleView state = sample_of(context, state_.data(), sample);
  const Index n = state.rows(), d = state.cols(), count = heads(), channels = d / count;
  if (n == 0) return {};
  // x: the input of attention, E of docs/model.md, 10.1, behind LayerNorm for `pre`
  Matrix x = state;
  if (probe_.spec().norm == Norm::pre)
    layer_norm(Matrix(state).data(), d, n, d, w.norm, w.gain, w.bias, x.data(), d);
  // [Q, K, V] = x W^T + b, n x 3 d: columns are [Q, K or V][head][channel of the head].
  Matrix qkv = x * ConstMatrix(w.w_qkv, 3 * d, d).transpose();
  qkv.rowwise() += ConstVector(w.b_qkv, 3 * d);

  const Index keys = context.line->tokens();
  LayerHeads all(count);
  for (Index h = 0; h < count; ++h) {
    auto& head = all[h];
    // A of the head at this sample: its n real tokens are the first ones.
    const ConstMatrix kernel(kernel_.data() + (sample * count + h) * keys * keys, keys, keys);
    head = {.weights = kernel.topLeftCorner(n, n),
            .queries = qkv.middleCols(h * channels, channels),
            .keys = qkv.middleCols(d + h * channels, channels),
            .values = qkv.middleCols(2 * d + h * channels, channels),
            .output = output_->matrix.middleRows(h * channels, channels),
            .causal = probe_.spec().causal,
            .factor = output_->factors[h]};
  }
  return all;
}

}  // namespace fluxformer::identifiability
