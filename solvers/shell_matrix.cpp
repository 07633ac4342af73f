#include "solvers/shell_matrix.hpp"

#include <utility>

#include "base/error.hpp"

namespace fluxformer {
namespace {

template <class F>
PetscErrorCode with_context(Mat matrix, F&& call) {
  return guarded([&] {
    void* context = nullptr;
    check(MatShellGetContext(matrix, &context));
    call(context);
  });
}

}  // namespace

ShellMatrix::ShellMatrix(Vec rows, Vec columns, Product multiply, Product multiply_transposed,
                         Diagonal diagonal)
    : multiply_(std::move(multiply)),
      multiply_transposed_(std::move(multiply_transposed)),
      diagonal_(std::move(diagonal)) {
  PetscInt local[2] = {}, global[2] = {};
  check(VecGetLocalSize(rows, &local[0]));
  check(VecGetLocalSize(columns, &local[1]));
  check(VecGetSize(rows, &global[0]));
  check(VecGetSize(columns, &global[1]));
  MPI_Comm comm = MPI_COMM_NULL;
  check(PetscObjectGetComm(reinterpret_cast<PetscObject>(rows), &comm));
  check(MatCreateShell(comm, local[0], local[1], global[0], global[1], this, matrix_.out()));
  using Operation = void (*)();
  PetscErrorCode (*mult)(Mat, Vec, Vec) = [](Mat m, Vec x, Vec y) {
    return with_context(m, [&](void* self) { static_cast<ShellMatrix*>(self)->multiply_(x, y); });
  };
  if (multiply_) check(MatShellSetOperation(matrix_, MATOP_MULT, reinterpret_cast<Operation>(mult)));
  if (multiply_transposed_) {
    PetscErrorCode (*transposed)(Mat, Vec, Vec) = [](Mat m, Vec x, Vec y) {
      return with_context(m,
                          [&](void* self) { static_cast<ShellMatrix*>(self)->multiply_transposed_(x, y); });
    };
    check(MatShellSetOperation(matrix_, MATOP_MULT_TRANSPOSE, reinterpret_cast<Operation>(transposed)));
  }
  if (diagonal_) {
    PetscErrorCode (*diag)(Mat, Vec) = [](Mat m, Vec y) {
      return with_context(m, [&](void* self) { static_cast<ShellMatrix*>(self)->diagonal_(y); });
    };
    check(MatShellSetOperation(matrix_, MATOP_GET_DIAGONAL, reinterpret_cast<Operation>(diag)));
  }
}

void ShellMatrix::changed() {
  check(MatAssemblyBegin(matrix_, MAT_FINAL_ASSEMBLY));
  check(MatAssemblyEnd(matrix_, MAT_FINAL_ASSEMBLY));
}

}  // namespace fluxformer
