#include "drivers/hessian/layer_points.hpp"

#include <algorithm>
#include <iterator>
#include <sstream>

#include "analysis/decoder/decoder_variables.hpp"
#include "analysis/hessian/hessian_variables.hpp"
#include "base/error.hpp"
#include "drivers/hessian/hessian_measures.hpp"
#include "io/axes.hpp"

namespace fluxformer {

namespace layered = decoder::variables;

namespace {

constexpr std::size_t weights = std::size(decoder::studied_weights), parts = std::size(decoder::all_parts);
constexpr const char* linear_mlp = "linear_mlp";

/// Lower ends of the bins and the upper end of the last one, log10.
std::vector<double> bin_edges() {
  std::vector<double> edges;
  for (int k = -60; k <= 8; ++k) edges.push_back(k / 4.0);
  return edges;
}

}  // namespace

LayerPoints::LayerPoints(const Settings& settings)
    : settings_(settings),
      scaling_(settings.word("hessian.study") == "scaling"),
      seeds_(settings.integers("hessian.seeds")),
      kinds_(settings.words("hessian.layers")),
      sigmas_(scaling_ ? settings.reals("hessian.sigmas") : std::vector<double>{}),
      edges_(bin_edges()),
      depth_(scaling_ ? settings.count("hessian.depth") : 1) {
  if (!scaling_ && std::ranges::find(kinds_, linear_mlp) != kinds_.end())
    throw BadInput(
        "hessian.layers = " + value_text(settings.value("hessian.layers")) +
        ": linear_mlp has no value, query and key to compare; it goes with hessian.study = scaling only");
}

std::string LayerPoints::describe() const {
  std::ostringstream text;
  text << kinds_.size() << " kind(s) of layers x " << seeds_.size() << " seeds, width "
       << settings_.integer("hessian.width") << ", " << settings_.integer("hessian.sequences")
       << " sequences of 18 tokens";
  if (scaling_) text << ", " << depth_ << " layer(s), " << sigmas_.size() << " sizes of the embeddings";
  return text.str();
}

std::string LayerPoints::name(std::size_t point) const {
  std::ostringstream text;
  text << kind_of(point) << ", seed " << seed_of(point);
  if (scaling_) text << ", sigma " << sigmas_[point % sigmas_.size()];
  return text.str();
}

std::size_t LayerPoints::norms_per_part(const std::string& kind) const {
  return static_cast<std::size_t>(depth_) * (kind == linear_mlp ? 1 : weights);
}

std::size_t LayerPoints::numbers(std::size_t point) const {
  return parts * (scaling_ ? norms_per_part(kind_of(point)) : weights * (edges_.size() + 1));
}

decoder::LayerStudy LayerPoints::study_of(const std::string& kind, long seed) const {
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

std::vector<double> LayerPoints::measure(std::size_t point) {
  const auto study = study_of(kind_of(point), seed_of(point));
  if (!scaling_) return entries(study);
  const double sigma = sigmas_[point % sigmas_.size()];
  return kind_of(point) == linear_mlp ? decoder::linear_mlp_norms(study, sigma)
                                      : decoder::block_norms(study, sigma);
}

std::vector<double> LayerPoints::entries(const decoder::LayerStudy& study) const {
  std::vector<double> numbers;
  for (const auto part : decoder::all_parts) {
    std::vector<double> shares, medians, percentiles;
    for (const auto& block : decoder::diagonal_blocks(study, part)) {
      const auto sizes = decoder::entry_sizes(block, edges_);
      shares.insert(shares.end(), sizes.shares.begin(), sizes.shares.end());
      medians.push_back(sizes.median);
      percentiles.push_back(sizes.largest_percent);
    }
    for (const auto* list : {&shares, &medians, &percentiles})
      numbers.insert(numbers.end(), list->begin(), list->end());
  }
  return numbers;
}

void LayerPoints::add_axes(StudyRecord& record) const {
  record.axis(layered::weight_matrix, 1, static_cast<long>(weights));
  if (scaling_) {
    record.axis(layered::sigma, sigmas_);
    record.axis(axes::layer, 1, depth_);
  } else {
    record.axis(layered::entry_size, {edges_.begin(), edges_.end() - 1});
  }
}

void LayerPoints::add_entries(const std::string& kind, const std::vector<double>& numbers,
                              StudyRecord& record) const {
  auto at = numbers.begin();
  for (const auto& part : hessian_parts) {
    const auto put = [&](const io::Variable& variable, std::size_t count) {
      const auto from = at;
      at += static_cast<std::ptrdiff_t>(count);
      record.add(kind, hessian::variables::of_part(part, variable), {from, at});
    };
    put(layered::entry_share, weights * (edges_.size() - 1));
    put(layered::median_entry, weights);
    put(layered::largest_entries, weights);
  }
}

// Reorders the norms from [sigma][part][layer][weight] to [part][layer][weight][sigma].
void LayerPoints::add_norms(const std::string& kind, std::span<const std::vector<double>> of_sigmas,
                            StudyRecord& record) const {
  const std::size_t each = norms_per_part(kind);
  for (std::size_t part = 0; part < parts; ++part) {
    std::vector<double> values;
    for (std::size_t j = part * each; j < (part + 1) * each; ++j)
      for (const auto& norms : of_sigmas) values.push_back(norms[j]);
    record.add(kind,
               hessian::variables::of_part(hessian_parts[part],
                                           kind == linear_mlp ? layered::matrix_norm : layered::layer_norm),
               values);
  }
}

void LayerPoints::add(const std::vector<std::vector<double>>& found, StudyRecord& record) const {
  for (std::size_t point = 0; point < count(); point += sigmas_per_seed()) {
    if (scaling_)
      add_norms(kind_of(point), std::span(found).subspan(point, sigmas_.size()), record);
    else
      add_entries(kind_of(point), found[point], record);
  }
}

}  // namespace fluxformer
