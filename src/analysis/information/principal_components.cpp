#include "analysis/information/principal_components.hpp"

#include <algorithm>
#include <string>

#include "analysis/dense_matrices.hpp"
#include "base/error.hpp"

namespace fluxformer::information {
namespace {

using Rows = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

}  // namespace

PrincipalComponents principal_components(const Points& states, std::size_t m) {
  require_points("principal components", states);
  const auto count = static_cast<Eigen::Index>(states.count),
             d = static_cast<Eigen::Index>(states.components);
  if (m < 1 || m > states.components)
    throw BadInput("principal components: " + std::to_string(m) + " asked for; there can be 1 to " +
                   std::to_string(states.components));
  Rows centred = Eigen::Map<const Rows>(states.data, count, d);
  centred.rowwise() -= centred.colwise().mean().eval();
  const Eigen::MatrixXd covariance = centred.transpose() * centred / static_cast<double>(count);
  const SymmetricEigen eigen = symmetric_eigen(covariance);
  if (!eigen.converged)
    throw NumericalFailure("principal components: the eigenvalues of the covariance do not converge");

  PrincipalComponents result;
  result.count = states.count;
  result.components = m;
  result.total_variance = covariance.trace();
  Rows axes(static_cast<Eigen::Index>(m), d);
  for (Eigen::Index j = 0; j < axes.rows(); ++j) {
    const Eigen::Index from_top = d - 1 - j;  // ascending order
    Eigen::Index largest = 0;
    eigen.vectors.col(from_top).cwiseAbs().maxCoeff(&largest);
    const double sign = eigen.vectors(largest, from_top) < 0 ? -1 : 1;
    axes.row(j) = sign * eigen.vectors.col(from_top).transpose();
    result.variance.push_back(std::max(0.0, eigen.values(from_top)));
  }
  const Rows projected = centred * axes.transpose();
  result.projected.assign(projected.data(), projected.data() + projected.size());
  result.axes.assign(axes.data(), axes.data() + axes.size());
  return result;
}

}  // namespace fluxformer::information
