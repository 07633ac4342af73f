#pragma once

// What the theory of attention paths needs of the data, wherever these are: on one rank, or shared by several. Source: specification of attention
// paths, sections 2.2, 2.3, 2.5 and 2.7.

#include <Eigen/Core>
#include <vector>

#include "analysis/paths/path_examples.hpp"
#include "analysis/paths/path_kernels.hpp"
#include "analysis/shared_matrices.hpp"

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

// The data of one rank alone.

/// By kernels between all pairs of examples. Not collective.
class LocalData final : public DataTerm {
 public:
  /// The kernels and the inputs of the examples are used, not copied. Throws BadInput where there is not a target for each example.
  LocalData(const PathKernels& kernels, Eigen::VectorXd targets);

  MPI_Comm comm() const override { return MPI_COMM_SELF; }
  int paths() const override { return kernels_.paths(); }
  Eigen::Index examples() const override { return kernels_.examples(); }
  double energy(const Eigen::MatrixXd& u, double temperature) const override;
  DataSlope energy_and_slope(const Eigen::MatrixXd& u, double temperature) const override;
  std::vector<Prediction> predict(const Eigen::MatrixXd& u, double temperature,
                                  const std::vector<const PathExamples*>& sets) const override;
  Eigen::VectorXd overlaps(const Eigen::MatrixXd& u) const override;

 private:
  const PathKernels& kernels_;
  Eigen::VectorXd targets_;
};

// The data of several ranks: each holds some of the examples, and their columns of K. With A = K + T I = L L^T, y~ = L^-1 y and
// Y_pi = L^-1 X_pi (X_pi: P x D, inputs of a path times s_0/sqrt(D Hs)):
//
//   E = ln det A + |y~|^2        dE/dU^{pi pi'} = tr Y_pi^T Y_pi' - (Y_pi^T y~).(Y_pi'^T y~)
//   mean(x) = (L^-1 k).y~        var(x) = k(x, x) - |L^-1 k|^2
//
// so that neither A^-1 nor M = A^-1 - b b^T is made. Inputs go round in blocks of examples. Source: specification of attention paths, section 2.

/// P/R columns of K on each of R ranks, and as much again as its inputs (Hs D P/R) for the work.
class SharedData final : public DataTerm {
 public:
  /// `examples` hold the inputs of this rank's examples and the targets of all; `share` is that of this rank of `comm`. They are used, not
  /// copied. Collective; throws BadInput where these do not fit.
  SharedData(MPI_Comm comm, const PathExamples& examples, const ExampleShare& share, int paths,
             double input_variance = 1);

  MPI_Comm comm() const override { return ranks_.comm(); }
  int paths() const override { return paths_; }
  Eigen::Index examples() const override { return known_.targets.size(); }
  double energy(const Eigen::MatrixXd& u, double temperature) const override;
  DataSlope energy_and_slope(const Eigen::MatrixXd& u, double temperature) const override;
  /// The sets are shared as the known examples are.
  std::vector<Prediction> predict(const Eigen::MatrixXd& u, double temperature,
                                  const std::vector<const PathExamples*>& sets) const override;
  Eigen::VectorXd overlaps(const Eigen::MatrixXd& u) const override;

 private:
  /// K + T I in the place of `columns_`, on and below the diagonal.
  void assemble(const Eigen::MatrixXd& u, double temperature) const;
  /// L^-1 X of all paths, for the input dimensions of this rank: [dimension][path] in columns, in the place of `work_`. Without the
  /// scale of X.
  Eigen::Map<Eigen::MatrixXd> solved_inputs(const SharedCholesky& factor) const;
  Prediction predict(const Eigen::MatrixXd& u, const SharedCholesky& factor, const Eigen::VectorXd& solved,
                     const PathExamples& others) const;
  /// u of the first rank.
  Eigen::MatrixXd of_first(Eigen::MatrixXd u) const;
  /// The inputs of all examples, block by block: use(first example, rows).
  template <class Use>
  void each_block(Use&& use) const;
  int dimension() const { return static_cast<int>(known_.inputs.cols()) / paths_; }
  /// Input dimensions of each rank but for the last ones, and the first of this rank's.
  int dimensions_each() const;

  const PathExamples& known_;
  ExampleShare share_;
  int paths_;
  double scale_;
  RankRow ranks_;
  mutable Eigen::MatrixXd columns_;  // K, then L: P x (examples of this rank)
  mutable Eigen::VectorXd work_;     // mixed inputs, then L^-1 X
  mutable RowMatrix block_;          // inputs on their way round
};

}  // namespace fluxformer::paths
