#include "analysis/identifiability/numerical_rank.hpp"

#include <algorithm>
#include <limits>

namespace fluxformer::identifiability {

double rank_threshold(const Eigen::VectorXd& values, Eigen::Index rows, Eigen::Index columns) {
  if (values.size() == 0) return 0;
  return values[0] * static_cast<double>(std::max(rows, columns)) * std::numeric_limits<double>::epsilon();
}

NumericalRank numerical_rank(const Eigen::VectorXd& values, double threshold) {
  if (!values.allFinite()) return {0, std::numeric_limits<double>::quiet_NaN()};
  const auto rank = (values.array() > threshold).count();
  if (rank == 0) return {0, std::numeric_limits<double>::infinity()};
  const double below = rank < values.size() ? values[rank] : threshold;
  // A next value of 0 gives an infinite ratio, as it should.
  return {static_cast<int>(rank), values[rank - 1] / below};
}

}  // namespace fluxformer::identifiability
