#pragma once

// Studies of tokens that gather in time: from each start they move, and are looked at at the stored times. Keys, starts, and the way of a
// seed, which may be stopped and continued everywhere.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "analysis/clusters/evenly_spread.hpp"
#include "analysis/clusters/growth_rates.hpp"
#include "base/index.hpp"
#include "base/options.hpp"
#include "base/settings.hpp"
#include "drivers/clusters/course.hpp"
#include "drivers/clusters/moving.hpp"
#include "drivers/study/study.hpp"

namespace fluxformer {

/// Tokens of a file as a start.
struct TokensOfFile {
  clusters::Tokens tokens = {};  ///< unit vectors, all of them on each rank
  Study::Source source = {};
};

/// Settings of such a study.
struct Gathering {
  double beta = 1;
  clusters::Weights normalisation = clusters::Weights::softmax;
  std::string start = {};           ///< clusters.start
  std::vector<long> seeds = {};     ///< empty: nothing is random
  std::vector<double> times = {0};  ///< stored times, from 0 to the end
  double delta = 0;                 ///< angle up to which tokens belong together, in radians
  double share = 1;      ///< share of tokens in compact components from which components count as clusters
  double tolerance = 0;  ///< error of a step

  double end() const { return times.back(); }
  /// Length of the first step.
  double first_step() const { return 0.1 / (1 + beta); }
  /// The number of clusters among so many components; NaN unless tokens are in compact ones.
  double number(double components, double compact_share) const {
    return compact_share >= share ? components : missing_value;
  }
};

/// The word for a start from a file, a choice of clusters.start.
inline constexpr const char* file_start = "file";

/// Declares the keys of the error of a step and of counts.
void declare_steps_and_counts(Options& options);
/// Declares clusters.beta, normalisation, seeds, which count where `random` holds, and stored times; `end`: default of clusters.time.
void declare_gathering(Options& options, double end, const Condition& random);
/// Declares the keys of a start from a file.
void declare_file_start(Options& options);
/// Reads all of them. Throws BadInput, the same on all ranks.
Gathering plan_of_gathering(const Settings& settings);
/// Reads the sample clusters.sample of data.file if the tokens start from there. Collective; throws BadInput (agreed).
std::optional<TokensOfFile> tokens_of_file(const Settings& settings, MPI_Comm comm);

/// One place for each seed, in the group of this attention.
std::vector<Place> places_of_seeds(const std::vector<long>& seeds, clusters::Weights normalisation);

/// The time in which a displacement grows at `rate` from the noise of n random tokens, n^{-1/2}, to order one.
double formation_time(Index tokens, double rate);

/// The masses of clusters as a row lists them: the largest first, filled with 0. Of components that do not count as clusters (`number` is
/// NaN) none are listed.
std::vector<double> listed_masses(double number, std::vector<double> masses);

/// A study that follows one start after another, on all ranks together.
class GatheringStudy : public Study {
 public:
  std::vector<Place> places() const override;
  std::string unit() const override { return "seeds"; }
  int ranks_of_place() const override { return all_ranks; }
  std::vector<Source> sources() const override { return sources_; }
  void measure(const Place& place, Results& to) override;
  bool half_way() const override { return moving_ != nullptr; }
  void save(io::CheckpointWriter& file) const override;
  void load(const Place& place, const io::CheckpointReader& file) override;
  std::string summary(const Findings& found) const override;

 protected:
  /// `columns`: what `look` finds.
  GatheringStudy(Gathering plan, const std::optional<TokensOfFile>& from_file,
                 std::vector<Course::Column> columns);
  /// Adds the axes of seeds, times and clusters.
  void begin(StudyRecord& record) override;

  /// The tokens at the start of a seed, and those of a checkpoint. Collective; throws BadInput (agreed).
  virtual std::unique_ptr<Moving> start(long seed) const = 0;
  virtual std::unique_ptr<Moving> restart(const io::CheckpointReader& file) const = 0;
  /// The row of the present time; `moving` is one of those. Collective.
  virtual Course::Row look(Moving& moving) const = 0;
  /// Puts what follows from the course of a seed, whose columns were put, and returns it in words.
  virtual std::string conclude_seed(const Course& course, const Moving& moving, Results& to) const = 0;
  /// Puts when clusters have formed and merged, and returns it in words. Of a course with the column `number`.
  std::string put_clusters(const Course& course, Results& to) const;
  /// The beginning of clusters by theory, in words.
  virtual std::string theory() const = 0;

  const Gathering& plan() const { return plan_; }
  /// Bytes of the courses of all seeds.
  double bytes_of_course() const;

 private:
  Gathering plan_;
  std::vector<Source> sources_;
  // The present seed, if it has begun.
  std::unique_ptr<Moving> moving_;
  Course course_;
};

}  // namespace fluxformer
