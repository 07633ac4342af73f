#pragma once

// The effects of patches on the pairs of a model, by all accounts that were asked for, and how well these agree.

#include <mpi.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "analysis/interventions/agreement.hpp"
#include "analysis/interventions/intervention_variables.hpp"
#include "drivers/interventions/pairs.hpp"
#include "drivers/study/findings.hpp"

namespace fluxformer::interventions {

/// Everything that a run measures of a model.
struct InterventionPlan {
  PairPlan pairs;
  std::vector<Site> sites;  ///< of this model
  bool exact = true, softmax = true, second = true, reverse = true;
  bool integrated = false, token_pairs = false, zeroing = false;
  enum class Put { donor, mean, zero } put = Put::donor;
  double verify = 1, limit = 0.1, tolerance = 1e-8;
  int runs = 16, face = -1;
  std::vector<double> doses;
  std::uint64_t seed = 1;

  /// Faces alone where no other site is asked for.
  SiteScope scope() const {
    return sites == std::vector<Site>{Site::face} && !zeroing ? SiteScope::faces : SiteScope::cells;
  }
};

/// Reports a step of the work, `share` of the pairs being done; false if the run is asked to stop. Collective.
using Step = std::function<bool(double share, const std::string& note)>;

/// The accounts of effects on the pairs of a model. Ranks share the runs, the faces and the samples of means; everything
/// else is computed on all of them, to the same bits. Members are collective over `comm`.
class MeasuredPairs {
 public:
  /// `plan` and `runs` are borrowed. `called` names the model in messages.
  MeasuredPairs(const InterventionPlan& plan, SampleRuns& runs, std::vector<SamplePair> pairs,
                std::string called, MPI_Comm comm);
  /// Measures all pairs; `members`: samples of the means that are put. False if the run was asked to stop. Throws
  /// NumericalFailure for a goal that is not finite.
  bool measure(const std::vector<std::size_t>& members, const Step& step);
  /// Puts the results. Not collective.
  void put(Results& to) const;
  /// The result in a few words.
  std::string words() const;

 private:
  using Account = variables::Account;
  /// A pair while it is measured.
  struct Patched {
    SamplePair pair = {};
    Run clean = {}, donor = {};
    SiteNumbers put = {}, slopes = {}, slopes_of_other = {};
  };
  Patched patched(std::size_t number);
  void measure_site(const Patched& of, Site site);
  std::vector<double> first_by(const Patched& of, Site site, const SiteNumbers& slopes);
  std::vector<double> run_again(Site site, const Run& own, const SiteNumbers& put, const Question& question,
                                const std::vector<Index>& places);
  std::vector<double> second_order(const Patched& of, const std::vector<double>& first);
  std::vector<double> integrate(const Patched& of);
  void pairs_of_tokens(const Patched& of);
  void zero_values(const Patched& of);
  /// Appends the effects of a pair at a site; those of padding become NaN.
  void keep(Site site, Account account, std::vector<double> effects, int length);
  void compare();
  bool measured(Site site, Account account) const { return effects_.contains({site, account}); }
  int face() const;

  const InterventionPlan& plan_;
  SampleRuns& runs_;
  std::vector<SamplePair> pairs_;
  std::string called_;
  MPI_Comm comm_;
  SiteNumbers mean_;
  std::map<std::pair<Site, Account>, std::vector<double>> effects_;  // [pair][place]
  std::vector<double> clean_, donor_, gap_, estimate_, nodes_, curvature_, together_, pairs_spearman_,
      zeroing_;
  std::vector<double> spearman_, pearson_, error_, top_, spearman_at_, untrusted_at_;
};

}  // namespace fluxformer::interventions
