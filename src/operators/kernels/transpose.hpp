#pragma once

// The transpose of a matrix, by square blocks of vector registers.

#include "base/index.hpp"

namespace fluxformer {

/// out[j][i] := a[i][j] for a matrix of `rows` x `columns` numbers; rows of a and out are the given strides
/// apart.
template <class T>
void transpose(const T* a, Index rows, Index columns, Index a_stride, T* out, Index out_stride);

}  // namespace fluxformer
