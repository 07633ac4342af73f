#pragma once

// The transpose of a matrix, by square blocks of vector registers.

#include <cstddef>

namespace fluxformer {

/// out[j][i] := a[i][j] for a matrix of `rows` x `columns` numbers; rows of a and out are the given strides apart.
template <class T>
void transpose(const T* a, std::size_t rows, std::size_t columns, std::size_t a_stride, T* out,
               std::size_t out_stride);

extern template void transpose<float>(const float*, std::size_t, std::size_t, std::size_t, float*,
                                      std::size_t);
extern template void transpose<double>(const double*, std::size_t, std::size_t, std::size_t, double*,
                                       std::size_t);

}  // namespace fluxformer
