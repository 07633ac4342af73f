#include "drivers/hessian/layer_study.hpp"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "analysis/decoder/decoder_variables.hpp"
#include "analysis/hessian/hessian_variables.hpp"
#include "base/error.hpp"
#include "base/memory.hpp"
#include "base/mpi.hpp"
#include "base/progress.hpp"
#include "drivers/hessian/hessian_measures.hpp"
#include "drivers/registry.hpp"
#include "drivers/study/study.hpp"
#include "io/axes.hpp"
#include "io/layout.hpp"

namespace fluxformer {

namespace layered = decoder::variables;

namespace {

constexpr std::size_t weights = std::size(decoder::studied_weights), parts = std::size(decoder::all_parts);
constexpr const char* linear_mlp = "linear_mlp";
constexpr Index rows_at_once = 32;  // rows of the heat map between two looks at the clock

/// Lower ends of the bins and the upper end of the last one, log10.
std::vector<double> bin_edges() {
  std::vector<double> edges;
  for (int k = -60; k <= 8; ++k) edges.push_back(k / 4.0);
  return edges;
}

std::vector<io::Variable> of_all_parts(std::initializer_list<io::Variable> measures) {
  std::vector<io::Variable> all;
  for (const auto& part : hessian_parts)
    for (const auto& one : measures) all.push_back(hessian::variables::of_part(part, one));
  return all;
}

study::Contents contents_of_blocks() {
  return {{layered::weight_matrix, layered::entry_size, layered::parameter, layered::other_parameter},
          {},
          {hessian::variables::blocks, layered::block_sizes},
          of_all_parts({layered::entry_share, layered::median_entry, layered::largest_entries}),
          names::in(names::analysis, hessian::variables::group)};
}

study::Contents contents_of_scaling() {
  return {{layered::weight_matrix, layered::sigma, axes::layer},
          {},
          {},
          of_all_parts({layered::layer_norm, layered::matrix_norm}),
          names::in(names::analysis, hessian::variables::group)};
}

class LayerStudy final : public Study {
 public:
  /// Throws BadInput, on every rank, for sizes that do not fit into the memory. Collective.
  LayerStudy(LayerPlan plan, MPI_Comm comm);

  std::string describe() const override;
  /// Kind, seed and sigma, in this order, sigma fastest.
  std::vector<Place> places() const override;
  void begin(StudyRecord& record) override;
  void measure(const Place& place, Results& to) override;
  /// Adds the heat maps, too: the sizes of all entries of the Hessian, for the first seed of each kind.
  bool conclude(const Findings& found, RunFrame& frame, StudyRecord& record) override;
  /// Counts points that have overflowed.
  std::string summary(const Findings& found) const override;

 private:
  /// Sizes of the entries of the diagonal blocks.
  void entries(const decoder::LayerStudy& study, Results& to) const;
  /// Norms of the diagonal blocks.
  void norms(const std::string& kind, const decoder::LayerStudy& study, double size, Results& to) const;
  /// Number of weights of a decoder, the same for all kinds of layers.
  Index weights_of_decoder() const;
  /// Adds the heat map of a kind, rows shared over the ranks. Returns false if the run was asked to stop.
  /// Collective.
  bool add_heat_map(const std::string& kind, RunFrame& frame, Progress& progress, double& done,
                    StudyRecord& record) const;

  LayerPlan plan_;
  MPI_Comm comm_;
  std::vector<double> edges_ = bin_edges();
};

LayerStudy::LayerStudy(LayerPlan plan, MPI_Comm comm) : plan_(std::move(plan)), comm_(comm) {
  const auto width = static_cast<double>(plan_.common.shape.width);
  const auto key = "hessian.width = " + std::to_string(plan_.common.shape.width);
  if (plan_.heat_map) {
    const auto all = static_cast<double>(weights_of_decoder());
    require_memory(comm,
                   sizeof(float) * all * all * static_cast<double>(plan_.kinds.size()) / mpi::size(comm),
                   "hessian.heat_map with " + key);
  }
  // Memory for the blocks of V, Q and K: the whole matrix of one sequence and the sum over sequences, 9 d^4
  // numbers each, and the diagonal blocks.
  if (!plan_.follows_norms())
    require_memory(comm, sizeof(double) * 21 * std::pow(width, 4), key + ", for the entries of the blocks");
}

std::string LayerStudy::describe() const {
  std::ostringstream text;
  text << plan_.kinds.size() << " kind(s) of layers x " << plan_.seeds.size() << " seeds, width "
       << plan_.common.shape.width << ", " << plan_.common.sequences << " sequences of 18 tokens";
  if (plan_.follows_norms())
    text << ", " << plan_.common.shape.depth << " layer(s), " << plan_.sigmas.size()
         << " sizes of the embeddings";
  return text.str();
}

std::vector<Place> LayerStudy::places() const {
  std::vector<Place> all;
  for (const auto& kind : plan_.kinds)
    for (std::size_t seed = 0; seed < plan_.seeds.size(); ++seed) {
      const Place place{.group = kind,
                        .name = kind + ", seed " + std::to_string(plan_.seeds[seed]),
                        .index = {{axes::seed.name, seed}}};
      if (!plan_.follows_norms()) all.push_back(place);
      for (std::size_t k = 0; k < plan_.sigmas.size(); ++k) {
        std::ostringstream name;
        name << place.name << ", sigma " << plan_.sigmas[k];
        auto& with_sigma = all.emplace_back(place);
        with_sigma.name = name.str();
        with_sigma.index[layered::sigma.name] = k;
      }
    }
  return all;
}

void LayerStudy::begin(StudyRecord& record) {
  record.seeds(plan_.seeds);
  record.axis(layered::weight_matrix, 1, static_cast<long>(weights));
  if (plan_.follows_norms()) {
    record.axis(layered::sigma, plan_.sigmas);
    record.axis(axes::layer, 1, plan_.common.shape.depth);
  } else {
    record.axis(layered::entry_size, {edges_.begin(), edges_.end() - 1});
  }
}

void LayerStudy::measure(const Place& place, Results& to) {
  const auto study = plan_.study_of(place.group, plan_.seeds[place.along(axes::seed)]);
  if (plan_.follows_norms())
    norms(place.group, study, plan_.sigmas[place.along(layered::sigma)], to);
  else
    entries(study, to);
}

void LayerStudy::entries(const decoder::LayerStudy& study, Results& to) const {
  for (std::size_t part = 0; part < parts; ++part) {
    std::vector<double> shares, medians, percentiles;
    for (const auto& block : decoder::diagonal_blocks(study, decoder::all_parts[part])) {
      const auto sizes = decoder::entry_sizes(block, edges_);
      shares.insert(shares.end(), sizes.shares.begin(), sizes.shares.end());
      medians.push_back(sizes.median);
      percentiles.push_back(sizes.largest_percent);
    }
    to.put(hessian::variables::of_part(hessian_parts[part], layered::entry_share), shares);
    to.put(hessian::variables::of_part(hessian_parts[part], layered::median_entry), medians);
    to.put(hessian::variables::of_part(hessian_parts[part], layered::largest_entries), percentiles);
  }
}

void LayerStudy::norms(const std::string& kind, const decoder::LayerStudy& study, double size,
                       Results& to) const {
  const bool linear = kind == linear_mlp;
  const auto all = linear ? decoder::linear_mlp_norms(study, size) : decoder::block_norms(study, size);
  const auto each = std::ssize(all) / static_cast<Index>(parts);  // [part][layer][weight]
  auto begin = all.begin();
  for (const auto& part : hessian_parts) {
    to.put(hessian::variables::of_part(part, linear ? layered::matrix_norm : layered::layer_norm),
           {begin, begin + each});
    begin += each;
  }
}

Index LayerStudy::weights_of_decoder() const {
  const auto blocks =
      decoder::parameter_blocks(plan_.study_of(plan_.kinds.front(), plan_.seeds.front()).shape);
  return blocks.back().begin + blocks.back().size();
}

bool LayerStudy::add_heat_map(const std::string& kind, RunFrame& frame, Progress& progress, double& done,
                              StudyRecord& record) const {
  const int rank = mpi::rank(comm_), ranks = mpi::size(comm_);
  const Index all = weights_of_decoder();
  // Every rank takes consecutive rows and as many rounds as the others.
  const Index first = all * rank / ranks, end = all * (rank + 1) / ranks;
  const Index most = (all + ranks - 1) / ranks;
  const auto study = plan_.study_of(kind, plan_.seeds.front());
  std::vector<float> mine;
  for (Index from = 0; from < most; from += rows_at_once) {
    if (frame.asked_to_stop()) return false;
    collectively(comm_, [&] {
      const Index begin = std::min(first + from, end);
      const auto rows = decoder::entry_logarithms(study, begin, std::min(begin + rows_at_once, end));
      mine.insert(mine.end(), rows.begin(), rows.end());
    });
    done += static_cast<double>(std::min(rows_at_once, most - from)) / static_cast<double>(most);
    progress.update(done, kind);
  }
  record.rows(kind, layered::heat_map, std::move(mine));
  std::string names, sizes;
  for (const auto& block : decoder::parameter_blocks(study.shape)) {
    const char* const line_end = names.empty() ? "" : "\n";
    names += line_end + block.name;
    sizes += line_end + std::to_string(block.size());
  }
  record.note(kind, hessian::variables::blocks, names);
  record.note(kind, layered::block_sizes, sizes);
  return true;
}

bool LayerStudy::conclude(const Findings& found, RunFrame& frame, StudyRecord& record) {
  Study::conclude(found, frame, record);
  if (!plan_.heat_map) return true;
  const auto all = static_cast<long>(weights_of_decoder());
  record.axis(layered::parameter, 1, all);
  record.axis(layered::other_parameter, 1, all);
  Progress progress = frame.progress(static_cast<double>(plan_.kinds.size()), "heat maps");
  double done = 0;
  for (const auto& kind : plan_.kinds)
    if (!add_heat_map(kind, frame, progress, done, record)) {
      progress.finish();
      return false;
    }
  progress.finish();
  return true;
}

std::string LayerStudy::summary(const Findings& found) const {
  // An infinite number alone does not show overflow, since the logarithms of entries that are zero are
  // infinite, too; it shows in a NaN or in a norm.
  const auto bad = [this](double x) { return plan_.follows_norms() ? !std::isfinite(x) : std::isnan(x); };
  std::size_t overflown = 0;
  std::string first;
  for (std::size_t k = 0; k < found.count(); ++k) {
    const auto& results = found.of(k).results;
    if (std::ranges::none_of(results, [&](const auto& one) { return std::ranges::any_of(one.second, bad); }))
      continue;
    if (overflown++ == 0) first = found.places()[k].name;
  }
  if (overflown == 0) return {};
  return "numbers that are not finite in " + std::to_string(overflown) + " of them, the first: " + first;
}

}  // namespace

decoder::LayerStudy LayerPlan::study_of(const std::string& kind, long seed) const {
  auto study = common;
  study.shape.scores = kind == "linear" ? decoder::Scores::linear : decoder::Scores::softmax;
  if (kind.ends_with("_norm")) study.shape.norm_epsilon = 1e-5;
  if (kind == "softmax_post_norm") study.shape.norm_place = decoder::NormPlace::behind;
  study.seed = static_cast<std::uint64_t>(seed);
  return study;
}

namespace {

/// Settings of both studies.
LayerPlan common_layer_plan_of(const Settings& settings) {
  LayerPlan plan{.kinds = settings.words("hessian.layers"), .seeds = settings.integers("hessian.seeds")};
  auto& shape = plan.common.shape;
  shape.width = settings.integer("hessian.width");
  shape.hidden = settings.flag("hessian.mlp") ? 4 * shape.width : 0;
  shape.residual = settings.real("hessian.residual");
  plan.common.loss = settings.word("hessian.loss") == "squared_error" ? decoder::LogitLoss::squared_error
                                                                      : decoder::LogitLoss::cross_entropy;
  plan.common.sequences = settings.count("hessian.sequences");
  return plan;
}

}  // namespace

LayerPlan layer_blocks_plan_of(const Settings& settings) {
  auto plan = common_layer_plan_of(settings);
  plan.heat_map = settings.flag("hessian.heat_map");
  return plan;
}

LayerPlan layer_scaling_plan_of(const Settings& settings) {
  auto plan = common_layer_plan_of(settings);
  plan.sigmas = settings.reals("hessian.sigmas");
  plan.common.shape.depth = settings.count("hessian.depth");
  plan.common.probes = settings.count("hessian.norm_probes");
  return plan;
}

namespace {

const std::string attention_kinds =
    "kinds of layers: softmax, linear (attention whose weights are the logits), softmax_pre_norm (LayerNorm "
    "before attention, MLP and unembedding), softmax_post_norm (LayerNorm after both sums)";

/// Declares the keys of decoder, loss and seeds; `kinds` are the layers that there are, `doc` tells them apart.
void declare_layers(Options& options, const std::vector<std::string>& kinds, const std::string& doc) {
  options.declare("hessian.layers", std::vector<std::string>{"softmax", "linear"}, doc,
                  {.choices = kinds, .not_empty = true});
  options.declare("hessian.seeds", std::vector<long>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10},
                  "seeds of data and weights",
                  {.minimum = 0, .maximum = std::numeric_limits<int>::max(), .not_empty = true});
  options.declare("hessian.width", 16L, "width of the decoder and of its one head", {.minimum = 1});
  options.declare(
      "hessian.sequences", 64L,
      "number of training sequences (5-digit additions); the six answer digits of each enter the loss",
      {.minimum = 1});
  options.declare("hessian.mlp", true, "give each layer an MLP of four times the width");
  options.declare("hessian.residual", 1.0, "factor of the residual connection around attention");
  options.declare("hessian.loss", "cross_entropy",
                  "cross entropy of the next token, or squared error to the one-hot of the current token",
                  {.choices = {"cross_entropy", "squared_error"}});
}

void declare_hessian_blocks(Options& options) {
  declare_layers(options, {"softmax", "linear", "softmax_pre_norm", "softmax_post_norm"}, attention_kinds);
  options.declare("hessian.heat_map", false,
                  "also store the sizes of all entries of the Hessian, for the first seed of each kind of "
                  "layer: a number of 4 bytes for each pair of weights of the decoder");
  declare_study_run(options, "hessian.h5");
}

void declare_hessian_scaling(Options& options) {
  declare_layers(options, {"softmax", "linear", "softmax_pre_norm", "softmax_post_norm", linear_mlp},
                 attention_kinds +
                     ", linear_mlp (matrices without activation and a squared-error loss, "
                     "whatever hessian.mlp, .residual and .loss are)");
  options.declare("hessian.sigmas", std::vector<double>{0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10},
                  "standard deviations of the embeddings",
                  {.minimum = 1e-100, .maximum = 1e100, .not_empty = true});
  options.declare("hessian.depth", 1L, "number of layers; norms are exact for one layer, estimated for more",
                  {.unit = "layers", .minimum = 1});
  options.declare("hessian.norm_probes", 20L,
                  "number of random vectors for each norm with more than one layer", {.minimum = 1});
  declare_study_run(options, "hessian.h5");
}

}  // namespace

ExperimentEntry hessian_blocks_experiment() {
  auto entry = study_entry(
      {.name = "hessian_blocks",
       .family = "hessian",
       .sentence = "measures the sizes of the entries of the Hessian of one attention layer at random "
                   "weights, by block",
       .cites = "docs/model.md; arXiv 2410.10986",
       .declare = declare_hessian_blocks,
       .former = "hessian"},
      contents_of_blocks, [](const Settings& s, MPI_Comm comm) {
        return std::make_unique<LayerStudy>(layer_blocks_plan_of(s), comm);
      });
  // The heat map is not over seeds.
  entry.describe = [described = entry.describe,
                    group = names::in(contents_of_blocks().group, "<model>")](io::Description& description) {
    described(description);
    description.variables(group, {layered::heat_map});
  };
  return entry;
}

ExperimentEntry hessian_scaling_experiment() {
  return study_entry(
      {.name = "hessian_scaling",
       .family = "hessian",
       .sentence = "follows how the blocks of the Hessian of attention layers grow with the size of the "
                   "embeddings",
       .cites = "docs/model.md; arXiv 2410.10986",
       .declare = declare_hessian_scaling,
       .former = "hessian"},
      contents_of_scaling, [](const Settings& s, MPI_Comm comm) {
        return std::make_unique<LayerStudy>(layer_scaling_plan_of(s), comm);
      });
}

}  // namespace fluxformer
