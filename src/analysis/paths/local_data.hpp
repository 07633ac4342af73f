#pragma once

// The data of one rank alone.

#include "analysis/paths/data_term.hpp"
#include "analysis/paths/path_kernels.hpp"

namespace fluxformer::paths {

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

}  // namespace fluxformer::paths
