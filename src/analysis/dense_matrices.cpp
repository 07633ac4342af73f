#include "analysis/dense_matrices.hpp"

#include <Eigen/Cholesky>
#include <Eigen/Eigenvalues>
#include <Eigen/QR>
#include <Eigen/SVD>
#include <algorithm>
#include <limits>

namespace fluxformer {

using Eigen::MatrixXd;
using Eigen::VectorXd;

SymmetricEigen symmetric_eigen(const MatrixXd& a, int what) {
  const Eigen::SelfAdjointEigenSolver<MatrixXd> solver(a, what);
  SymmetricEigen result{solver.eigenvalues(), {}, solver.info() == Eigen::Success};
  if (what != Eigen::EigenvaluesOnly) result.vectors = solver.eigenvectors();
  return result;
}

LeftSvd left_svd(const MatrixXd& a) {
  if (!a.allFinite()) {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    return {VectorXd::Constant(a.rows(), nan), MatrixXd::Constant(a.rows(), a.rows(), nan)};
  }
  const Eigen::JacobiSVD<MatrixXd, Eigen::NoQRPreconditioner> svd(a, Eigen::ComputeFullU);
  return {svd.singularValues(), svd.matrixU()};
}

VectorXd singular_values_of(const MatrixXd& a) {
  if (!a.allFinite())  // Eigen would leave the values uninitialised
    return VectorXd::Constant(std::min(a.rows(), a.cols()), std::numeric_limits<double>::quiet_NaN());
  return Eigen::BDCSVD<MatrixXd>(a).singularValues();
}

double largest_eigenvalue(const MatrixXd& a) {
  if (!a.allFinite()) return std::numeric_limits<double>::quiet_NaN();
  return Eigen::EigenSolver<MatrixXd>(a, false).eigenvalues().cwiseAbs().maxCoeff();
}

ThinQr thin_qr(const MatrixXd& a) {
  // Q = H_1 ... H_k times the first columns of the identity; qr.matrixQR() holds R on and above its diagonal.
  const Eigen::HouseholderQR<MatrixXd> qr(a);
  return {qr.householderQ() * MatrixXd::Identity(a.rows(), a.cols()), qr.matrixQR().diagonal()};
}

Cholesky::Cholesky(const MatrixXd& a) {
  const Eigen::LLT<MatrixXd> factor(a);
  positive_ = factor.info() == Eigen::Success;
  lower_ = factor.matrixLLT();
}

MatrixXd Cholesky::lower() const {
  return lower_.triangularView<Eigen::Lower>();
}

// ln det A = ln (det L)^2 = 2 sum_i ln L_ii
double Cholesky::log_det() const {
  return 2 * lower_.diagonal().array().log().sum();
}

VectorXd Cholesky::solve_lower(const VectorXd& b) const {
  return lower_.triangularView<Eigen::Lower>().solve(b);
}

// A X = L (L^T X) = B: forward, then backward substitution
MatrixXd Cholesky::solve(const MatrixXd& b) const {
  MatrixXd x = lower_.triangularView<Eigen::Lower>().solve(b);
  lower_.triangularView<Eigen::Lower>().adjoint().solveInPlace(x);
  return x;
}

}  // namespace fluxformer
