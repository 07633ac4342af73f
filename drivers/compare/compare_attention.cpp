// `attention`: similarity of the attention of a Transformer and of its PDE models, with the scores of rows
// that do not depend on the input as baselines, and how far heads look.

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <iomanip>
#include <numeric>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "analysis/attention/attention_variables.hpp"
#include "analysis/attention/layer_attention.hpp"
#include "base/error.hpp"
#include "base/statistics.hpp"
#include "drivers/compare/compare_models.hpp"
#include "drivers/compare/model_study.hpp"
#include "drivers/registry.hpp"
#include "io/layout.hpp"
#include "operators/attention/reach.hpp"

namespace fluxformer {
namespace {

constexpr std::array all_scores = {attention::RowScore::cosine, attention::RowScore::kl,
                                   attention::RowScore::js, attention::RowScore::tv,
                                   attention::RowScore::centred};

/// Scores shown in the closing table.
constexpr std::array shown_scores = {attention::RowScore::cosine, attention::RowScore::kl,
                                     attention::RowScore::centred};

/// Sums over seeds of a model's scores and of their margins over the best null, both averaged over layers.
struct MeanScores {
  std::string model;
  int seeds = 0;
  std::array<double, shown_scores.size()> score{}, margin{};
};

/// A PDE model scored against the Transformer: once as trained, once with untrained weights (a null control).
struct Matched {
  int heads;  ///< number of heads of the Transformer
  const attention::HeadAccumulator& transformer;
  const attention::AttentionAccumulator &trained, &untrained;
  const attention::HeadMatch &pairs, &pairs_untrained;
};

/// Samples on which heads are paired: those of independent models, and those of the Transformer of another seed.
long samples_of_pairs(const Settings& settings, const ComparedModels& models) {
  if (models.seeds().size() == 1 && std::ranges::none_of(models.names(), is_independent)) return 0;
  const long count = settings.integer("attention.matching");
  if (count == 0)
    throw BadInput(
        "attention.matching = 0: heads of independent models, and of other seeds, are paired on further "
        "samples");
  return count;
}

class AttentionComparison final : public ModelStudy {
 public:
  AttentionComparison(const Settings& settings, MPI_Comm comm);
  std::string describe() const override;
  static study::Contents contents();
  /// A table of scores and margins, means over layers and seeds, and how far heads look.
  std::string summary(const Findings& found) const override;

 protected:
  void add_axes(StudyRecord& record) override;
  void measure_model(std::size_t seed, const std::string& name, Results& to) override;

 private:
  /// Throws BadInput unless the queries of all models see the same keys in each layer.
  void require_same_keys() const;
  /// Scores the attention of the Transformer against each of `others` over all samples; with the `pairs` of
  /// their heads, also for each sample.
  attention::ComparedAttention score(const SampleSet& samples, const Parameters& transformer,
                                     const std::vector<const Parameters*>& others,
                                     const std::vector<attention::HeadMatch>& pairs = {}) const;
  /// Measures the Transformer: its heads and, with several seeds, the scores between those of two seeds, a
  /// ceiling for PDE models.
  void measure_transformer(std::size_t seed, Results& to) const;
  /// A line with the mean distance of attention of each model; "" without distances.
  std::string distances(const Findings& found) const;
  int layers() const { return first_.spec.layers; }
  /// True if tokens are a line, along which they have a distance.
  bool has_distances() const { return problem().line().tokens_y() == 1; }
  /// Adds a variable over layers.
  void add_layers(const io::Variable& variable, const std::function<double(int)>& of_layer,
                  Results& to) const;
  /// Adds the scores of matched heads and of their null controls, over layers and over samples.
  void add_scores(const Matched& found, Results& to) const;
  /// Adds the measures of single heads of the Transformer and their partners.
  void add_heads(const Matched& found, Results& to) const;
  /// Adds what each head of a model does by itself: of those that are matched with the Transformer's.
  void add_own(const attention::HeadAccumulator& heads, const attention::HeadMatch& pairs, Results& to) const;

  const Parameters& first_;  // the Transformer of the first seed
  SampleSet matching_;
  std::uint64_t draws_;
};

AttentionComparison::AttentionComparison(const Settings& settings, MPI_Comm comm)
    : ModelStudy(settings, comm, {.head = ModelNeeds::Head::none}),
      first_(problem().models().at(0, "transformer").parameters),
      matching_(
          problem().other_samples(samples_of_pairs(settings, problem().models()), "attention.matching")),
      draws_(static_cast<std::uint64_t>(settings.integer("run.seed"))) {
  if (problem().line().tokens() < 2)
    throw BadInput("data.length: attention over a single token carries no information");
  for (const auto& name : problem().models().names()) {
    if (problem().models().at(0, name).parameters.spec.attention.normalisation == Normalisation::linear)
      throw BadInput("models." + name +
                     ": attention.normalisation = linear: the comparison needs rows that sum to 1");
    require_layer_ends(name);
  }
  require_same_keys();
}

void AttentionComparison::require_same_keys() const {
  const auto& models = problem().models();
  const auto seen = [&](const ModelSpec& spec, int layer) {
    return reach_of(spec.causal, spec.window(layer)).on_lines_of(problem().line().tokens());
  };
  const auto window = [](const ModelSpec& spec, int layer) {
    const int tokens = spec.window(layer);
    return tokens > 0 ? "a window of " + std::to_string(tokens) + " token(s)" : "no window";
  };
  for (const auto& name : models.names())
    for (std::size_t seed = 0; seed < models.seeds().size(); ++seed)
      for (int l = 1; l <= layers(); ++l) {
        const auto& model = models.at(seed, name);
        const auto& spec = model.parameters.spec;
        if (seen(spec, l) != seen(first_.spec, l))
          throw BadInput("models." + name + " = " + model.file + ": attention of layer " + std::to_string(l) +
                         " has " + window(spec, l) + ", and " + window(first_.spec, l) + " in " +
                         models.at(0, "transformer").file + "; rows over the same keys are compared");
      }
}

std::string AttentionComparison::describe() const {
  const auto& line = problem().line();
  return ModelStudy::describe() +
         (has_distances() ? ""
                          : "\nattention by distance: left out; tokens are no line, but a lattice of " +
                                std::to_string(line.tokens_x()) + " x " + std::to_string(line.tokens_y()));
}

attention::ComparedAttention AttentionComparison::score(
    const SampleSet& samples, const Parameters& transformer, const std::vector<const Parameters*>& others,
    const std::vector<attention::HeadMatch>& pairs) const {
  const auto t = problem().probe(transformer);
  std::vector<std::unique_ptr<ModelProbe>> probes;
  std::vector<ModelProbe*> p;
  for (const auto* parameters : others) {
    probes.push_back(problem().probe(*parameters));
    p.push_back(probes.back().get());
  }
  return attention::compare_attention(samples, *t, p, draws_, pairs);
}

void AttentionComparison::measure_transformer(std::size_t seed, Results& to) const {
  const auto& models = problem().models();
  const std::size_t seeds = models.seeds().size();
  const auto& mine = models.at(seed, "transformer").parameters;
  const int heads = mine.spec.attention.heads;
  const auto own = attention::heads_in_order({layers(), heads, heads});
  if (seeds < 2) {
    add_own(score(problem().samples(), mine, {}).heads[0], own, to);
    return;
  }
  const auto& other = models.at((seed + 1) % seeds, "transformer").parameters;
  const auto pairs =
      attention::match_layers(score(matching_, mine, {&other}).scores[0], attention::RowScore::centred);
  const auto found = score(problem().samples(), mine, {&other}, {pairs});
  const auto& meter = found.scores[0];
  for (std::size_t j = 0; j < all_scores.size(); ++j) {
    const auto ceiling = attention::variables::of_transformers(attention::variables::scores[j]);
    add_layers(
        ceiling, [&](int l) { return attention::matched_score(meter, l, pairs[l], all_scores[j]); }, to);
    to.put(attention::variables::of_samples(ceiling),
           meter.by_sample().of(all_scores[j], attention::Against::match));
  }
  add_own(found.heads[0], own, to);
}

study::Contents AttentionComparison::contents() {
  using namespace attention::variables;
  std::vector<io::Variable> measures;
  for (const auto& score : scores)
    for (const auto& one : {score, of_uniform_rows(score), of_permuted_keys(score), of_untrained(score),
                            of_transformers(score)}) {
      measures.push_back(one);
      measures.push_back(of_samples(one));
    }
  for (const auto& one : {centred_heads, matched_head, entropy_transformer, entropy, flat_rows,
                          scored_samples, map, weight_by_distance, of_uniform_heads(weight_by_distance),
                          pairs_by_distance, mean_distance, of_uniform_heads(mean_distance)})
    measures.push_back(one);
  return compare::with_models({{axes::test_sample, axes::layer, axes::head, axes::query, axes::key, distance,
                                axes::feature, compare::sample_features},
                               {names::tokens_x, names::tokens_y, compare::sample_words},
                               {},
                               measures});
}

void AttentionComparison::add_axes(StudyRecord& record) {
  record.samples(problem().members());
  record.axis(axes::layer, 1, layers());
  record.axis(axes::head, 0, first_.spec.attention.heads - 1);
  record.axis(axes::query, 0, problem().line().tokens() - 1);
  record.axis(axes::key, 0, problem().line().tokens() - 1);
  record.note("", names::tokens_x, static_cast<long>(problem().line().tokens_x()));
  record.note("", names::tokens_y, static_cast<long>(problem().line().tokens_y()));
  compare::describe_first_sample(problem(), record);
  if (has_distances()) record.axis(attention::variables::distance, 0, problem().line().tokens() - 1);
}

void AttentionComparison::measure_model(std::size_t seed, const std::string& name, Results& to) {
  to.put(attention::variables::map, attention::attention_map(problem().samples(), *probe(seed, name)));
  if (name == "transformer") {
    measure_transformer(seed, to);
    return;
  }
  const auto& models = problem().models();
  const auto& transformer = models.at(seed, "transformer").parameters;
  const auto& pde = models.at(seed, name).parameters;
  const auto untrained = fluxformer::untrained(models.at(seed, name), draws_, models.seeds()[seed]);

  const bool exchangeable = is_independent(name);
  auto paired =
      attention::heads_in_order({layers(), transformer.spec.attention.heads, pde.spec.attention.heads});
  auto paired_untrained = paired;
  if (exchangeable) {
    const auto validation = score(matching_, transformer, {&pde, &untrained}).scores;
    paired = attention::match_layers(validation[0], attention::RowScore::centred);
    paired_untrained = attention::match_layers(validation[1], attention::RowScore::centred);
  }
  const auto measured =
      score(problem().samples(), transformer, {&pde, &untrained}, {paired, paired_untrained});

  const Matched found{.heads = transformer.spec.attention.heads,
                      .transformer = measured.heads[0],
                      .trained = measured.scores[0],
                      .untrained = measured.scores[1],
                      .pairs = paired,
                      .pairs_untrained = paired_untrained};
  add_scores(found, to);
  add_heads(found, to);
  add_own(measured.heads[1], paired, to);
}

void AttentionComparison::add_layers(const io::Variable& variable, const std::function<double(int)>& of_layer,
                                     Results& to) const {
  std::vector<double> values;
  values.reserve(layers());
  for (int l = 0; l < layers(); ++l) values.push_back(of_layer(l));
  to.put(variable, values);
}

void AttentionComparison::add_scores(const Matched& found, Results& to) const {
  namespace variables = attention::variables;
  using attention::Against;
  for (std::size_t j = 0; j < all_scores.size(); ++j) {
    const auto by = all_scores[j];
    const auto& measure = variables::scores[j];
    const auto add = [&](const io::Variable& variable, const attention::AttentionAccumulator& meter,
                         Against against, const std::function<double(int)>& of_layer) {
      to.put(variables::of_samples(variable), meter.by_sample().of(by, against));
      add_layers(variable, of_layer, to);
    };
    // The null controls have no pairs of heads: their score is the mean over the Transformer's heads.
    const auto mean_over_heads =
        [&](double (attention::AttentionAccumulator::*of_head)(attention::RowScore, int, int) const) {
          return [&found, by, of_head](int l) {
            double sum = 0;
            for (int h = 0; h < found.heads; ++h) sum += (found.trained.*of_head)(by, l, h);
            return sum / found.heads;
          };
        };
    add(measure, found.trained, Against::match,
        [&](int l) { return attention::matched_score(found.trained, l, found.pairs[l], by); });
    add(variables::of_uniform_rows(measure), found.trained, Against::uniform,
        mean_over_heads(&attention::AttentionAccumulator::uniform_score));
    add(variables::of_permuted_keys(measure), found.trained, Against::permuted,
        mean_over_heads(&attention::AttentionAccumulator::permuted_score));
    add(variables::of_untrained(measure), found.untrained, Against::match,
        [&](int l) { return attention::matched_score(found.untrained, l, found.pairs_untrained[l], by); });
  }
}

void AttentionComparison::add_heads(const Matched& found, Results& to) const {
  namespace variables = attention::variables;
  constexpr double none = missing_value;  // the value of a head without a partner
  const auto& meter = found.trained;
  // value(layer, head of the Transformer, its partner or -1)
  const auto add = [&](const io::Variable& variable, const auto& value) {
    std::vector<double> values;
    for (int l = 0; l < layers(); ++l)
      for (int h = 0; h < found.heads; ++h) values.push_back(value(l, h, found.pairs[l][h]));
    to.put(variable, values);
  };
  add(variables::centred_heads,
      [&](int l, int t, int p) { return p < 0 ? none : meter.score(attention::RowScore::centred, l, t, p); });
  add(variables::matched_head, [](int, int, int p) { return p; });
  add(variables::entropy_transformer, [&](int l, int t, int) { return found.transformer.entropy(l, t); });
  add(variables::flat_rows, [&](int l, int t, int p) { return p < 0 ? 0.0 : meter.flat_rows(l, t, p); });
  add_layers(
      variables::scored_samples, [&](int l) { return meter.samples(l); }, to);
}

void AttentionComparison::add_own(const attention::HeadAccumulator& heads, const attention::HeadMatch& pairs,
                                  Results& to) const {
  namespace variables = attention::variables;
  const auto of_heads = [&](const auto& value) {
    std::vector<double> values;
    for (int l = 0; l < layers(); ++l)
      for (const int head : pairs[l]) values.push_back(head < 0 ? missing_value : value(l, head));
    return values;
  };
  to.put(variables::entropy, of_heads([&](int l, int head) { return heads.entropy(l, head); }));
  if (!has_distances()) return;
  to.put(variables::mean_distance, of_heads([&](int l, int head) { return heads.mean_distance(l, head); }));
  add_layers(
      variables::of_uniform_heads(variables::mean_distance), [&](int l) { return heads.uniform_distance(l); },
      to);

  std::vector<double> weights, uniform, count;
  for (int l = 0; l < layers(); ++l) {
    for (const int head : pairs[l])
      for (int distance = 0; distance < heads.shape().tokens; ++distance)
        weights.push_back(head < 0 ? missing_value : heads.weight(l, head, distance));
    for (int distance = 0; distance < heads.shape().tokens; ++distance) {
      uniform.push_back(heads.uniform_weight(l, distance));
      count.push_back(static_cast<double>(heads.pairs(l, distance)));
    }
  }
  to.put(variables::weight_by_distance, weights);
  to.put(variables::of_uniform_heads(variables::weight_by_distance), uniform);
  to.put(variables::pairs_by_distance, count);
}

std::string AttentionComparison::summary(const Findings& found) const {
  namespace variables = attention::variables;
  std::vector<MeanScores> means;  // by PDE model, in the order of measurement
  for (std::size_t k = 0; k < found.count(); ++k) {
    const auto& model = found.places()[k].group;
    if (model == "transformer") continue;
    auto one = std::ranges::find(means, model, &MeanScores::model);
    if (one == means.end()) one = means.insert(means.end(), {.model = model});
    ++one->seeds;
    for (std::size_t j = 0; j < shown_scores.size(); ++j) {
      const auto by = shown_scores[j];
      const auto& measure = variables::scores[std::ranges::find(all_scores, by) - all_scores.begin()];
      const auto mean = [&](const io::Variable& variable) {
        const auto& values = found.at(k, variable);
        return std::accumulate(values.begin(), values.end(), 0.0) / layers();
      };
      const std::vector<double> nulls{mean(variables::of_uniform_rows(measure)),
                                      mean(variables::of_permuted_keys(measure)),
                                      mean(variables::of_untrained(measure))};
      one->score[j] += mean(measure);
      one->margin[j] += attention::margin_over(by, mean(measure), nulls);
    }
  }
  if (means.empty()) return distances(found);
  std::ostringstream text;
  text << "mean over layers and seeds (margin over the best null)\n"
       << std::left << std::setw(14) << "  model" << std::right;
  for (const auto by : shown_scores)
    text << std::setw(18)
         << attention::variables::scores[std::ranges::find(all_scores, by) - all_scores.begin()].name;
  text << std::fixed << std::setprecision(3);
  for (const auto& one : means) {
    text << '\n' << std::left << std::setw(14) << "  " + one.model << std::right;
    for (std::size_t j = 0; j < shown_scores.size(); ++j) {
      std::ostringstream cell;
      cell << std::fixed << std::setprecision(3) << one.score[j] / one.seeds << " (" << std::showpos
           << one.margin[j] / one.seeds << ')';
      text << std::setw(18) << cell.str();
    }
  }
  const auto far = distances(found);
  return text.str() + (far.empty() ? "" : "\n" + far);
}

std::string AttentionComparison::distances(const Findings& found) const {
  namespace variables = attention::variables;
  if (!has_distances()) return {};
  // Sums over layers, seeds and heads, as far as these have a partner
  struct Mean {
    double sum = 0, count = 0;
    void add(const std::vector<double>& values) {
      for (const double value : values)
        if (!std::isnan(value)) sum += value, count += 1;
    }
  };
  std::vector<std::pair<std::string, Mean>> means;  // by model, in the order of measurement
  Mean uniform;
  for (std::size_t k = 0; k < found.count(); ++k) {
    const auto& model = found.places()[k].group;
    auto one = std::ranges::find(means, model, &std::pair<std::string, Mean>::first);
    if (one == means.end()) one = means.insert(means.end(), {model, {}});
    one->second.add(found.at(k, variables::mean_distance));
    uniform.add(found.at(k, variables::of_uniform_heads(variables::mean_distance)));
  }
  std::ostringstream text;
  text << "mean distance of attention in tokens: " << std::fixed << std::setprecision(2);
  for (const auto& [model, mean] : means) text << model << ' ' << mean.sum / mean.count << ", ";
  text << "uniform rows " << uniform.sum / uniform.count;
  return text.str();
}

void declare_attention(Options& options) {
  declare_compared(options);
  declare_study_run(options, "attention.h5");
  options.declare("attention.matching", 200L,
                  "number of further test samples, used to pair the heads of independent models and of other "
                  "seeds; none are read where there are none",
                  {.minimum = 0});
}

}  // namespace

ExperimentEntry attention_experiment() {
  return study_entry<AttentionComparison>(
      {.name = "attention",
       .family = "compare",
       .sentence =
           "scores the attention of PDE models against that of a Transformer, and says how far heads look",
       .cites = "docs/model.md; arXiv 2408.09523",
       .declare = declare_attention});
}

}  // namespace fluxformer
