#include "analysis/derivatives/sample_vectors.hpp"

#include "analysis/state_examples.hpp"

namespace fluxformer::derivatives {

Eigen::VectorXd take_sample(const SlabContext& context, const double* slab, int b) {
  const auto rows = sample_of(context, slab, b);
  Eigen::VectorXd numbers(rows.size());
  Eigen::Map<RowMatrix>(numbers.data(), rows.rows(), rows.cols()) = rows;
  return numbers;
}

void put_sample(const SlabContext& context, const Eigen::VectorXd& numbers, int b, double* slab) {
  Eigen::Map<RowMatrix, 0, Eigen::OuterStride<>> rows(
      slab + static_cast<std::ptrdiff_t>(b) * context.width, context.line->tokens(), context.width,
      Eigen::OuterStride<>(static_cast<Eigen::Index>(context.row())));
  const Eigen::Index real = numbers.size() / context.width;
  rows.topRows(real) = Eigen::Map<const RowMatrix>(numbers.data(), real, context.width);
  rows.bottomRows(rows.rows() - real).setZero();
}

Eigen::VectorXd random_direction(const RandomStream& of_sample, Eigen::Index size) {
  Eigen::VectorXd v(size);
  for (Eigen::Index j = 0; j < size; ++j) v(j) = of_sample.normal(static_cast<std::uint64_t>(j));
  return v;
}

}  // namespace fluxformer::derivatives
