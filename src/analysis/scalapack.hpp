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
/// Eigenvalues in ascending order, on all ranks, and eigenvectors, dealt out as the matrix is, which is overwritten.
void pdsyevr_(const char* vectors, const char* range, const char* triangle, const int* n, double* a,
              const int* a_row, const int* a_column, const int* a_described, const double* least,
              const double* most, const int* first, const int* last, int* found, int* found_vectors,
              double* values, double* z, const int* z_row, const int* z_column, const int* z_described,
              double* work, const int* work_size, int* integers, const int* integers_size, int* info);
}
