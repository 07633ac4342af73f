#include "tests/support/symmetric_matrix.hpp"

#include <Eigen/Eigenvalues>

#include "base/error.hpp"
#include "base/vector_arrays.hpp"
#include "tests/support/every_rank.hpp"
#include "tests/support/test_matrices.hpp"
#include "tests/support/test_vectors.hpp"

namespace fluxformer::test {

using Eigen::MatrixXd;
using Eigen::VectorXd;

namespace {

MatrixXd random_matrix(int size, unsigned seed) {
  const auto numbers = random_vector(static_cast<std::size_t>(size) * static_cast<std::size_t>(size), seed);
  return Eigen::Map<const MatrixXd>(numbers.data(), size, size);
}

}  // namespace

MatrixXd symmetric_matrix(int size, unsigned seed) {
  const MatrixXd a = random_matrix(size, seed);
  return (a + a.transpose()) / 2;
}

VectorXd counting(int size) {
  return VectorXd::LinSpaced(size, 1, size);
}

MatrixXd with_spectrum(const VectorXd& values, unsigned seed) {
  const MatrixXd q = orthogonal_factor(random_matrix(static_cast<int>(values.size()), seed));
  const MatrixXd a = product(q, values.asDiagonal() * q.transpose());
  return (a + a.transpose()) / 2;
}

VectorXd eigenvalues(const MatrixXd& symmetric) {
  return Eigen::SelfAdjointEigenSolver<MatrixXd>(symmetric, Eigen::EigenvaluesOnly).eigenvalues();
}

MatHandle spread(MPI_Comm comm, const MatrixXd& whole, Rows rows) {
  const auto size = static_cast<PetscInt>(whole.rows());
  const int owners = rows == Rows::everywhere ? size_of(comm) : std::max(1, size_of(comm) / 2);
  const bool owner = rows == Rows::everywhere || size_of(comm) == 1 || rank_in(comm) % 2 == 1;
  const int place = rows == Rows::everywhere ? rank_in(comm) : rank_in(comm) / 2;
  const PetscInt own = owner ? size / owners + (place < size % owners ? 1 : 0) : 0;
  MatHandle matrix;
  check(MatCreateDense(comm, own, own, size, size, nullptr, matrix.out()));
  PetscInt first = 0, last = 0;
  check(MatGetOwnershipRange(matrix, &first, &last));
  for (PetscInt i = first; i < last; ++i)
    for (PetscInt j = 0; j < size; ++j) check(MatSetValue(matrix, i, j, whole(i, j), INSERT_VALUES));
  check(MatAssemblyBegin(matrix, MAT_FINAL_ASSEMBLY));
  check(MatAssemblyEnd(matrix, MAT_FINAL_ASSEMBLY));
  return matrix;
}

VecHandle spread(Mat like, const VectorXd& whole) {
  VecHandle vector;
  check(MatCreateVecs(like, vector.out(), nullptr));
  PetscInt first = 0, last = 0;
  check(VecGetOwnershipRange(vector, &first, &last));
  const WriteArray own(vector);
  for (PetscInt i = first; i < last; ++i) own.values[i - first] = whole(i);
  return vector;
}

VectorXd whole(Vec vector) {
  PetscInt first = 0, last = 0, size = 0;
  check(VecGetOwnershipRange(vector, &first, &last));
  check(VecGetSize(vector, &size));
  std::vector<double> entries(static_cast<std::size_t>(size), 0.0);
  {
    const ReadArray own(vector);
    std::copy(own.values, own.values + (last - first), entries.begin() + first);
  }
  MPI_Comm comm = MPI_COMM_NULL;
  check(PetscObjectGetComm(reinterpret_cast<PetscObject>(vector), &comm));
  entries = sum_over(comm, std::move(entries));
  return Eigen::Map<const VectorXd>(entries.data(), size);
}

MatrixXd whole(Mat matrix) {
  PetscInt size = 0;
  check(MatGetSize(matrix, &size, nullptr));
  MatrixXd entries(size, size);
  VecHandle column;
  check(MatCreateVecs(matrix, nullptr, column.out()));
  for (PetscInt j = 0; j < size; ++j) {
    check(MatMult(matrix, spread(matrix, VectorXd::Unit(size, j)), column));
    entries.col(j) = whole(column);
  }
  return entries;
}

}  // namespace fluxformer::test
