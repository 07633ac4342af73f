#pragma once

// Prototypes of LAPACK. PETSc's header declares them, too, but its declarations of BLAS contradict those of
// Eigen.

extern "C" {
/// Singular values, and singular vectors if asked for. `a` is overwritten.
void dgesvd_(const char* left, const char* right, const int* rows, const int* columns, double* a,
             const int* stride, double* values, double* u, const int* u_stride, double* vt,
             const int* vt_stride, double* work, const int* work_size, int* info);
/// Factorises A = Q R by Householder reflections, in the place of `a`.
void dgeqrf_(const int* rows, const int* columns, double* a, const int* stride, double* tau, double* work,
             const int* work_size, int* info);
/// First columns of Q from the reflections of dgeqrf.
void dorgqr_(const int* rows, const int* columns, const int* reflections, double* a, const int* stride,
             const double* tau, double* work, const int* work_size, int* info);
/// Factorises A = L L^T in the place of a triangle of `a`.
void dpotrf_(const char* triangle, const int* n, double* a, const int* stride, int* info);
/// Solves A X = B with the factor of dpotrf, in the place of `b`.
void dpotrs_(const char* triangle, const int* n, const int* columns, const double* a, const int* stride,
             double* b, const int* b_stride, int* info);
/// Eigenvalues first .. last of a tridiagonal matrix in rising order, counted from 1, and their eigenvectors,
/// by relatively robust representations. `diagonal` and `beside` are overwritten.
void dstemr_(const char* vectors, const char* range, const int* n, double* diagonal, double* beside,
             const double* least, const double* most, const int* first, const int* last, int* found,
             double* values, double* z, const int* z_stride, const int* z_columns, int* support,
             int* accurate, double* work, const int* work_size, int* integers, const int* integers_size,
             int* info);
/// Triangle of A^-1 from the factor of dpotrf, in the place of `a`.
void dpotri_(const char* triangle, const int* n, double* a, const int* stride, int* info);
}
