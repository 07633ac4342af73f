#include "analysis/attention/layer_attention.hpp"

#include "analysis/accumulator.hpp"
#include "base/index.hpp"

namespace fluxformer::attention {

LayerAttention::LayerAttention(ModelProbe& probe)
    : probe_(probe), rows_(probe.layer_rows()), entries_(probe.spec().layers) {}

void LayerAttention::show(const Batch& batch) {
  probe_.embed(batch, u_);
  probe_.forward(u_, Keep::nothing, [&](int row, const double* u) {
    // Attention of layer l acts on the state at which the layer begins.
    const int before = layer_ending_at(row, rows_);
    if (before >= 0 && before < layers()) entries_[before].assign(u, u + u_.size());
  });
}

const std::vector<double>& LayerAttention::of_layer(int l) {
  probe_.attention(rows_[l - 1], entries_[l - 1].data(), k_);
  return k_;
}

ComparedAttention compare_attention(const SampleSet& samples, ModelProbe& t,
                                    const std::vector<ModelProbe*>& others, std::uint64_t seed,
                                    const std::vector<HeadMatch>& pairs) {
  const int tokens = samples.line().tokens();
  LayerAttention first(t);
  std::vector<LayerAttention> second;
  ComparedAttention found;
  auto& meters = found.scores;
  auto& heads = found.heads;
  heads.emplace_back(HeadAccumulator::Shape{first.layers(), first.heads(), tokens});
  for (auto* probe : others) {
    second.emplace_back(*probe);
    const AttentionAccumulator::Shape shape{first.layers(), first.heads(), second.back().heads()};
    if (pairs.empty())
      meters.emplace_back(shape, seed);
    else
      meters.emplace_back(shape, seed, MatchedScores(samples.size(), pairs[meters.size()]));
    heads.emplace_back(HeadAccumulator::Shape{first.layers(), second.back().heads(), tokens});
  }
  // Each head has n^2 weights, [query][key] with padding; a sample has all its heads in a row.
  const Index square = Index{tokens} * tokens;
  const auto compare_batch = [&](const Batch& batch) {
    first.show(batch);
    for (auto& one : second) one.show(batch);
    for (int l = 0; l < first.layers(); ++l) {
      const auto keys = [&](Index b) {
        return first.keys(l + 1, tokens, batch.length.empty() ? tokens : batch.length[b]);
      };
      const auto& of_t = first.of_layer(l + 1);
      const auto t_of = [&](Index b) { return of_t.data() + b * first.heads() * square; };
      for_each_sample(batch, [&](Index b, Index) { heads[0].add(l, keys(b), t_of(b)); });
      for (Index k = 0; k < std::ssize(second); ++k) {
        const auto& of_p = second[k].of_layer(l + 1);
        for_each_sample(batch, [&](Index b, Index place) {
          const double* const p = of_p.data() + b * second[k].heads() * square;
          heads[k + 1].add(l, keys(b), p);
          // A token that sees only itself does so with the weight 1, whatever the model.
          if (keys(b).compared_queries() == 0)
            meters[k].leave_out(place);
          else
            meters[k].add(samples.member(batch.key[b]), l, keys(b), t_of(b), p, place);
        });
      }
    }
  };
  accumulate(samples, compare_batch, meters, heads);
  return found;
}

std::vector<double> attention_map(const SampleSet& samples, ModelProbe& probe) {
  LayerAttention attention(probe);
  const Index n = samples.line().tokens();
  Sums map(attention.layers() * n * n);
  const auto look = [&](const Batch& batch) {
    attention.show(batch);
    for (int l = 0; l < attention.layers(); ++l) {
      double* const of_layer = map.local() + l * n * n;
      const auto& k = attention.of_layer(l + 1);
      // (1/heads) sum_h k_h(x,y) of sample 0 of the batch; all others are fillers.
      for (Index j = 0; j < attention.heads() * n * n; ++j) of_layer[j % (n * n)] += k[j] / attention.heads();
    }
  };
  accumulate(samples.with({samples.members().front()}, samples.capacity()), look, map);
  return map.total();
}

HeadMatch match_layers(const AttentionAccumulator& validation, RowScore by) {
  HeadMatch pairs;
  for (int l = 0; l < validation.shape().layers; ++l) pairs.push_back(match_heads(validation, l, by));
  return pairs;
}

HeadMatch heads_in_order(const AttentionAccumulator::Shape& shape) {
  std::vector<int> heads(shape.heads_t, -1);
  // Heads of T beyond those of P have no partner.
  for (int h = 0; h < std::min(shape.heads_t, shape.heads_p); ++h) heads[h] = h;
  return HeadMatch(shape.layers, heads);
}

}  // namespace fluxformer::attention
