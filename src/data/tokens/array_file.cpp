#include "data/tokens/array_file.hpp"

#include "data/tokens/hdf5_arrays.hpp"
#include "data/tokens/npz_arrays.hpp"

namespace fluxformer::data {

std::unique_ptr<ArrayFile> open_array_file(const std::string& path) {
  if (path.ends_with(".npz")) return std::make_unique<NpzArrays>(path);
  return std::make_unique<Hdf5Arrays>(path);
}

}  // namespace fluxformer::data
