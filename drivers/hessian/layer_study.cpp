#include "drivers/hessian/layer_study.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "analysis/decoder/decoder_variables.hpp"
#include "analysis/decoder/layer_measures.hpp"
#include "analysis/hessian/hessian_variables.hpp"
#include "base/error.hpp"
#include "base/memory.hpp"
#include "base/mpi.hpp"
#include "base/progress.hpp"
#include "drivers/hessian/hessian_measures.hpp"
#include "drivers/study/study.hpp"
#include "io/axes.hpp"

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

class LayerStudy final : public Study {
 public:
  /// Throws BadInput, on every rank, for keys that contradict each other and for sizes that do not fit into
  /// the memory. Collective.
  LayerStudy(const Settings& settings, MPI_Comm comm);

  std::string describe() const override;
  /// Kind, seed and sigma, in this order, sigma fastest.
  std::vector<Place> places() const override;
  std::vector<io::Variable> measures() const override { return layer_study_measures(); }
  void begin(StudyRecord& record) override;
  void measure(const Place& place, Results& to) override;
  /// Adds the heat maps, too: the sizes of all entries of the Hessian, for the first seed of each kind.
  bool conclude(const Findings& found, RunFrame& frame, StudyRecord& record) override;
  /// Counts points that have overflowed.
  std::string summary(const Findings& found) const override;

 private:
  /// The study of a decoder of a kind, with weights and data of a seed.
  decoder::LayerStudy study_of(const std::string& kind, long seed) const;
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

  const Settings& settings_;
  MPI_Comm comm_;
  bool scaling_, heat_map_;
  std::vector<long> seeds_;
  std::vector<std::string> kinds_;
  std::vector<double> sigmas_, edges_;
  int depth_;
};

LayerStudy::LayerStudy(const Settings& settings, MPI_Comm comm)
    : settings_(settings),
      comm_(comm),
      scaling_(settings.word("hessian.study") == "scaling"),
      heat_map_(!scaling_ && settings.flag("hessian.heat_map")),
      seeds_(settings.integers("hessian.seeds")),
      kinds_(settings.words("hessian.layers")),
      sigmas_(scaling_ ? settings.reals("hessian.sigmas") : std::vector<double>{}),
      edges_(bin_edges()),
      depth_(scaling_ ? settings.count("hessian.depth") : 1) {
  if (!scaling_ && std::ranges::find(kinds_, linear_mlp) != kinds_.end())
    throw BadInput(
        "hessian.layers = " + value_text(settings.value("hessian.layers")) +
        ": linear_mlp has no value, query and key to compare; it goes with hessian.study = scaling only");
  const auto width = "hessian.width = " + std::to_string(settings.integer("hessian.width"));
  if (heat_map_) {
    const auto all = static_cast<double>(weights_of_decoder());
    require_memory(comm, sizeof(float) * all * all * static_cast<double>(kinds_.size()) / mpi::size(comm),
                   "hessian.heat_map with " + width);
  }
  // Memory for the blocks of V, Q and K: the whole matrix of one sequence and the sum over sequences, 9 d^4
  // numbers each, and the diagonal blocks.
  if (!scaling_)
    require_memory(comm,
                   sizeof(double) * 21 * std::pow(static_cast<double>(settings.integer("hessian.width")), 4),
                   width + ", for the entries of the blocks");
}

std::string LayerStudy::describe() const {
  std::ostringstream text;
  text << kinds_.size() << " kind(s) of layers x " << seeds_.size() << " seeds, width "
       << settings_.integer("hessian.width") << ", " << settings_.integer("hessian.sequences")
       << " sequences of 18 tokens";
  if (scaling_) text << ", " << depth_ << " layer(s), " << sigmas_.size() << " sizes of the embeddings";
  return text.str();
}

std::vector<Place> LayerStudy::places() const {
  std::vector<Place> all;
  for (const auto& kind : kinds_)
    for (std::size_t seed = 0; seed < seeds_.size(); ++seed) {
      const Place place{.group = kind,
                        .name = kind + ", seed " + std::to_string(seeds_[seed]),
                        .index = {{axes::seed.name, seed}}};
      if (!scaling_) all.push_back(place);
      for (std::size_t k = 0; k < sigmas_.size(); ++k) {
        std::ostringstream name;
        name << place.name << ", sigma " << sigmas_[k];
        auto& with_sigma = all.emplace_back(place);
        with_sigma.name = name.str();
        with_sigma.index[layered::sigma.name] = k;
      }
    }
  return all;
}

decoder::LayerStudy LayerStudy::study_of(const std::string& kind, long seed) const {
  decoder::LayerStudy study;
  study.shape.width = settings_.integer("hessian.width");
  study.shape.hidden = settings_.flag("hessian.mlp") ? 4 * study.shape.width : 0;
  study.shape.depth = depth_;
  study.shape.scores = kind == "linear" ? decoder::Scores::linear : decoder::Scores::softmax;
  study.shape.residual = settings_.real("hessian.residual");
  if (kind.ends_with("_norm")) study.shape.norm_epsilon = 1e-5;
  if (kind == "softmax_post_norm") study.shape.norm_place = decoder::NormPlace::behind;
  study.loss = settings_.word("hessian.loss") == "squared_error" ? decoder::LogitLoss::squared_error
                                                                 : decoder::LogitLoss::cross_entropy;
  study.sequences = settings_.count("hessian.sequences");
  if (scaling_) study.probes = settings_.count("hessian.norm_probes");
  study.seed = static_cast<std::uint64_t>(seed);
  return study;
}

void LayerStudy::begin(StudyRecord& record) {
  record.seeds(seeds_);
  record.axis(layered::weight_matrix, 1, static_cast<long>(weights));
  if (scaling_) {
    record.axis(layered::sigma, sigmas_);
    record.axis(axes::layer, 1, depth_);
  } else {
    record.axis(layered::entry_size, {edges_.begin(), edges_.end() - 1});
  }
}

void LayerStudy::measure(const Place& place, Results& to) {
  const auto study = study_of(place.group, seeds_[place.along(axes::seed)]);
  if (scaling_)
    norms(place.group, study, sigmas_[place.along(layered::sigma)], to);
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
  const auto blocks = decoder::parameter_blocks(study_of(kinds_.front(), seeds_.front()).shape);
  return blocks.back().begin + blocks.back().size();
}

bool LayerStudy::add_heat_map(const std::string& kind, RunFrame& frame, Progress& progress, double& done,
                              StudyRecord& record) const {
  const int rank = mpi::rank(comm_), ranks = mpi::size(comm_);
  const Index all = weights_of_decoder();
  // Every rank takes consecutive rows and as many rounds as the others.
  const Index first = all * rank / ranks, end = all * (rank + 1) / ranks;
  const Index most = (all + ranks - 1) / ranks;
  const auto study = study_of(kind, seeds_.front());
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
  if (!heat_map_) return true;
  const auto all = static_cast<long>(weights_of_decoder());
  record.axis(layered::parameter, 1, all);
  record.axis(layered::other_parameter, 1, all);
  Progress progress = frame.progress(static_cast<double>(kinds_.size()), "heat maps");
  double done = 0;
  for (const auto& kind : kinds_)
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
  const auto bad = [this](double x) { return scaling_ ? !std::isfinite(x) : std::isnan(x); };
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

std::vector<io::Variable> layer_study_coordinates() {
  return {layered::weight_matrix, layered::sigma,     axes::layer,
          layered::entry_size,    layered::parameter, layered::other_parameter};
}

std::vector<io::Variable> layer_study_measures() {
  std::vector<io::Variable> measures;
  for (const auto& part : hessian_parts)
    for (const auto& one : {layered::entry_share, layered::median_entry, layered::largest_entries,
                            layered::layer_norm, layered::matrix_norm})
      measures.push_back(hessian::variables::of_part(part, one));
  return measures;
}

std::unique_ptr<Experiment> make_layer_study(const Settings& settings, const RunContext& context) {
  return make_study(settings, context,
                    [](const Settings& s, MPI_Comm comm) { return std::make_unique<LayerStudy>(s, comm); });
}

}  // namespace fluxformer
