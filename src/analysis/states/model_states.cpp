#include "analysis/states/model_states.hpp"

#include <algorithm>
#include <cmath>

#include "analysis/accumulator.hpp"
#include "model/loss.hpp"

namespace fluxformer::states {
namespace {

/// The examples of a batch at every depth of a model.
std::vector<RowMatrix> examples_by_depth(ModelProbe& probe, const Batch& batch, Examples what) {
  std::vector<RowMatrix> all;
  std::vector<double> u;
  probe.embed(batch, u);
  probe.forward(u, Keep::nothing,
                [&](int, const double* state) { all.push_back(examples_of(probe.counted(), state, what)); });
  return all;
}

std::vector<const double*> pointers_to(const std::vector<RowMatrix>& all) {
  std::vector<const double*> list;
  list.reserve(all.size());
  for (const auto& rows : all) list.push_back(rows.data());
  return list;
}

}  // namespace

std::vector<double> token_norms(const SlabContext& context, const double* u, int sample) {
  std::vector<double> norms(static_cast<std::size_t>(context.line->tokens()), std::nan(""));
  const auto rows = sample_of(context, u, sample);
  for (Eigen::Index token = 0; token < rows.rows(); ++token)
    norms[token] = rows.row(token).norm() / std::sqrt(context.width);
  return norms;
}

ModelStates measure_states(const SampleSet& samples, ModelProbe& probe, std::size_t examples) {
  const int layers = probe.spec().layers, per_layer = probe.cells() / layers;
  const auto tokens = static_cast<std::size_t>(samples.line().tokens());
  const auto depths = static_cast<std::size_t>(probe.depths());
  StateMeter all(probe.depths(), probe.counted()), ends(layers + 1, probe.counted());
  Sums correct(1);
  SampleTable shown(examples, depths * tokens);
  const auto layer_ends = static_cast<std::size_t>(layers) + 1;
  SampleTable norms(samples.size(), layer_ends), drifts(samples.size(), layer_ends), right(samples.size(), 1);
  std::vector<double> u, first, before;
  const auto look = [&](const Batch& batch) {
    probe.embed(batch, u);
    const auto& logits = probe.forward(u, Keep::nothing, [&](int row, const double* state) {
      all.add(row, state, nullptr, nullptr);
      for_each_sample(batch, [&](std::size_t b, std::size_t place) {
        if (place >= examples) return;
        const auto of_tokens = token_norms(probe.counted(), state, static_cast<int>(b));
        std::ranges::copy(of_tokens, shown.row(place) + static_cast<std::size_t>(row) * tokens);
      });
      if (row % per_layer != 0) return;
      if (row == 0) first.assign(state, state + u.size());
      ends.add(row / per_layer, state, row == 0 ? nullptr : before.data(), row == 0 ? nullptr : first.data());
      before.assign(state, state + u.size());
      for_each_sample(batch, [&](std::size_t b, std::size_t place) {
        const auto one = sample_of(probe.counted(), state, static_cast<int>(b));
        const auto embedded = sample_of(probe.counted(), first.data(), static_cast<int>(b));
        norms.row(place)[row / per_layer] = one.norm() / std::sqrt(one.size());
        drifts.row(place)[row / per_layer] = drift_of(one, embedded);
      });
    });
    const int classes = probe.spec().classes;
    for_each_sample(batch, [&](std::size_t b, std::size_t place) {
      const double* const z = logits.data() + b * static_cast<std::size_t>(classes);
      right.row(place)[0] = most_likely(z, classes) == batch.label[b] ? 1 : 0;
    });
    correct.local()[0] += correct_share(batch, logits, classes);
  };
  accumulate(samples, look, all, ends, shown, correct, norms, drifts, right);
  return {.by_row = all.measures(),
          .by_layer = ends.measures(),
          .token_norms = shown.numbers(),
          .accuracy = correct.total()[0],
          .norm_by_sample = norms.numbers(),
          .drift_by_sample = drifts.numbers(),
          .correct_by_sample = right.numbers()};
}

CkaMeter align(const SampleSet& samples, ModelProbe& a, ModelProbe& b, Examples what) {
  CkaMeter meter({a.depths(), a.spec().width}, {b.depths(), b.spec().width});
  const auto look = [&](const Batch& batch) {
    const auto of_a = examples_by_depth(a, batch, what), of_b = examples_by_depth(b, batch, what);
    meter.add(static_cast<int>(of_a.front().rows()), pointers_to(of_a), pointers_to(of_b));
  };
  accumulate(samples, look, meter);
  return meter;
}

}  // namespace fluxformer::states
