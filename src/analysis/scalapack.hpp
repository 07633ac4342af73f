#pragma once

// What is used of ScaLAPACK and of BLACS, which it stands on. Matrices are described by nine numbers: kind (1), BLACS's context, rows, columns,
// rows and columns of a block, process row and column of the first one, and the stride of what a rank holds.

#include <mpi.h>

extern "C" {
/// A communicator as BLACS knows it, until it is freed.
int Csys2blacs_handle(MPI_Comm comm);
void Cfree_blacs_system_handle(int handle);
/// A grid of processes from such a handle, which is replaced by the grid's context.
void Cblacs_gridinit(int* context, const char* order, int rows, int columns);
void Cblacs_gridexit(int context);
/// A = L L^T in the place of a triangle of `a`; `info` is the same on all ranks.
void pdpotrf_(const char* triangle, const int* n, double* a, const int* row, const int* column,
              const int* described, int* info);
/// Solves a triangular system for the columns of `b`, in their place.
void pdtrsm_(const char* side, const char* triangle, const char* transposed, const char* unit,
             const int* rows, const int* columns, const double* factor, const double* a, const int* a_row,
             const int* a_column, const int* a_described, double* b, const int* b_row, const int* b_column,
             const int* b_described);
/// Q^T A Q is tridiagonal: its diagonal and the entries beside it, and Q as reflections in the place of `a` with their `factors`, each with
/// the column of `a` that it belongs to.
void pdsytrd_(const char* triangle, const int* n, double* a, const int* row, const int* column,
              const int* described, double* diagonal, double* beside, double* factors, double* work,
              const int* work_size, int* info);
/// Q C or Q^T C from such reflections, in the place of `c`.
void pdormtr_(const char* side, const char* triangle, const char* transposed, const int* rows,
              const int* columns, const double* a, const int* a_row, const int* a_column,
              const int* a_described, const double* factors, double* c, const int* c_row, const int* c_column,
              const int* c_described, double* work, const int* work_size, int* info);
}
