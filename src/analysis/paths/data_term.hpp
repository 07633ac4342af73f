#pragma once

// What the theory of attention paths needs of the data, on one rank or shared by several. Source:
// docs/model.md, sections 11.4 and 11.6.

#include <Eigen/Core>
#include <vector>

#include "analysis/paths/path_examples.hpp"
#include "analysis/paths/path_kernels.hpp"
#include "analysis/shared_matrices.hpp"
#include "base/index.hpp"

namespace fluxformer::paths {

/// E(U_1) and its slope, where all entries of U_1 count as independent.
struct DataSlope {
  double value = 0;            ///< E; infinite if K + T I is not positive definite
  Eigen::MatrixXd slope = {};  ///< dE/dU_1, Hs x Hs, symmetric; empty where E is infinite
};

/// The known examples of a task. All functions that take U_1 are collective over `comm` and use the U_1 of
/// its first rank. They throw on all ranks or on none, and begin with an agreement, so that a rank that has
/// failed by itself does not leave the others waiting (all_or_none).
class DataTerm {
 public:
  virtual ~DataTerm() = default;
  /// The ranks that share the examples.
  virtual MPI_Comm comm() const = 0;
  virtual int paths() const = 0;
  /// P, over all ranks.
  virtual Index examples() const = 0;
  /// E.
  virtual double energy(const Eigen::MatrixXd& u, double temperature) const = 0;
  /// E and dE/dU_1.
  virtual DataSlope energy_and_slope(const Eigen::MatrixXd& u, double temperature) const = 0;
  /// Predictions for several sets of other examples, whole on all ranks; K + T I is factorised once. Throws
  /// NumericalFailure if it is not positive definite.
  virtual std::vector<Prediction> predict(const Eigen::MatrixXd& u, double temperature,
                                          const std::vector<const PathExamples*>& sets) const = 0;
  /// Overlaps of the targets with the eigenvectors of K, without T (task_overlaps).
  virtual Eigen::VectorXd overlaps(const Eigen::MatrixXd& u) const = 0;
};

/// The data of one rank, by kernels between all pairs of examples. Not collective.
class LocalData final : public DataTerm {
 public:
  /// The kernels and the inputs of the examples are borrowed. Throws BadInput unless there is a target for
  /// each example.
  LocalData(const PathKernels& kernels, Eigen::VectorXd targets);

  MPI_Comm comm() const override { return MPI_COMM_SELF; }
  int paths() const override { return kernels_.paths(); }
  Index examples() const override { return kernels_.examples(); }
  double energy(const Eigen::MatrixXd& u, double temperature) const override;
  DataSlope energy_and_slope(const Eigen::MatrixXd& u, double temperature) const override;
  std::vector<Prediction> predict(const Eigen::MatrixXd& u, double temperature,
                                  const std::vector<const PathExamples*>& sets) const override;
  Eigen::VectorXd overlaps(const Eigen::MatrixXd& u) const override;

 private:
  const PathKernels& kernels_;
  Eigen::VectorXd targets_;
};

/// The data of several ranks: each holds some of the examples, and their columns of K. With A = K + T I = L
/// L^T, y~ = L^-1 y and Y_pi = L^-1 X_pi (X_pi: P x D, inputs of a path times s_0/sqrt(D Hs)):
///
///     E = ln det A + |y~|^2        dE/dU^{pi pi'} = tr Y_pi^T Y_pi' - (Y_pi^T y~).(Y_pi'^T y~)
///     mean(x) = (L^-1 k).y~        var(x) = k(x, x) - |L^-1 k|^2
///
/// so that neither A^-1 nor M is made. Inputs go round in blocks of examples. Memory on each of R ranks: P/R
/// columns of K, and as much again as its inputs (Hs D P/R) for the work.
class SharedData final : public DataTerm {
 public:
  /// `examples` hold the inputs of this rank's examples and the targets of all; they are borrowed. `share` is
  /// the share of this rank of `comm`, which is borrowed, too. Collective; throws BadInput where these do not
  /// fit.
  SharedData(MPI_Comm comm, const PathExamples& examples, const ExampleShare& share, int paths,
             double input_variance = 1);

  MPI_Comm comm() const override { return comm_; }
  int paths() const override { return paths_; }
  Index examples() const override { return known_.targets.size(); }
  double energy(const Eigen::MatrixXd& u, double temperature) const override;
  DataSlope energy_and_slope(const Eigen::MatrixXd& u, double temperature) const override;
  /// Predictions; the sets are shared as the known examples are.
  std::vector<Prediction> predict(const Eigen::MatrixXd& u, double temperature,
                                  const std::vector<const PathExamples*>& sets) const override;
  Eigen::VectorXd overlaps(const Eigen::MatrixXd& u) const override;

 private:
  /// Writes K + T I to `columns_`, on and below the diagonal.
  void assemble(const Eigen::MatrixXd& u, double temperature) const;
  /// L^-1 of the inputs of all paths, without the scale of X, for the input dimensions of this rank:
  /// [dimension][path] in columns, in the place of `work_`.
  Eigen::Map<Eigen::MatrixXd> solved_inputs(const SharedCholesky& factor) const;
  Prediction predict(const Eigen::MatrixXd& u, const SharedCholesky& factor, const Eigen::VectorXd& solved,
                     const PathExamples& others) const;
  /// The u of the first rank, until the next call.
  const Eigen::MatrixXd& of_first(const Eigen::MatrixXd& u) const;
  /// Calls use(first example, rows) for the inputs of all examples, block by block. If that fails on a rank,
  /// all throw at the end.
  template <class Use>
  void each_block(Use&& use) const;
  int dimension() const { return known_.inputs.cols() / paths_; }
  /// Number of input dimensions of each rank but the last ones.
  int dimensions_each() const;

  const PathExamples& known_;
  ExampleShare share_;
  int paths_;
  double scale_;
  MPI_Comm comm_;
  RankRow ranks_;
  mutable Eigen::MatrixXd columns_;  ///< K, then L: P x (examples of this rank)
  mutable Eigen::VectorXd work_;     ///< mixed inputs, then L^-1 X
  mutable RowMatrix block_;          ///< inputs on their way round
  mutable Eigen::MatrixXd u_;        ///< U_1 of the first rank
};

}  // namespace fluxformer::paths
