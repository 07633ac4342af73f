#include "analysis/paths/model_heads_worth.hpp"

#include <cmath>
#include <string>

#include "analysis/attention/field_attention.hpp"
#include "base/error.hpp"
#include "model/loss.hpp"

namespace fluxformer::paths {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;

using Weights = Eigen::Map<RowMatrix>;
using ConstWeights = Eigen::Map<const RowMatrix>;

std::string output_of(int layer) {
  return "layers/" + std::to_string(layer + 1) + "/W_O";
}

/// Channels of a head.
Index head_channels(const ModelSpec& spec) {
  return spec.width / spec.attention.heads;
}

}  // namespace

void silence(Parameters& parameters, std::span<const HeadPlace> lost) {
  const auto& spec = parameters.spec;
  for (const auto& [layer, head] : lost) {
    if (layer < 0 || layer >= spec.layers || head < 0 || head >= spec.attention.heads)
      throw BadInput("the model has no head " + std::to_string(head) + " in layer " +
                     std::to_string(layer + 1));
    Weights(parameters.view(output_of(layer)).data(), spec.width, spec.width)
        .middleCols(head * head_channels(spec), head_channels(spec))
        .setZero();
  }
}

RowMatrix attentioned_states(const std::vector<identifiability::LayerHeads>& layers,
                             const RowMatrix& embedded) {
  const Index n = embedded.rows();
  // Columns are weights of tokens, one for each path (h_l .. h_L): what the layers from l on make of the mean over tokens.
  MatrixXd weights = MatrixXd::Constant(n, 1, 1 / static_cast<double>(n));
  for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer) {
    const Index behind = weights.cols();
    MatrixXd longer(n, static_cast<Index>(layer->size()) * behind);
    for (std::size_t h = 0; h < layer->size(); ++h)
      longer.middleCols(static_cast<Index>(h) * behind, behind).noalias() =
          (*layer)[h].weights.transpose() * weights;
    weights = std::move(longer);
  }
  return weights.transpose() * embedded;
}

std::vector<double> row_entropies(const std::vector<identifiability::LayerHeads>& layers) {
  std::vector<double> entropies;
  for (const auto& layer : layers)
    for (const auto& head : layer)
      entropies.push_back(
          attention::row_entropy(head.weights.data(), static_cast<std::size_t>(head.weights.size())) /
          static_cast<double>(head.weights.rows()));
  return entropies;
}

std::vector<double> gate_slopes(ModelProbe& probe, const Batch& batch) {
  const auto& parameters = probe.parameters();
  const auto& spec = parameters.spec;
  std::vector<double> u, logits_bar, gradient(parameters.values.size());
  probe.embed(batch, u);
  const auto& logits = probe.forward(u, Keep::activations);
  logits_bar.resize(logits.size());
  loss_of({}, logits.data(), static_cast<int>(logits.size()), batch.label.front(), 1, logits_bar.data());
  probe.adjoint(logits_bar, u, gradient);
  std::vector<double> slopes;
  for (int l = 0; l < spec.layers; ++l) {
    const auto& view = parameters.layout.at(output_of(l));
    const ConstWeights w(parameters.values.data() + view.offset, spec.width, spec.width),
        g(gradient.data() + view.offset, spec.width, spec.width);
    for (int h = 0; h < spec.attention.heads; ++h)
      slopes.push_back(w.middleCols(h * head_channels(spec), head_channels(spec))
                           .cwiseProduct(g.middleCols(h * head_channels(spec), head_channels(spec)))
                           .sum());
  }
  return slopes;
}

}  // namespace fluxformer::paths
