#include "data/tokens/hdf5_arrays.hpp"

#include <functional>
#include <numeric>

#include "base/error.hpp"
#include "io/from_root.hpp"
#include "io/hdf5/finished_file.hpp"
#include "io/hdf5/hdf5_objects.hpp"

namespace fluxformer::data {

using io::h5;

Hdf5Arrays::Hdf5Arrays(const std::string& path) {
  io::quiet_hdf5();
  file_ = io::open_finished(path);
}

bool Hdf5Arrays::has(const std::string& name) const {
  return io::path_exists(file_, called(name));
}

bool Hdf5Arrays::has_group(const std::string& group) const {
  if (!io::path_exists(file_, called(group))) return false;
  const io::ObjectHandle object(h5(H5Oopen(file_, called(group).c_str(), H5P_DEFAULT), called(group)));
  return H5Iget_type(object) == H5I_GROUP;
}

ArrayInfo Hdf5Arrays::info(const std::string& name) const {
  const io::DatasetHandle dataset = io::open_dataset(file_, called(name));
  const io::TypeHandle type(h5(H5Dget_type(dataset), called(name)));
  const auto dims = io::dataset_shape(dataset);
  ArrayInfo info;
  info.item = H5Tget_size(type);
  info.shape = {dims.begin(), dims.end()};
  switch (H5Tget_class(type)) {
    case H5T_INTEGER:
      info.kind = ItemKind::whole, info.type = "whole numbers";
      break;
    case H5T_FLOAT:
      info.kind = ItemKind::real, info.type = "real numbers";
      break;
    case H5T_STRING:
      info.kind = ItemKind::text, info.type = "texts";
      break;
    default:
      info.type = "neither numbers nor texts";
  }
  return info;
}

template <class T>
std::vector<T> Hdf5Arrays::read(const std::string& name, hid_t type) const {
  const io::DatasetHandle dataset = io::open_dataset(file_, called(name));
  const auto dims = io::dataset_shape(dataset);
  std::vector<T> values(std::accumulate(dims.begin(), dims.end(), std::size_t{1}, std::multiplies<>()));
  if (!values.empty()) h5(H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), called(name));
  return values;
}

std::vector<int> Hdf5Arrays::whole_numbers(const std::string& name) const {
  return read<int>(name, H5T_NATIVE_INT);
}

std::vector<float> Hdf5Arrays::singles(const std::string& name) const {
  return read<float>(name, H5T_NATIVE_FLOAT);
}

std::vector<double> Hdf5Arrays::doubles(const std::string& name) const {
  return read<double>(name, H5T_NATIVE_DOUBLE);
}

std::vector<std::string> Hdf5Arrays::words(const std::string& name) const {
  return io::from_terminated(io::read_words(file_, called(name)));
}

std::optional<long> Hdf5Arrays::attribute(const std::string& array, const std::string& name) const {
  const io::DatasetHandle dataset = io::open_dataset(file_, called(array));
  const auto value = io::read_attribute(dataset, name);
  if (!value) return {};
  if (const auto* whole = std::get_if<long>(&*value)) return *whole;
  throw BadInput("attribute " + name + " of " + called(array) + " is not a whole number");
}

}  // namespace fluxformer::data
