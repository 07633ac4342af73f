#include "drivers/identifiability/token_studies.hpp"

#include <algorithm>
#include <array>
#include <sstream>

#include "analysis/identifiability/identifiability_variables.hpp"
#include "base/error.hpp"
#include "drivers/compare/compare_models.hpp"
#include "drivers/compare/model_study.hpp"

namespace fluxformer {

namespace stored = identifiability::variables;
using identifiability::IdentityRates;
using identifiability::TokenGuess;

namespace {

/// Rates that are taken of untrained models and over the training, too: those that cost little.
constexpr std::array followed = {TokenGuess::identity_cosine, TokenGuess::identity_l2,
                                 TokenGuess::linear_cosine, TokenGuess::linear_l2};

const io::Variable& variable_of(TokenGuess guess) {
  return stored::rates[static_cast<std::size_t>(guess)];
}

/// Splits further samples, none of them used in the comparison: four fifths to fit maps, the rest to choose
/// them.
identifiability::IdentitySamples split(const CompareProblem& problem, long count) {
  const auto others = problem.other_samples(count, "identifiability.fit");
  const auto& members = others.members();
  const auto cut = members.begin() + others.size() * 4 / 5;
  return {others.with({members.begin(), cut}, others.capacity()),
          others.with({cut, members.end()}, others.capacity()), problem.samples()};
}

}  // namespace

IdentityStudy::IdentityStudy(const Settings& settings, const CompareProblem& problem)
    : problem_(problem),
      samples_(split(problem, settings.integer("identifiability.fit"))),
      epochs_(settings.integers("identifiability.epochs")),
      draws_(static_cast<std::uint64_t>(settings.integer("run.seed"))) {
  const auto& maps = settings.words("identifiability.maps");
  const auto has = [&](const std::string& map) { return std::ranges::find(maps, map) != maps.end(); };
  plan_.linear = has("linear");
  plan_.mlp = has("mlp");
  plan_.seed = draws_;
  plan_.mlp_settings.hidden = settings.count("identifiability.hidden");
  plan_.mlp_settings.epochs = settings.count("identifiability.fit_epochs");
  plan_.mlp_settings.seed = draws_;
  problem.models().require_epochs(epochs_);
}

IdentityRates IdentityStudy::rates(const Parameters& parameters, bool mlp) const {
  auto plan = plan_;
  plan.mlp = plan.mlp && mlp;
  return identifiability::identity_rates(samples_, *problem_.probe(parameters), plan);
}

void IdentityStudy::begin(StudyRecord& record) {
  if (!epochs_.empty()) record.axis(axes::copied_epoch, {epochs_.begin(), epochs_.end()});
}

std::string IdentityStudy::measure(std::size_t seed, const std::string& name, Results& to) {
  const auto& models = problem_.models();
  const auto& model = models.at(seed, name);
  const auto found = rates(model.parameters, true);
  for (std::size_t k = 0; k < stored::rates.size(); ++k) to.put(stored::rates[k], found.rate[k]);
  to.put(stored::smallest_distance, found.smallest_distance);
  to.put(stored::chance, {found.chance});
  to.put(stored::sample_tokens, {found.tokens});
  to.put(stored::identical, {found.identical});
  // The null: the same rates of a model with random weights.
  const auto fresh = rates(untrained(model, draws_, models.seeds()[seed]), false);
  for (const auto guess : followed) to.put(stored::of_untrained(variable_of(guess)), fresh.of(guess));
  std::array<std::vector<double>, followed.size()> over_epochs;
  for (const long epoch : epochs_) {
    const auto then = rates(models.after_epoch(seed, name, epoch), false);
    for (std::size_t k = 0; k < followed.size(); ++k)
      over_epochs[k].insert(over_epochs[k].end(), then.of(followed[k]).begin(), then.of(followed[k]).end());
  }
  for (std::size_t k = 0; k < followed.size() && !epochs_.empty(); ++k)
    to.put(compare::after_epochs(variable_of(followed[k])), over_epochs[k]);
  std::ostringstream text;
  text << "tokens found at the end " << found.of(TokenGuess::identity_cosine).back() << ", by a linear map "
       << found.of(TokenGuess::linear_cosine).back() << ", by chance " << found.chance;
  return text.str();
}

std::vector<io::Variable> identity_variables() {
  std::vector<io::Variable> list(stored::rates.begin(), stored::rates.end());
  for (const auto guess : followed) {
    list.push_back(stored::of_untrained(variable_of(guess)));
    list.push_back(compare::after_epochs(variable_of(guess)));
  }
  for (const auto& one :
       {stored::smallest_distance, stored::chance, stored::sample_tokens, stored::identical})
    list.push_back(one);
  return list;
}

namespace {

/// Least number of random directions. The relative standard error of a squared norm from m directions is at
/// most sqrt(2/m).
constexpr int least_probes = 64;

/// Distance profiles one after the other, [depth][group].
std::vector<double> flat(const std::vector<identifiability::DistanceProfile>& profiles) {
  std::vector<double> all;
  for (const auto& one : profiles) all.insert(all.end(), one.begin(), one.end());
  return all;
}

SampleSet attributed(const Settings& settings, const CompareProblem& problem) {
  const long count = settings.integer("identifiability.attributed");
  if (count > problem.samples().size())
    throw BadInput("identifiability.attributed = " + std::to_string(count) + ": samples.count is " +
                   std::to_string(problem.samples().size()));
  return problem.samples().first(count);
}

}  // namespace

AttributionStudy::AttributionStudy(const Settings& settings, const CompareProblem& problem)
    : problem_(problem),
      samples_(attributed(settings, problem)),
      plan_{.norms = {.norm = settings.word("identifiability.norm") == "spectral"
                                  ? derivatives::BlockNorm::spectral
                                  : derivatives::BlockNorm::frobenius,
                      .probes = settings.count("identifiability.probes"),
                      .seed = static_cast<std::uint64_t>(settings.integer("run.seed"))},
            .flow_outputs = settings.count("identifiability.flow_tokens")} {
  if (plan_.norms.probes > 0 && plan_.norms.probes < least_probes)
    throw BadInput("identifiability.probes = " + std::to_string(plan_.norms.probes) + ": 0 or at least " +
                   std::to_string(least_probes) + ", fewer tell norms to no better than a fifth");
  if (plan_.norms.probes > 0 && plan_.norms.norm == derivatives::BlockNorm::spectral)
    throw BadInput("identifiability.norm = spectral: needs identifiability.probes = 0");
}

void AttributionStudy::begin(StudyRecord& record) {
  record.axis(stored::distance_group, {0, 1, 2, 3, 4, 6, 11});
  record.axis(stored::input_token, 0, problem_.line().tokens() - 1);
  record.axis(axes::token, 0, problem_.line().tokens() - 1);
}

std::string AttributionStudy::measure(std::size_t seed, const std::string& name, Results& to) {
  const auto& parameters = problem_.models().at(seed, name).parameters;
  const auto probe = problem_.probe(parameters, samples_.capacity()),
             blanked = problem_.probe(parameters, samples_.capacity());
  const auto blank = identifiability::mean_token(problem_.samples(), parameters.spec.class_tokens);
  const auto found = identifiability::attributions(samples_, *probe, *blanked, blank, plan_);
  const auto& c = found.contributions;
  std::vector<double> lower, median, upper;
  for (const auto& one : c.own_quartiles()) {
    lower.push_back(one.lower);
    median.push_back(one.median);
    upper.push_back(one.upper);
  }
  to.put(stored::own_share, c.own_share());
  to.put(stored::own_share_lower, lower);
  to.put(stored::own_share_median, median);
  to.put(stored::own_share_upper, upper);
  to.put(stored::own_largest, c.own_largest());
  to.put(stored::half_distance, c.half_distance());
  to.put(stored::contribution_by_distance, flat(c.by_group()));
  to.put(stored::contribution_by_pair, flat(c.by_pair()));
  to.put(stored::contribution_map, found.map);
  to.put(stored::contribution_error, {found.relative_error});
  to.put(stored::blanked_change, found.output_change);
  for (std::size_t e = 0; e < identifiability::effect_count; ++e) {
    to.put(stored::agreement_moved(e), {found.agreement_moved[e]});
    for (std::size_t a = 0; a < identifiability::account_count; ++a) {
      to.put(stored::agreement(a, e), found.agreement[e][a]);
      to.put(stored::times_moved(stored::agreement(a, e)), found.agreement_times_moved[e][a]);
    }
  }
  std::ostringstream text;
  text << "own share at the end " << c.own_share().back() << ", rank correlation with blanked tokens "
       << found.agreement[0][static_cast<std::size_t>(identifiability::Account::contributions)].back();
  return text.str();
}

std::vector<io::Variable> attribution_variables() {
  std::vector<io::Variable> list = {stored::own_share,
                                    stored::own_share_lower,
                                    stored::own_share_median,
                                    stored::own_share_upper,
                                    stored::own_largest,
                                    stored::half_distance,
                                    stored::contribution_by_distance,
                                    stored::contribution_by_pair,
                                    stored::contribution_map,
                                    stored::contribution_error,
                                    stored::blanked_change};
  for (std::size_t e = 0; e < identifiability::effect_count; ++e) {
    list.push_back(stored::agreement_moved(e));
    for (std::size_t a = 0; a < identifiability::account_count; ++a) {
      list.push_back(stored::agreement(a, e));
      list.push_back(stored::times_moved(stored::agreement(a, e)));
    }
  }
  return list;
}

}  // namespace fluxformer
