#include "solvers/spectra/orthonormal_basis.hpp"

#include <cmath>
#include <limits>

#include "base/error.hpp"

namespace fluxformer::spectra {
namespace {

// Relative length of the rest of a vector that lies within the span of the basis: the round-off of the
// products and of the first pass.
constexpr double round_off = 64 * std::numeric_limits<double>::epsilon();

/// A column of a BV, borrowed for a scope.
class Column {
 public:
  Column(BV of, PetscInt k) : bv_(of), k_(k) { check(BVGetColumn(bv_, k_, &vector)); }
  ~Column() { BVRestoreColumn(bv_, k_, &vector); }
  Column(const Column&) = delete;
  Column& operator=(const Column&) = delete;
  Vec vector = nullptr;

 private:
  BV bv_;
  PetscInt k_;
};

}  // namespace

OrthonormalBasis::OrthonormalBasis(Vec like, PetscInt capacity) {
  MPI_Comm comm = MPI_COMM_NULL;
  check(PetscObjectGetComm(reinterpret_cast<PetscObject>(like), &comm));
  check(BVCreate(comm, vectors_.out()));
  check(BVSetSizesFromVec(vectors_, like, capacity));
  check(BVSetFromOptions(vectors_));
  // "Twice is enough" (Giraud, Langou, Rozloznik, van den Eshof 2005): orthogonal to round-off.
  check(BVSetOrthogonalization(vectors_, BV_ORTHOG_CGS, BV_ORTHOG_REFINE_ALWAYS, PETSC_DEFAULT,
                               BV_ORTHOG_BLOCK_GS));
}

double OrthonormalBasis::orthogonalise(Vec v) {
  double before = 0, left = 0;
  check(VecNorm(v, NORM_2, &before));
  if (!std::isfinite(before)) throw NumericalFailure("a product with the operator is not finite");
  coefficients_.assign(size_, 0.0);
  if (size_ == 0 || before == 0) return before;
  check(BVSetActiveColumns(vectors_, 0, size_));
  PetscBool dependent = PETSC_FALSE;
  check(BVOrthogonalizeVec(vectors_, v, coefficients_.data(), &left, &dependent));
  return dependent == PETSC_TRUE || left <= round_off * before ? 0.0 : left;
}

void OrthonormalBasis::append(Vec v, double length) {
  // The next vector of the basis is v / length.
  check(BVInsertVec(vectors_, size_, v));
  check(BVScaleColumn(vectors_, size_, 1 / length));
  ++size_;
}

void OrthonormalBasis::multiply(Mat h, PetscInt k, Vec product) {
  const Column column(vectors_, k);
  check(MatMult(h, column.vector, product));
}

double OrthonormalBasis::dot(PetscInt k, Vec x) {
  const Column column(vectors_, k);
  double product = 0;
  check(VecDot(column.vector, x, &product));
  return product;
}

}  // namespace fluxformer::spectra
