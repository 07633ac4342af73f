#include "analysis/identifiability/thin_svd.hpp"

#include <algorithm>
#include <limits>
#include <vector>

#include "analysis/lapack.hpp"

namespace fluxformer::identifiability {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

int blas(Index count) {
  return static_cast<int>(count);
}

/// `a` is overwritten. left: n x min(n, m), or null if U is not wanted.
VectorXd decompose(MatrixXd& a, MatrixXd* left) {
  const Index least = std::min(a.rows(), a.cols());
  VectorXd values = VectorXd::Constant(least, std::numeric_limits<double>::quiet_NaN());
  if (left) *left = MatrixXd::Constant(a.rows(), least, std::numeric_limits<double>::quiet_NaN());
  if (least == 0 || !a.allFinite()) return values;
  const int n = blas(a.rows()), m = blas(a.cols()), one = 1;
  // More than the least that LAPACK asks for, so that it works in blocks.
  std::vector<double> work(5 * least + 64 * (a.rows() + a.cols()));
  const int size = static_cast<int>(work.size());
  int info = 0;
  double unused = 0;
  dgesvd_(left ? "S" : "N", "N", &n, &m, a.data(), &n, values.data(), left ? left->data() : &unused, &n,
          &unused, &one, work.data(), &size, &info);
  if (info != 0) values.setConstant(std::numeric_limits<double>::quiet_NaN());
  return values;
}

/// Householder's reflections below the diagonal of `a`, R in its upper triangle; returns their factors.
std::vector<double> reflect(MatrixXd& a) {
  const Index least = std::min(a.rows(), a.cols());
  std::vector<double> tau(least), work(static_cast<std::size_t>(64 * a.cols()));
  if (least == 0) return tau;
  const int n = blas(a.rows()), m = blas(a.cols()), size = static_cast<int>(work.size());
  int info = 0;
  dgeqrf_(&n, &m, a.data(), &n, tau.data(), work.data(), &size, &info);
  return tau;
}

MatrixXd upper_of(const MatrixXd& a) {
  return a.topRows(std::min(a.rows(), a.cols())).triangularView<Eigen::Upper>();
}

}  // namespace

QrFactors qr_factors(MatrixXd a) {
  const auto tau = reflect(a);
  QrFactors factors{.q = a.leftCols(std::min(a.rows(), a.cols())), .r = upper_of(a)};
  const int n = blas(a.rows()), k = blas(factors.q.cols());
  if (k == 0) return factors;
  std::vector<double> work(64 * k);
  const int size = static_cast<int>(work.size());
  int info = 0;
  dorgqr_(&n, &k, &k, factors.q.data(), &n, tau.data(), work.data(), &size, &info);
  return factors;
}

MatrixXd upper_factor(MatrixXd a) {
  reflect(a);
  return upper_of(a);
}

ThinSvd thin_svd(MatrixXd a) {
  ThinSvd svd;
  svd.values = decompose(a, &svd.left);
  return svd;
}

VectorXd singular_values(MatrixXd a) {
  return decompose(a, nullptr);
}

}  // namespace fluxformer::identifiability
