#include "solvers/spectra/symmetric_operator.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "base/mpi.hpp"
#include "base/phases.hpp"
#include "base/vector_arrays.hpp"

namespace fluxformer::spectra {
namespace {

VecHandle spread_vector(MPI_Comm comm, PetscInt rows) {
  if (rows <= 0) throw BadInput("an operator with " + std::to_string(rows) + " rows");
  VecHandle vector;
  check(VecCreateMPI(comm, PETSC_DECIDE, rows, vector.out()));
  return vector;
}

MPI_Comm comm_of(Vec vector) {
  MPI_Comm comm = MPI_COMM_NULL;
  check(PetscObjectGetComm(reinterpret_cast<PetscObject>(vector), &comm));
  return comm;
}

/// `whole` := all entries of `vector`, on every rank.
void gather(Vec vector, std::span<double> whole) {
  const MPI_Comm comm = comm_of(vector);
  const int rank = mpi::rank(comm), ranks = mpi::size(comm);
  const PetscInt* begins = nullptr;
  check(VecGetOwnershipRanges(vector, &begins));
  // Rank r owns the entries begins[r] .. begins[r + 1] - 1.
  std::vector<int> counts(ranks);
  std::transform(begins + 1, begins + 1 + ranks, begins, counts.begin(), std::minus());
  const ReadArray own(vector);
  const InPhase phase(Phase::reduction);
  check_mpi(MPI_Allgatherv(own.values, counts[rank], MPI_DOUBLE, whole.data(), counts.data(), begins,
                           MPI_DOUBLE, comm));
  if (ranks > 1) count_message(whole.size_bytes());
}

VecHandle duplicate(Vec vector) {
  VecHandle copy;
  check(VecDuplicate(vector, copy.out()));
  return copy;
}

VecHandle root_of_inverse(Vec diagonal) {
  VecHandle scale = duplicate(diagonal);
  PetscInt rows = 0;
  check(VecGetLocalSize(diagonal, &rows));
  // s_i = 1/sqrt(d_i); all ranks agree that this is defined everywhere.
  bool good = true;
  {
    const ReadArray d(diagonal);
    const WriteArray s(scale);
    for (PetscInt i = 0; i < rows; ++i) {
      good = good && d.values[i] > 0 && std::isfinite(d.values[i]);
      s.values[i] = 1 / std::sqrt(d.values[i]);
    }
  }
  agree(comm_of(diagonal), good, "a preconditioner with an entry that is not positive or not finite");
  return scale;
}

}  // namespace

ReplicatedOperator::ReplicatedOperator(MPI_Comm comm, PetscInt rows, Product product)
    : product_(std::move(product)),
      // The matrix is symmetric: its transpose multiplies as it does itself.
      matrix_(
          spread_vector(comm, rows), [this](Vec in, Vec out) { multiply(in, out); },
          [this](Vec in, Vec out) { multiply(in, out); }) {
  in_.resize(rows);
  out_.resize(rows);
}

void ReplicatedOperator::multiply(Vec in, Vec out) {
  // Every rank multiplies the whole vector and keeps its own rows of the result.
  gather(in, in_);
  product_(in_, out_);
  PetscInt first = 0, last = 0;
  check(VecGetOwnershipRange(out, &first, &last));
  std::copy(out_.begin() + first, out_.begin() + last, WriteArray(out).values);
}

MatHandle restricted(Mat h, const Block& block) {
  PetscInt rows = 0;
  check(MatGetSize(h, &rows, nullptr));
  check_block(block, rows);
  MPI_Comm comm = MPI_COMM_NULL;
  check(PetscObjectGetComm(reinterpret_cast<PetscObject>(h), &comm));
  // The entries of the block are spread anew over all ranks; each needs the global indices of its own.
  PetscInt own = PETSC_DECIDE, size = block_size(block), end = 0;
  check(PetscSplitOwnership(comm, &own, &size));
  check_mpi(MPI_Scan(&own, &end, 1, MPIU_INT, MPI_SUM, comm));

  // Entries end - own .. end - 1 of the block belong to this rank; entry i of a range has the global index i
  // + shift.
  std::vector<PetscInt> indices;
  PetscInt place = 0;  // in the block
  for (const auto& range : block) {
    const PetscInt shift = range.begin - place;
    const PetscInt last = place + range.end - range.begin;
    for (PetscInt i = std::max(place, end - own); i < std::min(last, end); ++i) indices.push_back(i + shift);
    place = last;
  }
  IndexSetHandle set;
  check(ISCreateGeneral(comm, own, indices.data(), PETSC_COPY_VALUES, set.out()));
  MatHandle matrix;
  check(MatCreateSubMatrixVirtual(h, set, set, matrix.out()));
  return matrix;
}

VecHandle restricted(std::span<const double> whole, const Block& block, Mat like) {
  check_block(block, whole.size());
  VecHandle vector;
  check(MatCreateVecs(like, vector.out(), nullptr));
  // Entry `place` of the block is entry i of the whole vector; each rank sets those that it owns.
  PetscInt first = 0, end = 0, place = 0;  // `place`: in the block
  check(VecGetOwnershipRange(vector.get(), &first, &end));
  for (const auto& range : block)
    for (PetscInt i = range.begin; i < range.end; ++i, ++place)
      if (place >= first && place < end) check(VecSetValue(vector.get(), place, whole[i], INSERT_VALUES));
  check(VecAssemblyBegin(vector.get()));
  check(VecAssemblyEnd(vector.get()));
  return vector;
}

PreconditionedOperator::PreconditionedOperator(Mat h, Vec diagonal)
    : h_(h),
      scale_(root_of_inverse(diagonal)),
      scaled_(duplicate(diagonal)),
      matrix_(
          diagonal, [this](Vec in, Vec out) { multiply(in, out); },
          [this](Vec in, Vec out) { multiply(in, out); }) {}

void PreconditionedOperator::multiply(Vec in, Vec out) {
  // out = S H S in with S = D^-1/2
  check(VecPointwiseMult(scaled_, scale_, in));
  check(MatMult(h_, scaled_, out));
  check(VecPointwiseMult(out, scale_, out));
}

}  // namespace fluxformer::spectra
