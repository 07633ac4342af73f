#pragma once

// Arrays of an HDF5 file, whoever wrote it.

#include "data/tokens/array_file.hpp"
#include "io/hdf5/handles.hpp"

namespace fluxformer::data {

/// Refuses links and datasets that lead to other files.
class Hdf5Arrays final : public ArrayFile {
 public:
  /// Throws BadInput for what is no whole HDF5 file.
  explicit Hdf5Arrays(const std::string& path);
  std::string called(const std::string& name) const override { return "/" + name; }
  bool has(const std::string& name) const override;
  bool has_group(const std::string& group) const override;
  ArrayInfo info(const std::string& name) const override;
  std::vector<int> whole_numbers(const std::string& name) const override;
  std::vector<float> singles(const std::string& name) const override;
  std::vector<double> doubles(const std::string& name) const override;
  std::vector<std::string> words(const std::string& name) const override;
  std::optional<long> attribute(const std::string& array, const std::string& name) const override;

 private:
  template <class T>
  std::vector<T> read(const std::string& name, hid_t type) const;
  io::FileHandle file_;
};

}  // namespace fluxformer::data
