#pragma once

// The points of the theory of attention paths: temperature, width and seed.

#include <string>
#include <vector>

#include "base/settings.hpp"
#include "drivers/common/point_sweep.hpp"
#include "drivers/compare/study_record.hpp"
#include "drivers/paths/path_tasks.hpp"

namespace fluxformer {

/// The points of the theory, in the order temperature, width, seed, the last one fastest, so that each rank
/// meets few of the seeds. The last width is infinite: the Gaussian process.
class TheoryPoints final : public SweepPoints {
 public:
  /// Reads the keys of the theory; `tasks` is borrowed. Throws BadInput, on every rank.
  TheoryPoints(const Settings& settings, PathTasks& tasks);

  std::size_t count() const override { return temperatures_.size() * widths_.size() * tasks_.seeds().size(); }
  std::size_t numbers(std::size_t point) const override;
  /// Computes the results of a point. Collective over the ranks that share a task.
  std::vector<double> measure(std::size_t point) override;
  const std::vector<double>& temperatures() const { return temperatures_; }
  const std::vector<double>& widths() const { return widths_; }
  /// Index of a point.
  std::size_t point(std::size_t temperature, std::size_t width, std::size_t seed) const;
  /// Results of a point that comparisons with samples use.
  struct PointResult {
    double accuracy;
    Eigen::MatrixXd u;     ///< U_1
    Eigen::VectorXd mean;  ///< mean of the predictor at each test example
  };
  /// Reads them from the numbers that `measure` gave.
  PointResult result_of(const std::vector<double>& numbers) const;
  /// Description in one line, for the start of a run.
  std::string describe() const;
  /// Result in one line, for the end of a run: mean accuracies over seeds.
  std::string summary(const std::vector<std::vector<double>>& found) const;

  /// Adds the axes of the measures, and the notes of the task.
  void add_axes(StudyRecord& record);
  /// Adds the measures of all points to the record; `found` and `seconds` are by point.
  void add(const std::vector<std::vector<double>>& found, const std::vector<double>& seconds,
           StudyRecord& record) const;

 private:
  /// Test accuracy by width at the temperature of best validation accuracy; only for tasks with further
  /// examples, the first of which are for validation.
  std::vector<double> chosen_accuracies(const std::vector<std::vector<double>>& found,
                                        std::size_t seed) const;

  struct PointParameters {
    double temperature, width;
    long seed;
    bool limit;  // true: the width is infinite
  };
  PointParameters parameters_of(std::size_t point) const;
  std::vector<double> solved(const PointParameters& at, const paths::TaskTheory& theory,
                             const paths::OrderParameters& order, const paths::SaddlePoint& saddle) const;

  PathTasks& tasks_;
  std::vector<double> temperatures_, widths_;
  std::size_t components_, layers_, paths_, most_heads_, all_heads_;
};

/// Measures and coordinates that a file can hold.
std::vector<io::Variable> theory_measures();
std::vector<io::Variable> theory_coordinates();

}  // namespace fluxformer
