#include "analysis/hessian/training_hessian.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/reductions.hpp"
#include "base/vector_arrays.hpp"
#include "training/smoothness.hpp"

namespace fluxformer::hessian {

TrainingHessian::TrainingHessian(const Parameters& parameters, SlabContext& context, DepthCells depth,
                                 double speed, const SampleSet& samples, const Objective& objective)
    : parameters_(parameters),
      comm_(samples.comm()),
      objective_(objective),
      trainable_(parameters, objective.coefficients),
      hessian_(parameters, context, depth, speed, objective.loss),
      direction_(parameters.spec),
      gradient_(parameters.values.size(), 0.0) {
  Evaluation own;
  samples.for_batches([&](const Batch& batch) {
    const auto one = hessian_.linearise(batch, gradient_);
    own.loss += one.loss;
    own.correct += one.correct;
  });
  if (context.line->rank() != 0) own = {};  // its ranks hold the same numbers
  double sums[2] = {own.loss, own.correct};
  sum_over_ranks(sums, comm_);
  evaluation_.loss = sums[0];
  evaluation_.correct = sums[1];
  sum_over_ranks(gradient_, comm_);
  add_smoothness(parameters, objective.smoothness, gradient_);
  bend_ = trainable_.bend(parameters.values, gradient_);
  trainable_.pull(parameters.values, gradient_);
  double bytes[1] = {static_cast<double>(hessian_.kept_bytes())};
  largest_over_ranks(bytes, comm_);
  kept_bytes_ = bytes[0];
}

void TrainingHessian::multiply(Curvature part, std::span<const double> v, std::span<double> product) {
  std::copy(v.begin(), v.end(), direction_.values.begin());
  trainable_.pull(parameters_.values, direction_.values);  // D v; D is diagonal
  collectively(comm_, [&] { hessian_.multiply(part, direction_.values, product); });
  sum_over_ranks(product, comm_);
  if (part == Curvature::hessian) add_smoothness(direction_, objective_.smoothness, product);  // quadratic
  trainable_.pull(parameters_.values, product);
  if (part == Curvature::hessian)
    for (std::size_t j = 0; j < product.size(); ++j) product[j] += bend_[j] * v[j];
}

VecHandle TrainingHessian::make_vector() const {
  VecHandle vector;
  check(VecCreateMPI(comm_, PETSC_DECIDE, static_cast<PetscInt>(size()), vector.out()));
  return vector;
}

std::unique_ptr<ShellMatrix> TrainingHessian::matrix(Curvature part) {
  const auto like = make_vector();
  return std::make_unique<ShellMatrix>(like, [this, part](Vec in, Vec out) {
    PetscInt first = 0, end = 0;
    check(VecGetOwnershipRange(in, &first, &end));
    // Every rank gets the whole vector: a sum of vectors that are 0 outside the own rows.
    std::vector<double> whole(size(), 0.0), product(size());
    {
      const Reading mine(in);
      std::copy_n(mine.values, end - first, whole.begin() + first);
    }
    sum_over_ranks(whole, comm_);
    multiply(part, whole, product);
    const Writing to(out);
    std::copy(product.begin() + first, product.begin() + end, to.values);
  });
}

}  // namespace fluxformer::hessian
