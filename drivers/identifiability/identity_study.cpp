#include "drivers/identifiability/identity_study.hpp"

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

}  // namespace fluxformer
