#include "drivers/identifiability/attribution_study.hpp"

#include <algorithm>
#include <sstream>

#include "analysis/identifiability/identifiability_variables.hpp"
#include "base/error.hpp"

namespace fluxformer {

namespace stored = identifiability::variables;

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
  const auto blank = identifiability::mean_token(problem_.samples(), parameters.spec.class_token ? 1 : 0);
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
