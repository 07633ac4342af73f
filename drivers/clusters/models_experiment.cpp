// `clusters_models`: do the tokens of trained models cluster with depth, as those of cluster theory do?

#include <algorithm>
#include <cmath>
#include <numbers>
#include <sstream>
#include <string>
#include <vector>

#include "analysis/clusters/cluster_variables.hpp"
#include "analysis/clusters/head_maps.hpp"
#include "analysis/clusters/token_clusters.hpp"
#include "base/error.hpp"
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
  void put_found(const ModelSpec& spec, const clusters::TokenClusters& found, Results& to) const;
  void put_heads(const Parameters& parameters, Results& to) const;

  clusters::TokenClusterSettings settings_;
  std::uint64_t draws_;
  int layers_ = 1, heads_ = 1;  // the most of any model
};

ClustersOfModels::ClustersOfModels(const Settings& settings, MPI_Comm comm)
    : ModelStudy(settings, comm, {.head = ModelNeeds::Head::none, .transformer = false}),
      settings_{.betas = settings.reals("clusters.betas"),
                .deltas = settings.reals("clusters.deltas"),
                .nulls = true,
                .seed = static_cast<std::uint64_t>(settings.integer("run.seed"))},
      draws_(settings_.seed) {
  for (const auto& name : problem().models().names()) {
    const auto& spec = problem().models().at(0, name).parameters.spec;
    layers_ = std::max(layers_, spec.layers);
    heads_ = std::max(heads_, spec.attention.heads);
  }
}

study::Contents ClustersOfModels::contents() {
  using namespace clusters::variables::of_models;
  return compare::with_models({{stored::beta, stored::token_delta, stored::centring, axes::layer, axes::head},
                               {},
                               {},
                               {number_2,
                                number_2_normal,
                                number_2_permuted,
                                number_2_across,
                                number_2_untrained,
                                number_2_uniform,
                                components,
                                compact_share,
                                plateau,
                                plateau_share,
                                plateau_share_untrained,
                                effective_rank,
                                effective_rank_normal,
                                effective_rank_untrained,
                                leaders,
                                leader_angle,
                                log_energy,
                                energy_change,
                                energy_change_untrained,
                                energy_falls,
                                cosine_within,
                                cosine_between,
                                left_out,
                                escape,
                                escape_error,
                                escape_untrained,
                                value_radius,
                                value_scale,
                                value_mismatch,
                                antisymmetry,
                                least_eigenvalue}});
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

void ClustersOfModels::put_heads(const Parameters& parameters, Results& to) const {
  using namespace clusters::variables::of_models;
  const auto maps = clusters::head_maps(parameters);
  const auto put = [&](const io::Variable& variable, double clusters::HeadMap::*number) {
    std::vector<double> own;
    own.reserve(maps.size());
    for (const auto& map : maps) own.push_back(map.*number);
    to.put(variable, on_axes(parameters.spec, own));
  };
  put(value_radius, &clusters::HeadMap::value_radius);
  put(value_scale, &clusters::HeadMap::value_scale);
  put(value_mismatch, &clusters::HeadMap::value_mismatch);
  put(antisymmetry, &clusters::HeadMap::antisymmetry);
  put(least_eigenvalue, &clusters::HeadMap::least_eigenvalue);
}

void ClustersOfModels::put_found(const ModelSpec& spec, const clusters::TokenClusters& found,
                                 Results& to) const {
  using namespace clusters::variables::of_models;
  to.put(number_2, found.number_2);
  to.put(number_2_normal, found.number_2_normal);
  to.put(number_2_permuted, found.number_2_permuted);
  to.put(number_2_across, found.number_2_across);
  to.put(number_2_uniform, found.number_2_uniform);
  to.put(components, found.components);
  to.put(compact_share, found.compact_share);
  to.put(plateau, found.plateau);
  to.put(plateau_share, found.plateau_share);
  to.put(effective_rank, found.effective_rank);
  to.put(effective_rank_normal, found.effective_rank_normal);
  to.put(leaders, found.leaders);
  to.put(leader_angle, found.leader_angle);
  to.put(log_energy, on_axes(spec, found.log_energy));
  to.put(energy_change, on_axes(spec, found.energy_change));
  to.put(energy_falls, on_axes(spec, found.energy_falls));
  to.put(cosine_within, found.cosine_within);
  to.put(cosine_between, found.cosine_between);
  to.put(left_out, found.left_out);
  to.put(escape, found.escape);
  to.put(escape_error, found.escape_error);
}

void ClustersOfModels::measure_model(std::size_t seed, const std::string& name, Results& to) {
  using namespace clusters::variables::of_models;
  const auto& model = problem().models().at(seed, name);
  const auto own = probe(seed, name);
  const auto found = clusters::measure_token_clusters(problem().input_of(name).samples(), *own, settings_);
  auto without_nulls = settings_;
  without_nulls.nulls = false;
  const auto fresh = problem().probe(untrained(model, draws_, problem().models().seeds()[seed]));
  const auto before =
      clusters::measure_token_clusters(problem().input_of(name).samples(), *fresh, without_nulls);
  put_found(model.parameters.spec, found, to);
  to.put(number_2_untrained, before.number_2);
  to.put(plateau_share_untrained, before.plateau_share);
  to.put(effective_rank_untrained, before.effective_rank);
  to.put(energy_change_untrained, on_axes(model.parameters.spec, before.energy_change));
  to.put(escape_untrained, before.escape);
  put_heads(model.parameters, to);
  // Of centred tokens, at the middle beta.
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
