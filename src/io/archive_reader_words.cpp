// Lists of words in an archive.

#include <algorithm>

#include "io/archive_reader.hpp"
#include "io/from_root.hpp"
#include "io/hdf5/hdf5_check.hpp"

namespace fluxformer::io {

namespace {

// Strings of variable length (written by other programs), each followed by a zero byte.
std::string read_variable(hid_t dataset, hid_t stored, std::size_t count, const std::string& doing) {
  const TypeHandle memory = utf8_type(H5T_VARIABLE);
  h5(H5Tset_cset(memory, H5Tget_cset(stored)), doing);
  const SpaceHandle space(h5(H5Dget_space(dataset), doing));
  std::vector<char*> texts(count, nullptr);
  h5(H5Dread(dataset, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, texts.data()), doing);
  std::string all;
  for (const char* text : texts) (all += text != nullptr ? text : "") += '\0';
  h5(H5Dvlen_reclaim(memory, space, H5P_DEFAULT, texts.data()), doing);
  return all;
}

std::string read_fixed(hid_t dataset, hid_t stored, std::size_t count, const std::string& doing) {
  const std::size_t size = H5Tget_size(stored);
  const bool spaces = H5Tget_strpad(stored) == H5T_STR_SPACEPAD;
  std::string padded(count * size, '\0');
  h5(H5Dread(dataset, stored, H5S_ALL, H5S_ALL, H5P_DEFAULT, padded.data()), doing);
  std::string all;
  for (std::size_t k = 0; k < count; ++k) {
    std::string word = padded.substr(k * size, size);
    word.resize(std::min(word.size(), word.find('\0')));
    if (spaces) word.resize(word.find_last_not_of(' ') + 1);
    all += word + '\0';
  }
  return all;
}

}  // namespace

std::vector<std::string> ArchiveReader::words(const std::string& dataset) const {
  return from_terminated(from_file([&] {
    const DatasetHandle handle = open_dataset(small_, dataset);
    const TypeHandle type(h5(H5Dget_type(handle), dataset));
    const auto dims = dataset_shape(handle);
    if (H5Tget_class(type) != H5T_STRING || dims.size() != 1)
      throw BadInput(dataset + " is not a list of words");
    if (dims[0] == 0) return std::string();
    return h5(H5Tis_variable_str(type), dataset) > 0 ? read_variable(handle, type, dims[0], dataset)
                                                     : read_fixed(handle, type, dims[0], dataset);
  }));
}

}  // namespace fluxformer::io
