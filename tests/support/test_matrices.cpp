#include "tests/support/test_matrices.hpp"

#include <Eigen/SVD>
#include <algorithm>
#include <cmath>

namespace fluxformer::test {

using Eigen::MatrixXd;
// Square matrices only: the preceding QR for other shapes takes long to compile.
using Jacobi = Eigen::JacobiSVD<MatrixXd, Eigen::NoQRPreconditioner>;

MatrixXd product(const MatrixXd& a, const MatrixXd& b) {
  return a * b;
}

Eigen::VectorXd singular_values(const MatrixXd& a) {
  MatrixXd square = MatrixXd::Zero(std::max(a.rows(), a.cols()), std::max(a.rows(), a.cols()));
  square.topLeftCorner(a.rows(), a.cols()) = a;  // the rest adds zeros
  return Jacobi(square).singularValues().head(std::min(a.rows(), a.cols()));
}

MatrixXd orthogonal_factor(const MatrixXd& a) {
  MatrixXd q = a;
  for (Eigen::Index j = 0; j < q.cols(); ++j) {
    const auto before = q.leftCols(j);
    for (int pass = 0; pass < 2; ++pass)  // Gram-Schmidt twice is enough (Giraud et al. 2005)
      q.col(j) -= before * (before.transpose() * q.col(j));
    q.col(j).normalize();
  }
  return q;
}

double spectral_radius(MatrixXd a) {
  double logarithm = 0, power = 1;
  for (int k = 0; k < 60; ++k, power *= 2) {
    const double size = a.norm();
    logarithm += std::log(size) / power;
    a /= size;
    a = product(a, a);
  }
  return std::exp(logarithm);
}

}  // namespace fluxformer::test
