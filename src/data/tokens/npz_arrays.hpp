#pragma once

// Arrays of a .npz file, numpy's archive: a zip of .npy files, packed or not.

#include <set>

#include "data/files/npy_header.hpp"
#include "data/files/packed_file.hpp"
#include "data/tokens/array_file.hpp"

namespace fluxformer::data {

/// The file is opened again for each array; nothing but the list of names is kept.
class NpzArrays final : public ArrayFile {
 public:
  /// Throws BadInput for what is no zip archive, and for names that it holds twice.
  explicit NpzArrays(std::string path);
  std::string called(const std::string& name) const override { return name; }
  bool has(const std::string& name) const override { return names_.contains(name); }
  bool has_group(const std::string& group) const override;
  ArrayInfo info(const std::string& name) const override;
  std::vector<int> whole_numbers(const std::string& name) const override;
  std::vector<float> singles(const std::string& name) const override;
  std::vector<double> doubles(const std::string& name) const override;
  std::vector<std::string> words(const std::string& name) const override;
  std::optional<long> attribute(const std::string&, const std::string&) const override { return {}; }

 private:
  /// Calls visit(header, bytes, count) for portions of `count` items.
  template <class Visit>
  void read(const std::string& name, Visit&& visit) const;
  template <class T>
  std::vector<T> numbers(const std::string& name) const;
  NpyHeader open(const std::string& name, PackedFile& archive) const;

  std::string path_;
  std::set<std::string> names_;
};

}  // namespace fluxformer::data
