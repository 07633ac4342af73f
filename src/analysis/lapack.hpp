#pragma once

// What is used of LAPACK. PETSc's header declares these, too, but its declarations of BLAS and Eigen's do not agree.

extern "C" {
/// Singular values, and vectors if asked for; `a` is overwritten.
void dgesvd_(const char* left, const char* right, const int* rows, const int* columns, double* a,
             const int* stride, double* values, double* u, const int* u_stride, double* vt,
             const int* vt_stride, double* work, const int* work_size, int* info);
/// A = Q R by Householder reflections, in the place of `a`.
void dgeqrf_(const int* rows, const int* columns, double* a, const int* stride, double* tau, double* work,
             const int* work_size, int* info);
/// The first columns of Q from such reflections.
void dorgqr_(const int* rows, const int* columns, const int* reflections, double* a, const int* stride,
             const double* tau, double* work, const int* work_size, int* info);
/// A = L L^T in the place of a triangle of `a`.
void dpotrf_(const char* triangle, const int* n, double* a, const int* stride, int* info);
/// A^-1 B from such a factor, in the place of `b`.
void dpotrs_(const char* triangle, const int* n, const int* columns, const double* a, const int* stride,
             double* b, const int* b_stride, int* info);
/// Eigenvalues first .. last of a tridiagonal matrix (both arrays are overwritten) in rising order, counted from 1, and their
/// eigenvectors, by relatively robust representations.
void dstemr_(const char* vectors, const char* range, const int* n, double* diagonal, double* beside,
             const double* least, const double* most, const int* first, const int* last, int* found,
             double* values, double* z, const int* z_stride, const int* z_columns, int* support,
             int* accurate, double* work, const int* work_size, int* integers, const int* integers_size,
             int* info);
/// The same triangle of A^-1 from such a factor.
void dpotri_(const char* triangle, const int* n, double* a, const int* stride, int* info);
}
