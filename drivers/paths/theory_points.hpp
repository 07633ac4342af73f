#pragma once

// The points of the theory of attention paths: temperature, width and seed.

#include <string>
#include <vector>

#include "base/settings.hpp"
#include "drivers/common/point_sweep.hpp"
#include "drivers/compare/study_record.hpp"
#include "drivers/paths/path_tasks.hpp"

namespace fluxformer {

/// In the order temperature, width, seed, the last one fastest, so that each rank meets few of the seeds. The last width is
/// infinite: the Gaussian process.
class TheoryPoints final : public SweepPoints {
 public:
  /// Throws BadInput, on every rank. `tasks` is used, not copied.
  TheoryPoints(const Settings& settings, PathTasks& tasks);

  std::size_t count() const override { return temperatures_.size() * widths_.size() * tasks_.seeds().size(); }
  std::size_t numbers(std::size_t point) const override;
  /// Collective over the ranks that share a task.
  std::vector<double> measure(std::size_t point) override;
  const std::vector<double>& temperatures() const { return temperatures_; }
  const std::vector<double>& widths() const { return widths_; }
  /// The place of a point.
  std::size_t point(std::size_t temperature, std::size_t width, std::size_t seed) const;
  /// What the numbers of a point say.
  struct Told {
    double accuracy;
    Eigen::MatrixXd u;     ///< U_1
    Eigen::VectorXd mean;  ///< of the predictor of each test example
  };
  /// Of the numbers that `measure` gave.
  Told told(const std::vector<double>& numbers) const;
  /// One line for the start of a run.
  std::string describe() const;
  /// One line for the end: mean accuracies over seeds.
  std::string summary(const std::vector<std::vector<double>>& found) const;

  /// The axes of the measures, and what they are called.
  void add_axes(StudyRecord& record);
  /// Puts the measures of all points into the record; `found` and `seconds` by point.
  void add(const std::vector<std::vector<double>>& found, const std::vector<double>& seconds,
           StudyRecord& record) const;

 private:
  /// By width; only for tasks with further examples, the first of them for validation.
  std::vector<double> chosen_accuracies(const std::vector<std::vector<double>>& found,
                                        std::size_t seed) const;

  struct Place {
    double temperature, width;
    long seed;
    bool limit;  // of infinite width
  };
  Place place(std::size_t point) const;
  std::vector<double> solved(const Place& at, const paths::TaskTheory& theory,
                             const paths::OrderParameters& order, const paths::SaddlePoint& saddle) const;

  PathTasks& tasks_;
  std::vector<double> temperatures_, widths_;
  std::size_t components_, layers_, paths_, most_heads_, all_heads_;
};

/// What a file holds of them.
std::vector<io::Variable> theory_measures();
std::vector<io::Variable> theory_coordinates();

}  // namespace fluxformer
