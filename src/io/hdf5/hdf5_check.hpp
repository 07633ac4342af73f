#pragma once

// Turns HDF5's return codes into Error.

#include <string>
#include <string_view>
#include <utility>

#include "base/error.hpp"

namespace fluxformer::io {

/// Stops HDF5 from printing its error stack; its innermost message becomes part of ours.
void quiet_hdf5();

/// The innermost messages of HDF5's error stack, and "no space left on device" if that was the system error.
std::string hdf5_complaint();

/// Returns `result`; throws Error (exit code 1) "<doing>: <HDF5's innermost message>" if it is negative.
/// Rank-local: collective callers wrap it in `collectively`.
template <class Result>
Result h5(Result result, std::string_view doing) {
  if (result < 0) throw Error(ExitCode::failure, std::string(doing) + ": " + hdf5_complaint());
  return result;
}

}  // namespace fluxformer::io
