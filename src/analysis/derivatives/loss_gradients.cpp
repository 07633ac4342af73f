#include "analysis/derivatives/loss_gradients.hpp"

#include "analysis/accumulator.hpp"
#include "model/embedding.hpp"
#include "model/loss.hpp"

namespace fluxformer::derivatives {

LossGradients loss_gradients(const SampleSet& samples, ModelProbe& probe) {
  const auto& parameters = probe.parameters();
  const int layers = probe.spec().layers, cells_of_layer = probe.cells() / layers;
  const auto classes = static_cast<std::size_t>(probe.spec().classes);
  GradientMeter all(probe.depths(), probe.counted()), ends(layers + 1, probe.counted());
  std::vector<double> u, u_bar, logits_bar, flat(parameters.values.size());
  Sums sum(flat.size()), loss(1);
  const auto look = [&](const Batch& batch) {
    probe.embed(batch, u);
    const auto& logits = probe.forward(u, Keep::activations);
    logits_bar.resize(logits.size());
    for (std::size_t b = 0; b < batch.label.size(); ++b) {
      const double share = batch.weight[b];  // 1/N, or 0 for a filler
      const double of_sample = loss_of({}, logits.data() + b * classes, static_cast<int>(classes),
                                       batch.label[b], share > 0 ? 1 : 0, logits_bar.data() + b * classes);
      if (share > 0) loss.local()[0] += share * of_sample;
    }
    probe.adjoint(logits_bar, u_bar, flat, [&](int row, const double* bar) {
      all.add(row, bar);
      if (row % cells_of_layer == 0) ends.add(row / cells_of_layer, bar);
    });
    embed_adjoint(parameters, probe.counted(), batch.input.data(), u_bar.data(), flat);
    double* const total = sum.local();
    for (std::size_t j = 0; j < flat.size(); ++j) total[j] += flat[j];
  };
  accumulate(samples, look, all, ends, sum, loss);
  LossGradients found{loss.total()[0], all.measures(), ends.measures(), sum.total()};
  for (double& g : found.parameters) g /= static_cast<double>(samples.size());
  return found;
}

}  // namespace fluxformer::derivatives
