#pragma once

// Small token files, good and bad.

#include <hdf5.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "io/hdf5/hdf5_objects.hpp"
#include "tests/unit/data/files/archive_writer.hpp"

namespace fluxformer::test {

/// An array with the type of its items.
struct TokenArray {
  std::vector<hsize_t> shape;
  std::variant<std::vector<int>, std::vector<std::int64_t>, std::vector<std::uint64_t>,
               std::vector<std::int8_t>, std::vector<std::uint16_t>, std::vector<float>, std::vector<double>,
               std::vector<std::string>>
      values;
};
using TokenArrays = std::map<std::string, TokenArray>;

inline std::size_t longest(const std::vector<std::string>& words) {
  std::size_t most = 1;
  for (const auto& word : words) most = std::max(most, word.size());
  return most;
}

/// All words, with zeros up to the length of the longest.
inline std::string padded(const std::vector<std::string>& words) {
  std::string bytes;
  for (const auto& word : words) bytes += word + std::string(longest(words) - word.size(), '\0');
  return bytes;
}

template <class T>
hid_t hdf5_type() {
  if constexpr (std::is_same_v<T, int>) return H5T_NATIVE_INT;
  if constexpr (std::is_same_v<T, std::int64_t>) return H5T_NATIVE_INT64;
  if constexpr (std::is_same_v<T, std::uint64_t>) return H5T_NATIVE_UINT64;
  if constexpr (std::is_same_v<T, std::int8_t>) return H5T_NATIVE_INT8;
  if constexpr (std::is_same_v<T, std::uint16_t>) return H5T_NATIVE_UINT16;
  if constexpr (std::is_same_v<T, float>) return H5T_NATIVE_FLOAT;
  return H5T_NATIVE_DOUBLE;
}

/// A file of this name that another program may have written.
inline void write_tokens(const std::filesystem::path& path, const TokenArrays& arrays) {
  const io::FileHandle file(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));
  for (const auto& [name, array] : arrays)
    std::visit(
        [&, place = "/" + name, shape = array.shape](const auto& values) {
          using T = typename std::decay_t<decltype(values)>::value_type;
          if constexpr (std::is_same_v<T, std::string>) {
            const auto type = io::utf8_type(longest(values));
            const auto dataset = io::create_dataset(file, place, type, {.dims = shape});
            const auto texts = padded(values);
            if (!texts.empty()) H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, texts.data());
          } else {
            const auto dataset = io::create_dataset(file, place, hdf5_type<T>(), {.dims = shape});
            if (!values.empty())
              H5Dwrite(dataset, hdf5_type<T>(), H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data());
          }
        },
        array.values);
}

}  // namespace fluxformer::test
