#pragma once

// The data of several ranks: each holds some of the examples, and their columns of K. With A = K + T I = L L^T, y~ = L^-1 y and
// Y_pi = L^-1 X_pi (X_pi: P x D, inputs of a path times s_0/sqrt(D Hs)):
//
//   E = ln det A + |y~|^2        dE/dU^{pi pi'} = tr Y_pi^T Y_pi' - (Y_pi^T y~).(Y_pi'^T y~)
//   mean(x) = (L^-1 k).y~        var(x) = k(x, x) - |L^-1 k|^2
//
// so that neither A^-1 nor M = A^-1 - b b^T is made. Inputs go round in blocks of examples. Source: specification of attention paths, section 2.

#include "analysis/paths/data_term.hpp"
#include "analysis/paths/example_share.hpp"
#include "analysis/shared_matrices.hpp"

namespace fluxformer::paths {

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
