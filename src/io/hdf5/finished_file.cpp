#include "io/hdf5/finished_file.hpp"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "io/hdf5/checker.hpp"
#include "io/hdf5/hdf5_objects.hpp"

namespace fluxformer::io {

FileHandle open_finished(const std::string& path) {
  const auto refuse = [](const std::string& why) { throw BadInput(why); };
  std::error_code problem;
  const auto status = std::filesystem::status(path, problem);
  if (status.type() == std::filesystem::file_type::not_found) refuse("no such file");
  if (problem) refuse("cannot be read (" + problem.message() + ")");
  if (is_directory(status)) refuse("is a folder, not an HDF5 file");
  if (!is_regular_file(status)) refuse("is not a regular file");
  const auto refuse_as = [&](const std::string& what) {
    const auto complaint = hdf5_complaint();
    refuse(complaint == lock_refused ? complaint : what + " (" + complaint + ")");
  };
  const auto recognised = H5Fis_hdf5(path.c_str());
  if (recognised == 0) refuse("cannot be read as HDF5 (it lacks the HDF5 signature)");
  if (recognised < 0) refuse_as("cannot be read as HDF5");
  read_on_trial(path);
  const PropertyHandle access(h5(H5Pcreate(H5P_FILE_ACCESS), "H5Pcreate"));
  // Parallel file systems often refuse locks, and finished files do not change.
  h5(H5Pset_file_locking(access, false, true), "H5Pset_file_locking");
  FileHandle file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access));
  if (!file.open()) refuse_as("truncated or damaged HDF5 file");
  return file;
}

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

std::string read_words(hid_t file, const std::string& dataset) {
  const DatasetHandle handle = open_dataset(file, dataset);
  const TypeHandle type(h5(H5Dget_type(handle), dataset));
  const auto dims = dataset_shape(handle);
  if (H5Tget_class(type) != H5T_STRING || dims.size() != 1)
    throw BadInput(dataset + " is not a list of words");
  if (dims[0] == 0) return {};
  return h5(H5Tis_variable_str(type), dataset) > 0 ? read_variable(handle, type, dims[0], dataset)
                                                   : read_fixed(handle, type, dims[0], dataset);
}

}  // namespace fluxformer::io
