// `clusters_models`: do the tokens of trained models cluster with depth, as those of cluster theory do?

#include <algorithm>
#include <iterator>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "analysis/clusters/cluster_variables.hpp"
#include "analysis/clusters/head_maps.hpp"
#include "analysis/clusters/token_clusters.hpp"
#include "base/statistics.hpp"
#include "drivers/compare/model_study.hpp"
#include "drivers/registry.hpp"

namespace fluxformer {
namespace {

namespace stored = clusters::variables;

void declare_clusters_models(Options& options) {
  declare_compared(options);
  declare_study_run(options, "clusters_models.h5");
  options.declare("clusters.betas", std::vector<double>{1, 2, 4, 8, 16, 32, 64},
                  "inverse temperatures of the soft numbers of clusters: tokens closer than about "
                  "1 / sqrt(beta) count as one",
                  {.minimum = 0, .maximum = 1e6, .not_empty = true});
  options.declare(
      "clusters.deltas", std::vector<double>{0.1, 0.3, 1},
      "angles up to which two tokens belong to the same component, in radians, below pi; the middle "
      "one is the radius of leaders",
      {.minimum = 1e-6, .maximum = 3.14, .not_empty = true});
}

namespace of_models = clusters::variables::of_models;
using TokenNumbers = clusters::TokenClusters;

/// The numbers of tokens that are stored: of the trained model, or of the untrained one.
struct StoredNumbers {
  const io::Variable& variable;
  std::vector<double> TokenNumbers::*numbers;
  enum { trained, untrained } model = trained;
};
const StoredNumbers numbers_of_tokens[] = {
    {of_models::number_2, &TokenNumbers::number_2},
    {of_models::number_2_normal, &TokenNumbers::number_2_normal},
    {of_models::number_2_permuted, &TokenNumbers::number_2_permuted},
    {of_models::number_2_across, &TokenNumbers::number_2_across},
    {of_models::number_2_untrained, &TokenNumbers::number_2, StoredNumbers::untrained},
    {of_models::number_2_uniform, &TokenNumbers::number_2_uniform},
    {of_models::components, &TokenNumbers::components},
    {of_models::compact_share, &TokenNumbers::compact_share},
    {of_models::plateau, &TokenNumbers::plateau},
    {of_models::plateau_share, &TokenNumbers::plateau_share},
    {of_models::plateau_share_untrained, &TokenNumbers::plateau_share, StoredNumbers::untrained},
    {of_models::effective_rank, &TokenNumbers::effective_rank},
    {of_models::effective_rank_normal, &TokenNumbers::effective_rank_normal},
    {of_models::effective_rank_untrained, &TokenNumbers::effective_rank, StoredNumbers::untrained},
    {of_models::leaders, &TokenNumbers::leaders},
    {of_models::leader_angle, &TokenNumbers::leader_angle},
    {of_models::log_energy, &TokenNumbers::log_energy},
    {of_models::energy_change, &TokenNumbers::energy_change},
    {of_models::energy_change_untrained, &TokenNumbers::energy_change, StoredNumbers::untrained},
    {of_models::energy_falls, &TokenNumbers::energy_falls},
    {of_models::cosine_within, &TokenNumbers::cosine_within},
    {of_models::cosine_between, &TokenNumbers::cosine_between},
    {of_models::left_out, &TokenNumbers::left_out},
    {of_models::escape, &TokenNumbers::escape},
    {of_models::escape_error, &TokenNumbers::escape_error},
    {of_models::escape_untrained, &TokenNumbers::escape, StoredNumbers::untrained}};

/// The numbers of heads that are stored.
const std::pair<const io::Variable&, double clusters::HeadMap::*> numbers_of_heads[] = {
    {of_models::value_radius, &clusters::HeadMap::value_radius},
    {of_models::value_scale, &clusters::HeadMap::value_scale},
    {of_models::value_mismatch, &clusters::HeadMap::value_mismatch},
    {of_models::antisymmetry, &clusters::HeadMap::antisymmetry},
    {of_models::least_eigenvalue, &clusters::HeadMap::least_eigenvalue}};

class ClustersOfModels final : public ModelStudy {
 public:
  ClustersOfModels(const Settings& settings, MPI_Comm comm);
  static study::Contents contents();

 protected:
  void add_axes(StudyRecord& record) override;
  void measure_model(std::size_t seed, const std::string& name, Results& to) override;

 private:
  /// Numbers [layer][head] of a model on the axes of all models; NaN beyond its own.
  std::vector<double> on_axes(const ModelSpec& spec, const std::vector<double>& own) const;

  clusters::TokenClusterSettings settings_;
  int layers_ = 1, heads_ = 1;  // the most of any model
};

ClustersOfModels::ClustersOfModels(const Settings& settings, MPI_Comm comm)
    : ModelStudy(settings, comm, {.head = ModelNeeds::Head::none, .transformer = false}),
      settings_{.betas = settings.reals("clusters.betas"),
                .deltas = settings.reals("clusters.deltas"),
                .nulls = true,
                .seed = static_cast<std::uint64_t>(settings.integer("run.seed"))} {
  for (const auto& name : problem().models().names()) {
    const auto& spec = problem().models().at(0, name).parameters.spec;
    layers_ = std::max(layers_, spec.layers);
    heads_ = std::max(heads_, spec.attention.heads);
  }
}

study::Contents ClustersOfModels::contents() {
  std::vector<io::Variable> measures;
  measures.reserve(std::size(numbers_of_tokens) + std::size(numbers_of_heads));
  for (const auto& stored_numbers : numbers_of_tokens) measures.push_back(stored_numbers.variable);
  for (const auto& [variable, number] : numbers_of_heads) measures.push_back(variable);
  return compare::with_models(
      {{stored::beta, stored::token_delta, stored::centring, axes::layer, axes::head}, {}, {}, measures});
}

void ClustersOfModels::add_axes(StudyRecord& record) {
  record.axis(stored::beta, settings_.betas);
  record.axis(stored::token_delta, settings_.deltas);
  record.axis(stored::centring, 0, clusters::centrings - 1);
  record.axis(axes::layer, 1, layers_);
  record.axis(axes::head, 1, heads_);
}

std::vector<double> ClustersOfModels::on_axes(const ModelSpec& spec, const std::vector<double>& own) const {
  std::vector<double> values(Index{layers_} * heads_, missing_value);
  for (int layer = 0; layer < spec.layers; ++layer)
    for (int head = 0; head < spec.attention.heads; ++head)
      values[Index{layer} * heads_ + head] = own[Index{layer} * spec.attention.heads + head];
  return values;
}

void ClustersOfModels::measure_model(std::size_t seed, const std::string& name, Results& to) {
  const auto& model = problem().models().at(seed, name);
  const auto& spec = model.parameters.spec;
  const auto own = probe(seed, name);
  const auto found = clusters::measure_token_clusters(problem().input_of(name).samples(), *own, settings_);
  auto without_nulls = settings_;
  without_nulls.nulls = false;
  const auto fresh = problem().probe(untrained(model, settings_.seed, problem().models().seeds()[seed]));
  const auto before =
      clusters::measure_token_clusters(problem().input_of(name).samples(), *fresh, without_nulls);
  for (const auto& [variable, numbers, of] : numbers_of_tokens) {
    const auto& values = (of == StoredNumbers::untrained ? before : found).*numbers;
    to.put(variable, variable.axes.front() == axes::layer.name ? on_axes(spec, values) : values);
  }
  const auto maps = clusters::head_maps(model.parameters);
  for (const auto& [variable, number] : numbers_of_heads) {
    std::vector<double> values;
    values.reserve(maps.size());
    for (const auto& map : maps) values.push_back(map.*number);
    to.put(variable, on_axes(spec, values));
  }
  // In words: centred tokens, at the middle beta.
  const std::size_t betas = settings_.betas.size(), middle = betas / 2;
  const auto of_depth = [&](const std::vector<double>& numbers, std::size_t depth) {
    return numbers[(depth * clusters::centrings + 1) * betas + middle];
  };
  const std::size_t last = found.number_2.size() / (clusters::centrings * betas) - 1;
  std::ostringstream text;
  text << name << " N_2 of centred tokens at beta " << settings_.betas[middle] << ": "
       << of_depth(found.number_2, 0) << " to " << of_depth(found.number_2, last) << ", untrained "
       << of_depth(before.number_2, last);
  to.say(text.str());
}

}  // namespace

ExperimentEntry clusters_models_experiment() {
  return study_entry<ClustersOfModels>(
      {.name = "clusters_models",
       .family = "clusters",
       .sentence = "asks whether the tokens of trained models cluster with depth, beside null controls",
       .cites = "docs/model.md; arXiv 2312.10794; arXiv 2410.06833; Roy, Vetterli, EUSIPCO 2007, 606",
       .declare = declare_clusters_models});
}

}  // namespace fluxformer
