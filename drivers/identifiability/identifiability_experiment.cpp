#include "drivers/identifiability/identifiability_experiment.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "analysis/identifiability/identifiability_variables.hpp"
#include "base/error.hpp"
#include "drivers/compare/compare_variables.hpp"
#include "drivers/compare/comparison.hpp"
#include "drivers/identifiability/attribution_measures.hpp"
#include "drivers/identifiability/identity_measures.hpp"
#include "drivers/identifiability/weight_measures.hpp"
#include "io/layout.hpp"

namespace fluxformer {
namespace {

class Identifiability final : public Comparison {
 public:
  Identifiability(const Settings& settings, const CompareProblem& problem);
  void begin(StudyRecord& record) override;
  void measure(std::size_t seed, const std::string& name, StudyRecord& record) override;
  std::string summary() const override { return summary_; }

 private:
  /// Calls f with each of the measures that are wanted.
  template <class F>
  void for_measures(F&& f) {
    if (weights_) f(*weights_);
    if (identity_) f(*identity_);
    if (attribution_) f(*attribution_);
  }

  const CompareProblem& problem_;
  std::optional<WeightMeasures> weights_;
  std::optional<IdentityMeasures> identity_;
  std::optional<AttributionMeasures> attribution_;
  std::string summary_;
};

Identifiability::Identifiability(const Settings& settings, const CompareProblem& problem)
    : problem_(problem) {
  if (precision_of(settings) != Precision::float64)
    throw BadInput("run.precision = " + settings.word("run.precision") +
                   ": ranks of matrices are counted in double; use double");
  const auto& measures = settings.words("identifiability.measures");
  const auto has = [&](const std::string& measure) {
    return std::ranges::find(measures, measure) != measures.end();
  };
  if (has("weights")) weights_.emplace(settings, problem);
  if (has("identity")) identity_.emplace(settings, problem);
  if (has("attribution")) attribution_.emplace(settings, problem);
}

void Identifiability::begin(StudyRecord& record) {
  int layers = 0, heads = 0;
  for (const auto& name : problem_.models().names()) {
    const auto& spec = problem_.models().at(0, name).parameters.spec;
    layers = spec.layers;
    heads = std::max(heads, spec.attention.heads);
  }
  record.samples(problem_.members());
  record.axis(axes::layer, 1, layers);
  record.axis(axes::head, 0, heads - 1);
  record.note("", names::tokens_x, static_cast<long>(problem_.line().tokens_x()));
  record.note("", names::tokens_y, static_cast<long>(problem_.line().tokens_y()));
  for_measures([&](auto& one) { one.begin(record); });
}

void Identifiability::measure(std::size_t seed, const std::string& name, StudyRecord& record) {
  std::string words;
  try {
    for_measures([&](auto& one) { words += (words.empty() ? "" : ", ") + one.measure(seed, name, record); });
  } catch (const NumericalFailure& failure) {  // agreed by all ranks
    throw NumericalFailure(problem_.models().at(seed, name).file + ": " + failure.what());
  }
  summary_ += (summary_.empty() ? "" : "; ") + name + ": " + words;
}

}  // namespace

void describe_identifiability(io::Description& description) {
  using namespace identifiability::variables;
  auto measures = weight_variables();
  for (const auto& list : {identity_variables(), attribution_variables()})
    measures.insert(measures.end(), list.begin(), list.end());
  compare::describe_comparison(
      description, "identifiability",
      {{axes::test_sample, axes::layer, axes::head, axes::query, axes::key, axes::token, axes::copied_epoch,
        length, epsilon, distance_group, input_token},
       {names::tokens_x, names::tokens_y, map_head, sample_words},
       {value_width},
       measures});
}

std::unique_ptr<Experiment> make_identifiability(const Settings& settings, const RunContext& context) {
  return make_comparison(
      settings, context,
      [](const Settings& s, const CompareProblem& p) { return std::make_unique<Identifiability>(s, p); },
      ModelNeeds::states);
}

}  // namespace fluxformer
