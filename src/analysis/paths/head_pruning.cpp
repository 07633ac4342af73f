#include "analysis/paths/head_pruning.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>

#include "analysis/attention/field_attention.hpp"
#include "analysis/paths/path_examples.hpp"
#include "base/error.hpp"
#include "base/index.hpp"
#include "base/random.hpp"
#include "model/tasks/task.hpp"

namespace fluxformer::paths {

using Eigen::MatrixXd;

Eigen::VectorXd paths_through(const HeadPlace& head, const std::vector<int>& heads) {
  Eigen::VectorXd through(path_count(heads));
  for (Index path = 0; path < through.size(); ++path)
    // 1 if h_l of the path (h_1, ..., h_L) is this head, else 0
    through[path] = heads_of_path(path, heads)[head.layer] == head.head;
  return through;
}

std::vector<HeadPlace> all_heads(const std::vector<int>& heads) {
  std::vector<HeadPlace> all;
  all.reserve(std::accumulate(heads.begin(), heads.end(), 0));
  for (int l = 0; l < std::ssize(heads); ++l)
    for (int h = 0; h < heads[l]; ++h) all.push_back({.layer = l, .head = h});
  return all;
}

std::vector<double> head_scores(const MatrixXd& u, const std::vector<int>& heads) {
  const MatrixXd size = u.cwiseAbs();
  std::vector<double> scores;
  const auto all = all_heads(heads);
  scores.reserve(all.size());
  for (const auto& head : all) {
    // Sum of |U^{pi pi'}| over the pairs of which pi or pi' goes through the head. As U is symmetric, this is
    // twice the sum over pi through it and any pi', less that over both through it, counted twice.
    const auto through = paths_through(head, heads);
    scores.push_back(2 * (through.transpose() * size).sum() - through.dot(size * through));
  }
  return scores;
}

std::vector<HeadPlace> in_rising_order(const std::vector<double>& scores, const std::vector<int>& heads) {
  const auto places = all_heads(heads);
  std::vector<std::size_t> order(places.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](std::size_t k) { return scores[k]; });
  std::vector<HeadPlace> rising;
  rising.reserve(order.size());
  for (const auto k : order) rising.push_back(places[k]);
  return rising;
}

MatrixXd without_head(const MatrixXd& u, const HeadPlace& head, const std::vector<int>& heads) {
  // U_1 with zeros wherever pi or pi' goes through the head
  const Eigen::VectorXd kept = Eigen::VectorXd::Ones(u.rows()) - paths_through(head, heads);
  return kept.asDiagonal() * u * kept.asDiagonal();
}

using Eigen::MatrixXd;
using Eigen::VectorXd;

std::vector<double> accuracies_without(const std::vector<HeadPlace>& order, const std::vector<int>& heads,
                                       const PrunedAccuracy& accuracy) {
  std::vector<double> accuracies;
  auto left = heads;
  bool whole = true;
  accuracies.reserve(order.size());
  for (std::size_t k = 0; k < order.size(); ++k) {
    // From the first layer that is empty on nothing is predicted.
    whole = whole && --left[order[k].layer] > 0;
    accuracies.push_back(whole ? accuracy(std::span(order).first(k + 1))
                               : std::numeric_limits<double>::quiet_NaN());
  }
  return accuracies;
}

std::vector<double> pruning_curve(const std::vector<HeadPlace>& order, const std::vector<int>& heads,
                                  const PrunedAccuracy& accuracy) {
  std::vector<double> curve{accuracy({})};
  const auto rest = accuracies_without(order, heads, accuracy);
  curve.insert(curve.end(), rest.begin(), rest.end());
  return curve;
}

double pruning_gain(std::span<const double> curve, std::span<const double> other) {
  double sum = 0;
  int count = 0;
  // Mean of curve[k] - other[k], the accuracies without k heads, over one head to half of all heads
  for (std::size_t lost = 1; 2 * lost < curve.size(); ++lost) {
    const double gain = curve[lost] - other[lost];
    if (!std::isfinite(gain)) continue;
    sum += gain;
    ++count;
  }
  return count > 0 ? sum / count : std::numeric_limits<double>::quiet_NaN();
}

double pruning_loss(std::span<const double> curve) {
  // mean of curve[0] - curve[k]
  return -pruning_gain(curve, std::vector<double>(curve.size(), curve.front()));
}

std::vector<HeadPlace> random_order(const std::vector<int>& heads, std::uint64_t seed, std::uint64_t k) {
  const auto all = all_heads(heads);
  std::vector<HeadPlace> order;
  order.reserve(all.size());
  for (const auto place : shuffled(all.size(), seed, "heads to silence", k)) order.push_back(all[place]);
  return order;
}

RowMatrix without_heads(const RowMatrix& input_weights, const std::vector<int>& heads,
                        std::span<const HeadPlace> lost) {
  RowMatrix left = input_weights;
  auto remaining = heads;
  for (const auto& head : lost) {
    // w^pi = 0 for every path through the head
    left = (VectorXd::Ones(left.rows()) - paths_through(head, heads)).asDiagonal() * left;
    --remaining[head.layer];
  }
  for (std::size_t l = 0; l < heads.size(); ++l) {
    if (remaining[l] < 1) throw BadInput("layer " + std::to_string(l + 1) + " has lost all its heads");
    // The sum over H heads has the factor 1/sqrt(H), that over the rest 1/sqrt(H - k).
    left *= std::sqrt(1.0 * heads[l] / remaining[l]);
  }
  return left;
}

std::vector<double> first_order_scores(const PathExamples& examples, const RowMatrix& input_weights,
                                       const std::vector<int>& heads) {
  // f - y of each example
  const VectorXd error = outputs(examples.inputs, input_weights) - examples.targets;
  std::vector<double> scores;
  const auto all = all_heads(heads);
  scores.reserve(all.size());
  for (const auto& head : all) {
    // f is linear in the gate: d (f - y)^2/d gate = 2 (f - y) f_through
    const RowMatrix through = paths_through(head, heads).asDiagonal() * input_weights;
    scores.push_back(2 * error.cwiseProduct(outputs(examples.inputs, through)).cwiseAbs().mean());
  }
  return scores;
}

std::vector<double> mean_entropies(const FrozenAttention& attention, int count,
                                   const std::function<MatrixXd(int)>& tokens) {
  const auto all = all_heads(attention.heads());
  std::vector<double> entropies(all.size());
  for (int k = 0; k < count; ++k) {
    const MatrixXd x = tokens(k);
    for (std::size_t h = 0; h < all.size(); ++h) {
      const auto a = attention_columns(attention.head(all[h].layer, all[h].head), x, x);
      // - sum A ln A over all entries, divided by queries and examples
      entropies[h] += attention::row_entropy(a.data(), a.size()) / a.cols() / count;
    }
  }
  return entropies;
}

namespace {

using Eigen::MatrixXd;

using Weights = Eigen::Map<RowMatrix>;
using ConstWeights = Eigen::Map<const RowMatrix>;

std::string output_of(int layer) {
  return "layers/" + std::to_string(layer + 1) + "/W_O";
}

/// Channels of a head.
Index head_channels(const ModelSpec& spec) {
  return spec.attention.channels(spec.width);
}

}  // namespace

void silence(Parameters& parameters, std::span<const HeadPlace> lost) {
  const auto& spec = parameters.spec;
  for (const auto& [layer, head] : lost) {
    if (layer < 0 || layer >= spec.layers || head < 0 || head >= spec.attention.heads)
      throw BadInput("the model has no head " + std::to_string(head) + " in layer " +
                     std::to_string(layer + 1));
    // A head adds its values times its columns of W_O.
    Weights(parameters.view(output_of(layer)).data(), spec.width, spec.query_width())
        .middleCols(head * head_channels(spec), head_channels(spec))
        .setZero();
  }
}

RowMatrix attentioned_states(const std::vector<identifiability::LayerHeads>& layers,
                             const RowMatrix& embedded) {
  const Index n = embedded.rows();
  // Columns are weights of tokens, one for each path (h_l .. h_L): what the layers from l on make of the mean
  // over tokens.
  MatrixXd weights = MatrixXd::Constant(n, 1, 1.0 / n);
  for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer) {
    const Index behind = weights.cols();
    MatrixXd longer(n, std::ssize(*layer) * behind);
    // w_s^{(h, rest)} = sum_t A^h_ts w_t^{rest}: here rows t of A are queries and columns s keys.
    for (Index h = 0; h < std::ssize(*layer); ++h)
      longer.middleCols(h * behind, behind).noalias() = (*layer)[h].weights.transpose() * weights;
    weights = std::move(longer);
  }
  // xi^pi = sum_s w_s^pi x_s, as rows
  return weights.transpose() * embedded;
}

std::vector<double> row_entropies(const std::vector<identifiability::LayerHeads>& layers) {
  std::vector<double> entropies;
  for (const auto& layer : layers)
    for (const auto& head : layer)
      // -sum_s A_ts ln A_ts, mean over the rows t
      entropies.push_back(attention::row_entropy(head.weights.data(), head.weights.size()) /
                          head.weights.rows());
  return entropies;
}

std::vector<double> gate_slopes(ModelProbe& probe, const Batch& batch) {
  const auto& parameters = probe.parameters();
  const auto& spec = parameters.spec;
  std::vector<double> u, logits_bar, gradient(parameters.values.size());
  probe.embed(batch, u);
  const auto& logits = probe.forward(u, Keep::activations);
  logits_bar.resize(logits.size());
  loss_of({}, logits.data(), logits.size(), batch.label.front(), 1, logits_bar.data());
  // d loss/d parameters by one adjoint march
  probe.adjoint(logits_bar, u, gradient);
  std::vector<double> slopes;
  for (int l = 0; l < spec.layers; ++l) {
    const auto& view = parameters.layout.at(output_of(l));
    const ConstWeights w(parameters.values.data() + view.offset, spec.width, spec.query_width()),
        g(gradient.data() + view.offset, spec.width, spec.query_width());
    // A gate g multiplies the head's columns of W_O: d loss/d g = sum W_O o d loss/d W_O over them
    for (int h = 0; h < spec.attention.heads; ++h)
      slopes.push_back(w.middleCols(h * head_channels(spec), head_channels(spec))
                           .cwiseProduct(g.middleCols(h * head_channels(spec), head_channels(spec)))
                           .sum());
  }
  return slopes;
}

}  // namespace fluxformer::paths
