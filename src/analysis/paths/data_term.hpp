#pragma once

// What the theory of attention paths needs of the data, wherever these are: on one rank, or shared by several. Source: specification of attention
// paths, sections 2.2, 2.3, 2.5 and 2.7.

#include <Eigen/Core>
#include <vector>

#include "analysis/paths/path_examples.hpp"
#include "analysis/paths/path_predictor.hpp"

namespace fluxformer::paths {

/// E(U_1), and its derivatives where all entries of U_1 count as independent: symmetric.
struct DataSlope {
  double value = 0;            ///< E; infinite if K + T I is not positive definite
  Eigen::MatrixXd slope = {};  ///< dE/dU_1, Hs x Hs; empty where E is infinite
};

/// The known examples of a task. All functions that take U_1 are collective over `comm`, whose first rank's U_1 is used.
class DataTerm {
 public:
  virtual ~DataTerm() = default;
  /// The ranks that share the examples.
  virtual MPI_Comm comm() const = 0;
  virtual int paths() const = 0;
  /// P, of all ranks.
  virtual Eigen::Index examples() const = 0;
  /// E alone.
  virtual double energy(const Eigen::MatrixXd& u, double temperature) const = 0;
  /// With its slope.
  virtual DataSlope energy_and_slope(const Eigen::MatrixXd& u, double temperature) const = 0;
  /// What is predicted for each of several sets of other examples, whole on all ranks; K + T I is factorised once. Throws
  /// NumericalFailure if it is not positive definite.
  virtual std::vector<Prediction> predict(const Eigen::MatrixXd& u, double temperature,
                                          const std::vector<const PathExamples*>& sets) const = 0;
  /// As by `task_overlaps`, of K without T.
  virtual Eigen::VectorXd overlaps(const Eigen::MatrixXd& u) const = 0;
};

}  // namespace fluxformer::paths
