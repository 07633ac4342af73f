#pragma once

// What studies of tokens that gather in time have in common: keys, stored times, places, and what is found at these times.

#include <string>
#include <utility>
#include <vector>

#include "base/index.hpp"
#include "base/options.hpp"
#include "base/settings.hpp"
#include "base/statistics.hpp"
#include "drivers/study/study.hpp"
#include "io/variable.hpp"

namespace fluxformer {

/// Settings of such a study.
struct Gathering {
  double beta = 1;
  std::vector<long> seeds = {1};
  double end = 0, every = 0;  ///< end time, and time between two stored times
  double delta = 0;           ///< angle up to which tokens belong together, in radians
  double share = 1;      ///< share of tokens in compact components from which components count as clusters
  double tolerance = 0;  ///< error of a step

  /// 0, every, 2 every, ..., end
  std::vector<double> times() const;
  /// Adds the axes of seeds, times and clusters, and what is known of `tokens` tokens.
  void begin(StudyRecord& record, Index tokens) const;
};

/// Declares the keys of the error of a step and of counts.
void declare_steps_and_counts(Options& options);
/// Declares all keys; `end`: default of clusters.time.
void declare_gathering(Options& options, double end);
/// Reads them. Throws BadInput, the same on all ranks.
Gathering plan_of_gathering(const Settings& settings);

/// One place for each seed.
std::vector<Place> places_of_seeds(const std::vector<long>& seeds);

/// The default of clusters.delta, in radians: within this angle tokens draw together.
double width_of_kernel(double beta);
/// clusters.delta, or its default, in radians. Throws BadInput, the same on all ranks.
double cluster_width(const Settings& settings);

/// The time in which a displacement grows at `rate` from the noise of n random tokens, n^{-1/2}, to order one.
double formation_time(Index tokens, double rate);

/// Numbers at the stored times so far, by variable.
class Course {
 public:
  /// Adds the numbers of a variable at the next time.
  void add(const io::Variable& variable, const std::vector<double>& numbers);
  void add(const io::Variable& variable, double number) { add(variable, std::vector{number}); }
  /// Adds the clusters at the next time: how many, NaN for none, and their shares of the tokens, the largest first.
  void add_clusters(double time, double number, const std::vector<double>& masses);
  /// Puts all of them, and the first time with clusters.
  void put(Results& to) const;
  /// Clusters at the end and their beginning, in words: "3 clusters at t = 20, the first at t = 8".
  std::string words() const;

 private:
  std::vector<std::pair<io::Variable, std::vector<double>>> numbers_;
  double last_ = 0, clusters_ = missing_value, formed_ = missing_value;
};

}  // namespace fluxformer
