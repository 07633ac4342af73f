#pragma once

// The bridge from HDF5's return codes to our errors.

#include <string>
#include <string_view>
#include <utility>

#include "base/error.hpp"

namespace fluxformer::io {

/// From now on HDF5 does not print its error stack; its innermost message becomes part of ours.
void quiet_hdf5();

/// The innermost messages of HDF5's error stack, and "no space left on device" if that is what the system
/// said.
std::string hdf5_complaint();

/// Returns `result`; throws Error (exit code 1) "<doing>: <HDF5's innermost message>" if it is negative.
/// Rank-local: callers that hold several ranks wrap it in `collectively`.
template <class Result>
Result h5(Result result, std::string_view doing) {
  if (result < 0) throw Error(ExitCode::failure, std::string(doing) + ": " + hdf5_complaint());
  return result;
}

}  // namespace fluxformer::io
