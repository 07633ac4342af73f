#pragma once

// The points of the theory of attention paths: temperature, width and seed.

#include <string>
#include <vector>

#include "base/settings.hpp"
#include "drivers/paths/path_tasks.hpp"
#include "drivers/study/findings.hpp"

namespace fluxformer {

/// Group of the theory in a file.
inline constexpr const char* theory_group = "theory";

/// Settings of the theory.
struct TheoryPlan {
  std::vector<double> temperatures, widths;
  int components = 0;  ///< principal components whose overlap with the targets is stored, at most
};

/// The plan of the theory.
TheoryPlan theory_plan_of(const Settings& settings);

/// The points of the theory, in the order temperature, width, seed, the last one fastest, so that each rank
/// meets few of the seeds. The last width is infinite: the Gaussian process.
class TheoryPoints {
 public:
  /// Borrows `tasks`.
  TheoryPoints(TheoryPlan plan, PathTasks& tasks);

  /// All points, in the group of the theory.
  std::vector<Place> places() const;
  const std::vector<double>& temperatures() const { return temperatures_; }
  const std::vector<double>& widths() const { return widths_; }
  /// Number of a place, by the indices of temperature, width and seed.
  std::size_t point(std::size_t temperature, std::size_t width, std::size_t seed) const;
  /// Description in one line, for the start of a run.
  std::string describe() const;
  /// Adds the axes of the measures, and the notes of the task.
  void begin(StudyRecord& record);
  /// Measures a place. Collective over the ranks that share a task.
  void measure(const Place& place, Results& to);
  /// Adds the test accuracy by width at the temperature of best validation accuracy, for tasks with further
  /// examples, the first of which are for validation.
  void conclude(const Findings& found, StudyRecord& record) const;
  /// Result in one line, for the end of the run: mean accuracies over seeds.
  std::string summary(const Findings& found) const;

  /// Results of a point that comparisons with samples use.
  struct PointResult {
    double accuracy;
    Eigen::MatrixXd u;     ///< U_1
    Eigen::VectorXd mean;  ///< mean of the predictor at each test example
  };
  /// The results of a place that comparisons with samples use.
  PointResult result_of(const Findings& found, std::size_t place) const;

 private:
  /// Puts what follows from order parameters at a width, which may be infinite.
  void put(const paths::OrderParameters& order, const paths::SaddlePoint& saddle, double width,
           double temperature, const paths::TaskTheory& theory, Results& to) const;

  PathTasks& tasks_;
  std::vector<double> temperatures_, widths_;
  std::size_t components_, layers_, paths_, most_heads_, all_heads_;
};

/// Measures and coordinates that a file can hold.
std::vector<io::Variable> theory_measures();
std::vector<io::Variable> theory_coordinates();

}  // namespace fluxformer
