#include "analysis/information/kde_bounds.hpp"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>

#include "operators/kernels/vector_math.hpp"

namespace fluxformer::information {
namespace {

using Index = Eigen::Index;
using Rows = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
constexpr Index block_rows = 256, block_columns = 1024;

/// Sums over j of both kernels; the sample itself adds 1, so that logarithms are finite.
struct KernelSums {
  double wide = 0;    ///< exp(-d^2 / (8 sigma^2))
  double narrow = 0;  ///< exp(-d^2 / (2 sigma^2)), the fourth power of the other

  template <class Kernel>
  void add(const Kernel& kernel) {
    wide += kernel.sum();
    narrow += kernel.square().square().sum();
  }
};

struct Entropies {
  double lower = 0, upper = 0;  ///< nats, minus the entropy of the noise

  /// One of the `count` samples of a mixture, with weight `share`.
  void add(const KernelSums& sums, double count, double share) {
    lower -= share * std::log(sums.wide / count);
    upper -= share * std::log(sums.narrow / count);
  }
};

}  // namespace

InformationPlane kde_information(const Points& t, std::span<const int> labels, double sigma) {
  require_points("kde", t);
  require_labels("kde", t, labels);
  require_noise("kde", sigma);
  const LabelGroups groups(labels);
  const auto count = static_cast<Index>(t.count), m = static_cast<Index>(t.components);

  // In units of sqrt(8) sigma and relative to the mean, so that |x|^2 + |y|^2 - 2xy, the exponent of the wide
  // kernel, loses the fewest digits. Sorted by label: the samples of one label are a range of columns.
  Rows x = Eigen::Map<const Rows>(groups.rows(t).data(), count, m);
  x.rowwise() -= x.colwise().mean().eval();
  x /= std::sqrt(8.0) * sigma;
  const Eigen::VectorXd square = x.rowwise().squaredNorm();

  const auto n = static_cast<double>(t.count);
  Entropies all, within;
  Rows kernel;
  std::vector<std::size_t> group_of(t.count);
  for (std::size_t g = 0; g < groups.groups(); ++g)
    for (std::size_t i = groups.first[g]; i < groups.first[g + 1]; ++i) group_of[i] = g;
  for (Index row = 0; row < count; row += block_rows) {
    const Index rows = std::min(block_rows, count - row);
    std::vector<KernelSums> over_all(rows), over_group(static_cast<std::size_t>(rows));
    for (Index column = 0; column < count; column += block_columns) {
      const Index columns = std::min(block_columns, count - column);
      kernel.noalias() = 2 * x.middleRows(row, rows) * x.middleRows(column, columns).transpose();
      kernel.colwise() -= square.segment(row, rows);
      kernel.rowwise() -= square.segment(column, columns).transpose();
      kernel = kernel.cwiseMin(0.0);  // round-off may be positive
      for (Index i = std::max(row, column); i < std::min(row + rows, column + columns); ++i)
        kernel(i - row, i - column) = 0;
      exp_shifted(kernel.data(), static_cast<std::size_t>(kernel.size()), 0.0);
      for (Index i = 0; i < rows; ++i) {
        const auto r = static_cast<std::size_t>(i);
        const std::size_t g = group_of[row + i];
        over_all[r].add(kernel.row(i).array());
        const Index from = std::max(column, static_cast<Index>(groups.first[g]));
        const Index to = std::min(column + columns, static_cast<Index>(groups.first[g + 1]));
        if (from < to) over_group[r].add(kernel.row(i).segment(from - column, to - from).array());
      }
    }
    for (Index i = 0; i < rows; ++i) {
      const auto r = static_cast<std::size_t>(i);
      all.add(over_all[r], n, 1 / n);
      within.add(over_group[r], static_cast<double>(groups.size(group_of[row + i])), 1 / n);
    }
  }
  return {between(all.lower, all.upper, std::log(n)),
          between(all.lower - within.upper, all.upper - within.lower, groups.entropy())};
}

}  // namespace fluxformer::information
