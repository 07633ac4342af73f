#include "analysis/derivatives/loss_gradients.hpp"

#include <algorithm>
#include <cmath>

#include "analysis/accumulator.hpp"
#include "analysis/state_examples.hpp"
#include "model/tasks/task.hpp"

namespace fluxformer::derivatives {

namespace {

/// Sums of one depth.
namespace gradient_sum {
enum : Index { squares, samples, per_depth };
}

}  // namespace

GradientAccumulator::GradientAccumulator(int depths, const SlabContext& context)
    : Accumulator(depths * gradient_sum::per_depth), context_(context) {
  need_whole_line(*context.line, "gradients by depth over samples");
}

void GradientAccumulator::add(int depth, const double* u_bar) {
  using namespace gradient_sum;
  double* const s = local() + depth * per_depth;
  for (int b = 0; b < context_.samples; ++b) {
    const auto sample = sample_of(context_, u_bar, b);
    if (sample.rows() == 0) continue;
    s[squares] += sample.squaredNorm();
    s[samples] += 1;
  }
}

GradientResult GradientAccumulator::result() const {
  using namespace gradient_sum;
  GradientResult m;
  const auto& sums = total();
  // norm_i = (mean of |d loss / d u_i|^2 over samples)^(1/2),  ratio_i = norm_i / norm_{i+1}
  for (Index at = 0; at < std::ssize(sums); at += per_depth)
    m.norm.push_back(std::sqrt(sums[at + squares] / sums[at + samples]));
  for (std::size_t i = 0; i < m.norm.size(); ++i)
    m.ratio.push_back(i + 1 < m.norm.size() ? m.norm[i] / m.norm[i + 1] : 1);
  const auto [least, most] = std::minmax_element(m.norm.begin(), m.norm.end());
  m.disparity = *most / *least;
  m.samples = std::lround(sums[samples]);
  return m;
}

std::vector<GroupNorm> group_norms(const ParameterLayout& layout, std::span<const double> gradient) {
  std::vector<GroupNorm> groups;
  for (const auto& view : layout.views()) {
    if (groups.empty() || groups.back().group != view.group) groups.push_back({view.group});
    auto& group = groups.back();
    group.parameters += view.size();
    // (sum g^2)^(1/2) by hypot, because squares may leave the range of numbers.
    for (const double g : gradient.subspan(view.offset, view.size())) group.norm = std::hypot(group.norm, g);
  }
  return groups;
}

namespace {

/// Writes |x_i| of each sample of a batch into its row of a table over samples and rows i.
void put_norms(const Batch& batch, const SlabContext& context, int i, const double* x, SampleTable& to) {
  for_each_sample(batch, [&](Index b, Index place) { to.row(place)[i] = sample_of(context, x, b).norm(); });
}

/// Columns of a table at which layers end.
std::vector<double> at_ends_of_layers(const std::vector<double>& table, Index rows,
                                      const std::vector<int>& layer_rows) {
  std::vector<double> some;
  for (Index at = 0; at < std::ssize(table); ++at)
    if (layer_ending_at(static_cast<int>(at % rows), layer_rows) >= 0) some.push_back(table[at]);
  return some;
}

/// Root mean square of each column.
std::vector<double> root_mean_squares(const std::vector<double>& table, Index columns) {
  std::vector<double> all(columns, 0.0);
  for (Index at = 0; at < std::ssize(table); ++at) all[at % columns] += table[at] * table[at];
  for (double& one : all) one = std::sqrt(one * columns / std::ssize(table));
  return all;
}

/// The batch with weights of which each sample has its own loss, not divided by the number of samples; fillers keep
/// none.
Batch of_own_losses(Batch batch, Index samples) {
  for (double& weight : batch.weight) weight = weight > 0 ? 1 : 0;
  for (auto& word : batch.targets) word.weight *= static_cast<double>(samples);
  return batch;
}

}  // namespace

LossGradients loss_gradients(const SampleSet& samples, ModelProbe& probe) {
  const auto& parameters = probe.parameters();
  const int layers = probe.spec().layers, rows = probe.depths();
  const auto layer_rows = probe.layer_rows();
  GradientAccumulator all(probe.depths(), probe.counted()), ends(layers + 1, probe.counted());
  const auto task = make_task(parameters, probe.context(), cross_entropy_of(probe.spec()), probe.precision());
  const auto tape = task->make_tape();
  std::vector<double> u, u_bar, flat(parameters.values.size());
  Sums sum(flat.size()), loss(1);
  SampleTable states(samples.size(), rows), slopes(samples.size(), rows);
  const auto look = [&](const Batch& batch) {
    probe.embed(batch, u);
    probe.forward(u, Keep::activations, [&](int row, const double* state) {
      put_norms(batch, probe.counted(), row, state, states);
    });
    // Each sample seeds the adjoint with the gradient of its own loss: sums over samples are divided at the
    // end.
    u_bar.resize(u.size());
    std::ranges::fill(flat, 0.0);
    loss.local()[0] += task->gradient(of_own_losses(batch, samples.size()), u.data(), u_bar.data(), flat,
                                      *tape, Task::KeepFor::nothing)
                           .loss;
    probe.pull(u_bar, flat, [&](int row, const double* bar) {
      all.add(row, bar);
      put_norms(batch, probe.counted(), row, bar, slopes);
      if (const int layer = layer_ending_at(row, layer_rows); layer >= 0) ends.add(layer, bar);
    });
    probe.embed_adjoint(batch, u_bar, flat);
    double* const total = sum.local();
    for (std::size_t j = 0; j < flat.size(); ++j) total[j] += flat[j];
  };
  accumulate(samples, look, all, ends, sum, loss, states, slopes);
  auto sizes = slopes.numbers();  // |u| |d loss / d u|
  for (std::size_t at = 0; at < sizes.size(); ++at) sizes[at] *= states.numbers()[at];
  LossGradients found{.loss = loss.total()[0] / static_cast<double>(samples.size()),
                      .by_row = all.result(),
                      .by_layer = ends.result(),
                      .parameters = sum.total(),
                      .size = root_mean_squares(sizes, rows),
                      .norm_by_sample = at_ends_of_layers(slopes.numbers(), rows, layer_rows),
                      .size_by_sample = at_ends_of_layers(sizes, rows, layer_rows)};
  for (double& g : found.parameters) g /= samples.size();
  return found;
}

}  // namespace fluxformer::derivatives
