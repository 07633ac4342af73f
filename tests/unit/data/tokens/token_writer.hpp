#pragma once

// Small token files, good and bad, in HDF5 and in numpy's .npz.

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

/// The head of a .npy file of version 1.0 with this dictionary.
inline std::string npy_head(const std::string& dictionary) {
  const std::string text = dictionary + std::string((64 - (dictionary.size() + 11) % 64) % 64, ' ') + "\n";
  std::string head = "\x93NUMPY";
  head += '\1', head += '\0';
  head += static_cast<char>(text.size() % 256), head += static_cast<char>(text.size() / 256);
  return head + text;
}

inline std::string npy_dictionary(const std::string& type, const std::vector<hsize_t>& shape) {
  std::string text;
  for (const auto extent : shape) text += std::to_string(extent) + (shape.size() == 1 ? "," : ", ");
  return "{'descr': '" + type + "', 'fortran_order': False, 'shape': (" + text + "), }";
}

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

inline std::string npy_of(const TokenArray& array) {
  return std::visit(
      [&](const auto& values) {
        using T = typename std::decay_t<decltype(values)>::value_type;
        std::string bytes, type;
        if constexpr (std::is_same_v<T, std::string>) {
          bytes = padded(values);
          type = "|S" + std::to_string(longest(values));
        } else {
          bytes.assign(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
          type = (std::is_floating_point_v<T> ? "<f"
                  : std::is_signed_v<T>       ? "<i"
                                              : "<u") +
                 std::to_string(sizeof(T));
        }
        return npy_head(npy_dictionary(type, array.shape)) + bytes;
      },
      array.values);
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

/// A file of this name that another program may have written: HDF5, or .npz.
inline void write_tokens(const std::filesystem::path& path, const TokenArrays& arrays) {
  if (path.extension() == ".npz") {
    Members members;
    for (const auto& [name, array] : arrays) members.emplace_back(name + ".npy", npy_of(array));
    write_archive(path, members);
    return;
  }
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
