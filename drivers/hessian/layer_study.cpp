#include "drivers/hessian/layer_study.hpp"

#include <algorithm>
#include <sstream>

#include "analysis/hessian/hessian_variables.hpp"
#include "analysis/hessian/layer_measures.hpp"
#include "analysis/hessian/layer_variables.hpp"
#include "base/error.hpp"
#include "base/progress.hpp"
#include "base/rank_of.hpp"
#include "base/reductions.hpp"
#include "drivers/common/run_frame.hpp"
#include "drivers/compare/compare_options.hpp"
#include "drivers/compare/compare_record.hpp"
#include "drivers/compare/compare_variables.hpp"
#include "drivers/hessian/hessian_measures.hpp"

namespace fluxformer {

namespace measured = hessian::variables;

namespace {

constexpr std::size_t weights = std::size(hessian::studied_weights), parts = std::size(hessian::all_parts);

/// Lower ends of the bins and the upper end of the last, log10.
std::vector<double> bin_edges() {
  std::vector<double> edges;
  for (int k = -60; k <= 8; ++k) edges.push_back(k / 4.0);
  return edges;
}

class LayerStudyExperiment final : public Experiment {
 public:
  LayerStudyExperiment(const Settings& settings, const RunContext& context);
  std::string describe() const override;
  Report run() override;

 private:
  /// The numbers of one kind of attention and one seed: [part][...], as they are stored.
  std::vector<double> measure(const std::string& kind, long seed) const;
  std::vector<double> entries(const hessian::LayerStudy& study) const;
  std::vector<double> norms(const hessian::LayerStudy& study) const;
  hessian::LayerStudy study_of(const std::string& kind, long seed) const;
  void add(const std::string& kind, const std::vector<double>& numbers, CompareRecord& record) const;
  std::size_t numbers_of_a_point() const {
    const std::size_t bins = edges_.size() - 1;
    return parts * weights * (scaling_ ? static_cast<std::size_t>(depth_) * sigmas_.size() : bins + 2);
  }

  Settings settings_;
  RunContext context_;
  RunFrame frame_{settings_, context_};
  bool scaling_;
  std::vector<long> seeds_;
  std::vector<std::string> kinds_;
  std::vector<double> sigmas_, edges_ = bin_edges();
  int depth_;
};

LayerStudyExperiment::LayerStudyExperiment(const Settings& settings, const RunContext& context)
    : settings_(settings),
      context_(context),
      scaling_(settings.word("hessian.study") == "scaling"),
      seeds_(integer_list(settings, "hessian.seeds", 0)),
      kinds_(word_list(settings, "hessian.attention", {"softmax", "linear"})),
      sigmas_(scaling_ ? number_list(settings, "hessian.sigmas", 1e-100, 1e100) : std::vector<double>{}),
      depth_(scaling_ ? settings.count("hessian.depth") : 1) {
  if (seeds_.empty() || kinds_.empty() || (scaling_ && sigmas_.empty()))
    throw BadInput("hessian.seeds, hessian.attention, hessian.sigmas: none of them may be empty");
}

std::string LayerStudyExperiment::describe() const {
  std::ostringstream text;
  text << kinds_.size() << " kind(s) of attention x " << seeds_.size() << " seeds, width "
       << settings_.integer("hessian.width") << ", " << settings_.integer("hessian.sequences")
       << " sequences of 18 tokens";
  if (scaling_) text << ", " << depth_ << " layer(s), " << sigmas_.size() << " sizes of the embeddings";
  return text.str();
}

hessian::LayerStudy LayerStudyExperiment::study_of(const std::string& kind, long seed) const {
  hessian::LayerStudy study;
  study.shape.width = settings_.integer("hessian.width");
  study.shape.hidden = settings_.flag("hessian.mlp") ? 4 * study.shape.width : 0;
  study.shape.depth = depth_;
  study.shape.scores = kind == "linear" ? hessian::Scores::linear : hessian::Scores::softmax;
  study.shape.residual = settings_.real("hessian.residual");
  if (settings_.flag("hessian.pre_norm")) study.shape.norm_epsilon = 1e-5;
  study.loss = settings_.word("hessian.loss") == "squared_error" ? hessian::LogitLoss::squared_error
                                                                 : hessian::LogitLoss::cross_entropy;
  study.sequences = settings_.count("hessian.sequences");
  if (scaling_) study.probes = settings_.count("hessian.norm_probes");
  study.seed = static_cast<std::uint64_t>(seed);
  return study;
}

std::vector<double> LayerStudyExperiment::entries(const hessian::LayerStudy& study) const {
  std::vector<double> numbers;
  for (const auto part : hessian::all_parts) {
    std::vector<double> shares, medians, percentiles;
    for (const auto& block : hessian::diagonal_blocks(study, part)) {
      const auto sizes = hessian::entry_sizes(block, edges_);
      shares.insert(shares.end(), sizes.shares.begin(), sizes.shares.end());
      medians.push_back(sizes.median);
      percentiles.push_back(sizes.largest_percent);
    }
    for (const auto* list : {&shares, &medians, &percentiles})
      numbers.insert(numbers.end(), list->begin(), list->end());
  }
  return numbers;
}

// From [sigma][part][layer][weight] to [part][layer][weight][sigma].
std::vector<double> LayerStudyExperiment::norms(const hessian::LayerStudy& study) const {
  const std::size_t per_sigma = parts * static_cast<std::size_t>(depth_) * weights;
  std::vector<double> numbers(per_sigma * sigmas_.size());
  for (std::size_t k = 0; k < sigmas_.size(); ++k) {
    const auto found = hessian::block_norms(study, sigmas_[k]);
    for (std::size_t j = 0; j < per_sigma; ++j) numbers[j * sigmas_.size() + k] = found[j];
  }
  return numbers;
}

std::vector<double> LayerStudyExperiment::measure(const std::string& kind, long seed) const {
  const auto study = study_of(kind, seed);
  return scaling_ ? norms(study) : entries(study);
}

void LayerStudyExperiment::add(const std::string& kind, const std::vector<double>& numbers,
                               CompareRecord& record) const {
  auto at = numbers.begin();
  const auto next = [&](std::size_t count) {
    const auto from = at;
    at += static_cast<std::ptrdiff_t>(count);
    return std::vector<double>(from, at);
  };
  for (const auto& part : hessian_parts) {
    const auto put = [&](const io::Variable& variable, std::size_t count) {
      record.add(kind, measured::of_part(part, variable), next(count));
    };
    if (scaling_) {
      put(measured::layer_norm, static_cast<std::size_t>(depth_) * weights * sigmas_.size());
      continue;
    }
    put(measured::entry_share, weights * (edges_.size() - 1));
    put(measured::median_entry, weights);
    put(measured::largest_entries, weights);
  }
}

Report LayerStudyExperiment::run() {
  frame_.begin();
  CompareRecord record(settings_, context_, frame_.claim(), seeds_);
  record.axis(measured::weight_matrix, 1, static_cast<long>(weights));
  if (scaling_) {
    record.axis(measured::sigma, sigmas_);
    record.axis(axes::layer, 1, depth_);
  } else {
    record.axis(measured::entry_size, {edges_.begin(), edges_.end() - 1});
  }
  frame_.announce(*this);
  const RankOf me(context_.comm);
  const std::size_t total = kinds_.size() * seeds_.size(), ranks = static_cast<std::size_t>(me.ranks);
  Progress progress = frame_.progress(static_cast<double>(total), "seeds");
  const Stopwatch measuring;
  // One point (kind, seed) for each rank at a time.
  std::vector<std::vector<double>> found(total);
  std::vector<double> seconds(kinds_.size(), 0.0);
  for (std::size_t first = 0; first < total; first += ranks) {
    const std::size_t mine = first + static_cast<std::size_t>(me.rank);
    collectively(context_.comm, [&] {
      if (mine >= total) return;
      const Stopwatch watch;
      const std::size_t kind = mine / seeds_.size();
      found[mine] = measure(kinds_[kind], seeds_[mine % seeds_.size()]);
      seconds[kind] += watch.seconds();
    });
    const std::size_t done = std::min(first + ranks, total);
    progress.update(static_cast<double>(done));
    if (done < total && frame_.asked_to_stop()) {
      progress.finish();
      return frame_.stopped("after " + std::to_string(done) + " of " + std::to_string(total) + " seeds",
                            "nothing was written; start the run again");
    }
  }
  sum_over_ranks(seconds, context_.comm);
  const std::size_t numbers = numbers_of_a_point();
  for (std::size_t point = 0; point < total; ++point) {
    found[point].resize(numbers, 0.0);
    sum_over_ranks(found[point], context_.comm);
    add(kinds_[point / seeds_.size()], found[point], record);
  }
  for (std::size_t kind = 0; kind < kinds_.size(); ++kind)
    for (std::size_t seed = 0; seed < seeds_.size(); ++seed)
      record.add(kinds_[kind], compare::seconds, {seconds[kind] / static_cast<double>(seeds_.size())});
  progress.finish();
  frame_.add_seconds("measure", measuring.seconds());
  record.finish(frame_.parts());
  std::ostringstream text;
  text << "done: " << total << " seeds, " << frame_.seconds() << " s";
  return frame_.done(text.str());
}

}  // namespace

std::vector<io::Variable> layer_study_coordinates() {
  return {measured::weight_matrix, measured::sigma, axes::layer, measured::entry_size};
}

std::vector<io::Variable> layer_study_measures() {
  std::vector<io::Variable> measures;
  for (const auto& part : hessian_parts)
    for (const auto& one :
         {measured::entry_share, measured::median_entry, measured::largest_entries, measured::layer_norm})
      measures.push_back(measured::of_part(part, one));
  return measures;
}

std::unique_ptr<Experiment> make_layer_study(const Settings& settings, const RunContext& context) {
  return std::make_unique<LayerStudyExperiment>(settings, context);
}

}  // namespace fluxformer
