#include "drivers/compare/attention_experiment.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <sstream>

#include "analysis/attention/attention_variables.hpp"
#include "analysis/attention/layer_attention.hpp"
#include "base/error.hpp"
#include "drivers/compare/compare_options.hpp"
#include "drivers/compare/compare_variables.hpp"
#include "drivers/compare/comparison.hpp"
#include "drivers/compare/untrained.hpp"

namespace fluxformer {
namespace {

constexpr std::array all_scores = {attention::RowScore::cosine, attention::RowScore::kl,
                                   attention::RowScore::js, attention::RowScore::tv,
                                   attention::RowScore::centred};

class AttentionComparison final : public Comparison {
 public:
  AttentionComparison(const Settings& settings, const CompareProblem& problem);
  void begin(StudyRecord& record) override;
  void measure(std::size_t seed, const std::string& name, StudyRecord& record) override;
  std::string summary() const override;

 private:
  /// Adds all samples to a meter of T with each of `others`; with the `pairs` of their heads, also each sample.
  std::vector<attention::AttentionAccumulator> score(
      const SampleSet& samples, const Parameters& transformer, const std::vector<const Parameters*>& others,
      const std::vector<attention::HeadMatch>& pairs = {}) const;
  /// The Transformers of two seeds.
  void add_ceiling(std::size_t seed, StudyRecord& record) const;
  int layers() const { return first_.spec.layers; }

  const CompareProblem& problem_;
  const Parameters& first_;  // the Transformer of the first seed
  SampleSet matching_;
  std::uint64_t draws_;
  std::ostringstream summary_;
};

AttentionComparison::AttentionComparison(const Settings& settings, const CompareProblem& problem)
    : problem_(problem),
      first_(problem.models().at(0, "transformer").parameters),
      matching_(problem.other_samples(settings.integer("attention.matching"), "attention.matching")),
      draws_(static_cast<std::uint64_t>(settings.integer("run.seed"))) {
  if (problem.line().tokens() < 2)
    throw BadInput("data.length: attention over a single token carries no information");
  if (first_.spec.causal)
    throw BadInput("models.transformer: the comparison does not support causal attention");
  for (const auto& name : problem.models().names()) {
    if (problem.models().at(0, name).parameters.spec.attention.normalisation == Normalisation::linear)
      throw BadInput("models." + name +
                     ": attention.normalisation = linear: the comparison needs rows that sum to 1");
    problem.probe(problem.models().at(0, name).parameters)->entry_of_layer(1);
  }
}

std::vector<attention::AttentionAccumulator> AttentionComparison::score(
    const SampleSet& samples, const Parameters& transformer, const std::vector<const Parameters*>& others,
    const std::vector<attention::HeadMatch>& pairs) const {
  const auto t = problem_.probe(transformer);
  std::vector<std::unique_ptr<ModelProbe>> probes;
  std::vector<ModelProbe*> p;
  for (const auto* parameters : others) {
    probes.push_back(problem_.probe(*parameters));
    p.push_back(probes.back().get());
  }
  return attention::compare_attention(samples, *t, p, draws_, pairs);
}

void AttentionComparison::add_ceiling(std::size_t seed, StudyRecord& record) const {
  const auto& models = problem_.models();
  const std::size_t seeds = models.seeds().size();
  if (seeds < 2) return;
  const auto& mine = models.at(seed, "transformer").parameters;
  const auto& other = models.at((seed + 1) % seeds, "transformer").parameters;
  const auto pairs =
      attention::match_layers(score(matching_, mine, {&other})[0], attention::RowScore::centred);
  const auto meter = score(problem_.samples(), mine, {&other}, {pairs});
  for (std::size_t j = 0; j < all_scores.size(); ++j) {
    std::vector<double> values;
    values.reserve(layers());
    for (int l = 0; l < layers(); ++l)
      values.push_back(attention::matched_score(meter[0], l, pairs[l], all_scores[j]));
    const auto ceiling = attention::variables::of_transformers(attention::variables::scores[j]);
    record.add("transformer", ceiling, values);
    record.add("transformer", attention::variables::of_samples(ceiling),
               meter[0].by_sample().of(all_scores[j], attention::Against::match));
  }
}

void AttentionComparison::begin(StudyRecord& record) {
  record.samples(problem_.members());
  record.axis(axes::layer, 1, layers());
  record.axis(axes::head, 0, first_.spec.attention.heads - 1);
  record.axis(axes::query, 0, problem_.line().tokens() - 1);
  record.axis(axes::key, 0, problem_.line().tokens() - 1);
}

void AttentionComparison::measure(std::size_t seed, const std::string& name, StudyRecord& record) {
  const auto probe = problem_.probe(problem_.models().at(seed, name).parameters);
  record.add(name, attention::variables::map, attention::attention_map(problem_.samples(), *probe));
  if (name == "transformer") {
    add_ceiling(seed, record);
    return;
  }
  const auto& models = problem_.models();
  const auto& transformer = models.at(seed, "transformer").parameters;
  const auto& pde = models.at(seed, name).parameters;
  const auto untrained = fluxformer::untrained(models.at(seed, name), draws_, models.seeds()[seed]);

  const bool exchangeable = is_independent(name);
  auto paired =
      attention::heads_in_order({layers(), transformer.spec.attention.heads, pde.spec.attention.heads});
  auto paired_untrained = paired;
  if (exchangeable) {
    const auto validation = score(matching_, transformer, {&pde, &untrained});
    paired = attention::match_layers(validation[0], attention::RowScore::centred);
    paired_untrained = attention::match_layers(validation[1], attention::RowScore::centred);
  }
  const auto meters = score(problem_.samples(), transformer, {&pde, &untrained}, {paired, paired_untrained});

  const int heads = transformer.spec.attention.heads;
  const auto over_layers = [&](const io::Variable& measure, const auto& value) {
    std::vector<double> values;
    values.reserve(layers());
    for (int l = 0; l < layers(); ++l) values.push_back(value(l));
    record.add(name, measure, values);
    return std::accumulate(values.begin(), values.end(), 0.0) / layers();
  };
  const auto over_heads = [&](const io::Variable& measure, const auto& value) {
    std::vector<double> values;
    for (int l = 0; l < layers(); ++l)
      for (int h = 0; h < heads; ++h) values.push_back(value(l, h, paired[l][h]));
    record.add(name, measure, values);
  };
  summary_ << (summary_.str().empty() ? "scores (better than the best null by): " : "; ") << name;
  for (std::size_t j = 0; j < all_scores.size(); ++j) {
    const auto by = all_scores[j];
    const auto& measure = attention::variables::scores[j];
    const auto mean_null = [&](bool permuted, int l) {
      double sum = 0;
      for (int h = 0; h < heads; ++h)
        sum += permuted ? meters[0].permuted_score(by, l, h) : meters[0].uniform_score(by, l, h);
      return sum / heads;
    };
    const auto matched = [&](const attention::AttentionAccumulator& m, const attention::HeadMatch& pairs,
                             int l) { return attention::matched_score(m, l, pairs[l], by); };
    const double mean = over_layers(measure, [&](int l) { return matched(meters[0], paired, l); });
    const std::vector<double> nulls{over_layers(attention::variables::of_uniform_rows(measure),
                                                [&](int l) { return mean_null(false, l); }),
                                    over_layers(attention::variables::of_permuted_keys(measure),
                                                [&](int l) { return mean_null(true, l); }),
                                    over_layers(attention::variables::of_untrained(measure), [&](int l) {
                                      return matched(meters[1], paired_untrained, l);
                                    })};
    using attention::Against;
    const auto by_sample = [&](const io::Variable& variable, const attention::AttentionAccumulator& m,
                               Against against) {
      record.add(name, attention::variables::of_samples(variable), m.by_sample().of(by, against));
    };
    by_sample(measure, meters[0], Against::match);
    by_sample(attention::variables::of_uniform_rows(measure), meters[0], Against::uniform);
    by_sample(attention::variables::of_permuted_keys(measure), meters[0], Against::permuted);
    by_sample(attention::variables::of_untrained(measure), meters[1], Against::match);
    if (by == attention::RowScore::cosine || by == attention::RowScore::kl ||
        by == attention::RowScore::centred)
      summary_ << ' ' << measure.name << ' ' << mean << " (" << std::showpos
               << attention::margin_over(by, mean, nulls) << std::noshowpos << ')';
  }
  over_heads(attention::variables::centred_heads, [&](int l, int t, int p) {
    return p < 0 ? std::numeric_limits<double>::quiet_NaN()
                 : meters[0].score(attention::RowScore::centred, l, t, p);
  });
  over_heads(attention::variables::matched_head, [](int, int, int p) { return p; });
  over_heads(attention::variables::entropy_transformer,
             [&](int l, int t, int) { return meters[0].entropy_t(l, t); });
  over_heads(attention::variables::entropy, [&](int l, int, int p) {
    return p < 0 ? std::numeric_limits<double>::quiet_NaN() : meters[0].entropy_p(l, p);
  });
  over_heads(attention::variables::flat_rows, [&](int l, int t, int p) {
    return p < 0 ? 0.0 : static_cast<double>(meters[0].flat_rows(l, t, p));
  });
  over_layers(attention::variables::scored_samples,
              [&](int l) { return static_cast<double>(meters[0].samples(l)); });
}

std::string AttentionComparison::summary() const {
  return summary_.str();
}

}  // namespace

void describe_attention(io::Description& description) {
  using namespace attention::variables;
  std::vector<io::Variable> measures;
  for (const auto& score : scores)
    for (const auto& one : {score, of_uniform_rows(score), of_permuted_keys(score), of_untrained(score),
                            of_transformers(score)}) {
      measures.push_back(one);
      measures.push_back(of_samples(one));
    }
  for (const auto& one :
       {centred_heads, matched_head, entropy_transformer, entropy, flat_rows, scored_samples, map})
    measures.push_back(one);
  compare::describe_comparison(
      description, "attention",
      {{axes::test_sample, axes::layer, axes::head, axes::query, axes::key}, {}, {}, measures});
}

void declare_attention(Options& options) {
  declare_compare_options(options, "attention.h5");
  options.declare({.name = "attention.matching",
                   .fallback = 200L,
                   .doc = "further test samples, used to pair the heads of independent models",
                   .minimum = 1});
}

std::unique_ptr<Experiment> make_attention(const Settings& settings, const RunContext& context) {
  return make_comparison(settings, context, [](const Settings& s, const CompareProblem& p) {
    return std::make_unique<AttentionComparison>(s, p);
  });
}

}  // namespace fluxformer
