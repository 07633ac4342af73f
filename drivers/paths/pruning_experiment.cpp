// `pruning`: attention heads of trained Transformers, silenced by the theory of attention paths and by usual
// rules.

#include <cmath>
#include <string>

#include "analysis/accumulator.hpp"
#include "analysis/paths/head_pruning.hpp"
#include "analysis/paths/task_theory.hpp"
#include "analysis/state_examples.hpp"
#include "base/error.hpp"
#include "base/mpi.hpp"
#include "drivers/compare/model_study.hpp"
#include "drivers/paths/pruning_record.hpp"
#include "drivers/registry.hpp"
#include "model/tasks/task.hpp"

namespace fluxformer {
namespace {

void declare_pruning(Options& options) {
  declare_compared(options);
  options.declare("pruning.examples", 400L,
                  "number P of further samples on which heads are scored; their classes are split into two "
                  "halves for the theory of attention paths",
                  {.unit = "samples", .minimum = 4});
  options.declare("pruning.width", 10.0, "width N in the theory whose order parameters give the scores",
                  {.minimum = 1e-6});
  options.declare("pruning.temperature", 0.5, "noise variance T of the targets in the theory",
                  {.minimum = 1e-12});
  options.declare("pruning.most_paths", 64L,
                  "largest number of attention paths (product of the heads of all layers): the cost of the "
                  "theory grows with its square",
                  {.minimum = 1});
  options.declare("pruning.random_orders", 10L,
                  "number of random orders in which heads are silenced, in addition to the orders by scores",
                  {.minimum = 0, .maximum = 1000});
  declare_study_run(options, "pruning.h5");
}

using namespace paths;
using identifiability::LayerHeads;
using identifiability::ModelHeads;

class Pruning final : public ModelStudy {
 public:
  Pruning(const Settings& settings, MPI_Comm comm);
  static study::Contents contents();

 protected:
  void add_axes(StudyRecord& record) override;
  void measure_model(std::size_t seed, const std::string& name, Results& to) override;

 private:
  /// Attention paths of the further samples, and mean entropies and slopes of the heads on them.
  struct HeadStatistics {
    PathTask task;
    std::vector<double> entropies = {}, sensitivities = {};
  };
  HeadStatistics head_statistics(const Parameters& parameters) const;
  double accuracy(const Parameters& parameters) const;

  SampleSet further_;
  double width_, temperature_;
  std::size_t random_;
  std::vector<int> heads_;
};

Pruning::Pruning(const Settings& settings, MPI_Comm comm)
    : ModelStudy(settings, comm),
      further_(problem().other_samples(settings.integer("pruning.examples"), "pruning.examples")),
      width_(settings.real("pruning.width")),
      temperature_(settings.real("pruning.temperature")),
      random_(static_cast<std::size_t>(settings.count("pruning.random_orders"))) {
  if (problem().models().names() != std::vector<std::string>{"transformer"})
    throw BadInput("pruning needs models.transformer, and no other model: heads belong to whole layers");
  problem().require_classes("the accuracy");
  problem().require_labels("the worth of a head", further_);
  const auto& spec = problem().models().at(0, "transformer").parameters.spec;
  if (spec.pooling != Pooling::mean)
    throw BadInput("pruning needs a model that reads the mean over tokens, not model.pooling = " +
                   to_word(spec.pooling));
  heads_.assign(static_cast<std::size_t>(spec.layers), spec.attention.heads);
  if (path_count(heads_) > settings.count("pruning.most_paths"))
    throw BadInput("pruning.most_paths = " + std::to_string(settings.count("pruning.most_paths")) +
                   ": the model has " + std::to_string(path_count(heads_)) + " attention paths, " +
                   std::to_string(spec.attention.heads) + " heads in each of " + std::to_string(spec.layers) +
                   " layers");
}

study::Contents Pruning::contents() {
  auto coordinates = prune_coordinates();
  coordinates.insert(coordinates.end(), {axes::test_sample, axes::layer, axes::head});
  return compare::with_models({coordinates, prune_notes(), {}, prune_measures()});
}

void Pruning::add_axes(StudyRecord& record) {
  record.samples(problem().members());
  record.axis(axes::layer, 1, static_cast<long>(heads_.size()));
  record.axis(axes::head, 0, heads_.front() - 1);
  add_pruning_axes(record, heads_, random_, {width_, temperature_});
}

Pruning::HeadStatistics Pruning::head_statistics(const Parameters& parameters) const {
  const auto samples = further_.with(further_.members(), 1);
  const auto probe = problem().probe(parameters, 1);
  ModelHeads heads(*probe);
  const auto paths = static_cast<std::size_t>(path_count(heads_)), all = all_heads(heads_).size();
  const auto width = static_cast<std::size_t>(parameters.spec.width);
  SampleTable inputs(samples.size(), paths * width), worth(samples.size(), 2 * all),
      targets(samples.size(), 1);
  const int half = samples.data().classes() / 2;
  std::vector<double> u;
  accumulate(
      samples,
      [&](const Batch& batch) {
        for_each_sample(batch, [&](std::size_t b, std::size_t place) {
          heads.show(batch);
          std::vector<LayerHeads> layers;
          layers.reserve(heads_.size());
          for (int l = 1; l <= heads.layers(); ++l) {
            heads.select(l);
            layers.push_back(heads.of_sample(static_cast<int>(b)));
          }
          probe->embed(batch, u);
          const auto xi =
              attentioned_states(layers, sample_of(probe->counted(), u.data(), static_cast<int>(b)));
          std::copy_n(xi.data(), xi.size(), inputs.row(place));
          std::ranges::copy(row_entropies(layers), worth.row(place));
          // |d loss / d gate| of each head: the first-order change of the loss when the head is silenced.
          std::ranges::transform(gate_slopes(*probe, batch), worth.row(place) + all,
                                 [](double slope) { return std::abs(slope); });
          // Two groups of classes as targets of the theory: -1 for the first half, 1 for the second.
          *targets.row(place) = batch.label[b] < half ? -1 : 1;
        });
      },
      inputs, worth, targets);
  const Index rows = samples.size();
  HeadStatistics statistics{.task = {.heads = heads_, .dimension = parameters.spec.width}};
  statistics.task.path_names.resize(paths);
  auto& known = statistics.task.train;
  known.inputs =
      Eigen::Map<const RowMatrix>(inputs.numbers().data(), rows, static_cast<Eigen::Index>(paths * width));
  // Scales the states so that the root mean square of all components is 1.
  known.inputs *= std::sqrt(static_cast<double>(known.inputs.size())) / known.inputs.norm();
  known.targets = Eigen::Map<const Eigen::VectorXd>(targets.numbers().data(), rows);
  for (std::size_t h = 0; h < all; ++h) {
    statistics.entropies.push_back(worth.mean(h));
    statistics.sensitivities.push_back(worth.mean(all + h));
  }
  return statistics;
}

double Pruning::accuracy(const Parameters& parameters) const {
  const auto& samples = problem().samples();
  const auto probe = problem().probe(parameters);
  Sums right(1);
  std::vector<double> u;
  accumulate(
      samples,
      [&](const Batch& batch) {
        probe->embed(batch, u);
        right.local()[0] += correct_share(batch, probe->forward(u), samples.data().classes());
      },
      right);
  return right.total()[0];
}

void Pruning::measure_model(std::size_t seed, const std::string& name, Results& to) {
  const auto& parameters = problem().models().at(seed, name).parameters;
  const auto statistics = head_statistics(parameters);
  HeadWorth worth{.theory = std::vector<double>(statistics.entropies.size()),
                  .entropies = statistics.entropies,
                  .sensitivities = statistics.sensitivities};
  // All ranks take rank 0's scores: orders must not differ by round-off.
  const int rank = mpi::rank(problem().comm());
  collectively(problem().comm(), [&] {
    if (rank != 0) return;
    const TaskTheory theory(statistics.task);
    worth.theory =
        head_scores(theory.solve(network_of_width(heads_, width_), temperature_).order.u.front(), heads_);
  });
  for (auto* scores : {&worth.theory, &worth.entropies, &worth.sensitivities})
    check_mpi(MPI_Bcast(scores->data(), static_cast<int>(scores->size()), MPI_DOUBLE, 0, problem().comm()));
  const auto pruned = [&](std::span<const HeadPlace> lost) {
    auto left = parameters;
    silence(left, lost);
    return accuracy(left);
  };
  const auto curves = pruning_curves(
      worth, heads_, static_cast<std::uint64_t>(problem().models().seeds()[seed]), random_, pruned);
  put_pruning(curves, "seed " + std::to_string(problem().models().seeds()[seed]), to);
}

}  // namespace

ExperimentEntry pruning_experiment() {
  return study_entry<Pruning>(
      {.name = "pruning",
       .family = "paths",
       .sentence = "silences attention heads of trained Transformers, one after another, by the theory "
                   "of attention paths and by usual rules",
       .cites = "docs/model.md; arXiv 2405.15926; arXiv 1905.10650",
       .declare = declare_pruning});
}

}  // namespace fluxformer
