#include "io/hdf5/hdf5_objects.hpp"

#include <hdf5.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <tuple>
#include <vector>

#include "io/part_file.hpp"

namespace fluxformer::io {

namespace {

herr_t collect(unsigned, const H5E_error2_t* entry, void* out) {
  if (entry->desc != nullptr) static_cast<std::vector<std::string>*>(out)->emplace_back(entry->desc);
  return 0;
}

// "unable to open file: name = 'a.h5', errno = 2, error message = 'No such file or directory', ..." without
// the uninformative parts.
std::string in_short(const std::string& entry) {
  static constexpr std::string_view tag = "error message = '";
  const auto begin = entry.find(tag), end = entry.find('\'', begin + tag.size());
  if (begin == std::string::npos || end == std::string::npos) return entry;
  const auto doing = entry.substr(0, std::min(entry.find(':'), entry.find(", errno")));
  return doing + ": " + entry.substr(begin + tag.size(), end - begin - tag.size());
}

}  // namespace

void quiet_hdf5() {
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

std::string hdf5_complaint() {
  std::vector<std::string> entries;  // innermost first
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, collect, &entries);
  H5Eclear2(H5E_DEFAULT);
  if (entries.empty()) return "HDF5 gives no reason";
  for (const std::string& entry : entries) {
    if (entry.find("No space left") != std::string::npos ||
        entry.find("MPI_ERR_NO_SPACE") != std::string::npos)
      return write_failure(ENOSPC);
    // The second is what HDF5 says of a lock that MPI-IO or its driver refuses.
    if (entry.find("unable to lock file") != std::string::npos ||
        entry.find("lock request failed") != std::string::npos)
      return lock_refused;
    if (entry.find("File too large") != std::string::npos) return write_failure(EFBIG);
  }
  // MPI-IO's own text is terse ("MPI_ERR_OTHER"); the failing call is more informative.
  return in_short(entries[0]) + (entries.size() > 1 ? " (" + entries[1] + ")" : "");
}

namespace {

PropertyHandle with_parents() {
  PropertyHandle links(h5(H5Pcreate(H5P_LINK_CREATE), "H5Pcreate"));
  h5(H5Pset_create_intermediate_group(links, 1), "H5Pset_create_intermediate_group");
  return links;
}

constexpr hsize_t longest_text = hsize_t{1} << 26;

// Largest ratio of the bytes a dataset announces to those the file holds: deflate packs at most 1032 to 1. A
// megabyte is never refused: a chunk may not have been written, and compact datasets have no storage of their
// own.
constexpr double most_packed = 1100, free_of_charge = 1 << 20;

// Callback for H5Literate and H5Aiterate2, which pass different information about a link or an attribute.
template <class Info>
herr_t add_name(hid_t, const char* name, const Info*, void* names) {
  static_cast<std::vector<std::string>*>(names)->emplace_back(name);
  return 0;
}

std::string read_text(hid_t attribute, hid_t type) {
  if (h5(H5Tis_variable_str(type), "H5Tis_variable_str") > 0) {
    char* text = nullptr;
    TypeHandle memory = utf8_type(H5T_VARIABLE);
    h5(H5Tset_cset(memory, H5Tget_cset(type)), "H5Tset_cset");
    h5(H5Aread(attribute, memory, &text), "reading an attribute");
    std::string result = text != nullptr ? text : "";
    H5free_memory(text);
    return result;
  }
  const std::size_t size = H5Tget_size(type);
  if (size > longest_text)
    throw Error(ExitCode::bad_input, "an attribute announces a text of " + std::to_string(size) + " bytes");
  std::string fixed(size, '\0');
  h5(H5Aread(attribute, type, fixed.data()), "reading an attribute");
  return fixed.substr(0, fixed.find('\0'));
}

}  // namespace

GroupHandle open_group(hid_t file, const std::string& path) {
  if (path == "/" || path_exists(file, path))
    return GroupHandle(h5(H5Gopen2(file, path.c_str(), H5P_DEFAULT), path));
  return GroupHandle(h5(H5Gcreate2(file, path.c_str(), with_parents(), H5P_DEFAULT, H5P_DEFAULT), path));
}

std::vector<std::string> members_of(hid_t group) {
  std::vector<std::string> names;
  h5(H5Literate(group, H5_INDEX_NAME, H5_ITER_INC, nullptr, add_name<H5L_info_t>, &names), "listing a group");
  return names;
}

std::vector<std::string> attributes_of(hid_t object) {
  std::vector<std::string> names;
  h5(H5Aiterate2(object, H5_INDEX_NAME, H5_ITER_INC, nullptr, add_name<H5A_info_t>, &names),
     "listing attributes");
  return names;
}

bool path_exists(hid_t file, const std::string& path) {
  for (std::size_t slash = path.find('/', 1);; slash = path.find('/', slash + 1)) {
    const std::string link = path.substr(0, slash);
    if (link != "/") {
      if (h5(H5Lexists(file, link.c_str(), H5P_DEFAULT), link) == 0) return false;
      H5L_info_t info;
      h5(H5Lget_info(file, link.c_str(), &info, H5P_DEFAULT), link);
      if (info.type != H5L_TYPE_HARD)
        throw Error(ExitCode::bad_input, link + " is a link (" +
                                             (info.type == H5L_TYPE_SOFT ? "soft" : "external") +
                                             "), which is not followed");
    }
    if (slash == std::string::npos) return true;
  }
}

void write_attribute(hid_t object, const std::string& name, const AttributeValue& value) {
  const std::string doing = "attribute " + name;
  if (h5(H5Aexists(object, name.c_str()), doing) > 0) h5(H5Adelete(object, name.c_str()), doing);
  const SpaceHandle scalar(h5(H5Screate(H5S_SCALAR), doing));
  const auto write = [&](hid_t stored, hid_t memory, const void* data) {
    const AttributeHandle attribute(
        h5(H5Acreate2(object, name.c_str(), stored, scalar, H5P_DEFAULT, H5P_DEFAULT), doing));
    h5(H5Awrite(attribute, memory, data), doing);
  };
  if (const auto* text = std::get_if<std::string>(&value)) {
    const TypeHandle type = utf8_type(H5T_VARIABLE);
    const char* characters = text->c_str();
    write(type, type, &characters);
  } else if (const auto* integer = std::get_if<long>(&value)) {
    write(H5T_STD_I64LE, H5T_NATIVE_LONG, integer);
  } else {
    write(H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, &std::get<double>(value));
  }
}

std::optional<AttributeValue> read_attribute(hid_t object, const std::string& name) {
  const std::string doing = "attribute " + name;
  if (h5(H5Aexists(object, name.c_str()), doing) == 0) return {};
  const AttributeHandle attribute(h5(H5Aopen(object, name.c_str(), H5P_DEFAULT), doing));
  const SpaceHandle space(h5(H5Aget_space(attribute), doing));
  const TypeHandle type(h5(H5Aget_type(attribute), doing));
  const H5T_class_t kind = H5Tget_class(type);
  if (H5Sget_simple_extent_npoints(space) != 1 ||
      (kind != H5T_STRING && kind != H5T_INTEGER && kind != H5T_FLOAT))
    throw Error(ExitCode::bad_input, doing + " is neither one number nor one text");
  if (kind == H5T_STRING) return read_text(attribute, type);
  if (kind == H5T_INTEGER) {
    long integer = 0;
    h5(H5Aread(attribute, H5T_NATIVE_LONG, &integer), doing);
    return integer;
  }
  double real = 0;
  h5(H5Aread(attribute, H5T_NATIVE_DOUBLE, &real), doing);
  return real;
}

DatasetHandle create_dataset(hid_t file, const std::string& path, hid_t type, const DatasetShape& shape) {
  std::vector<hsize_t> limits = shape.dims;
  if (shape.extendible) limits.front() = H5S_UNLIMITED;
  const SpaceHandle space(h5(shape.dims.empty()
                                 ? H5Screate(H5S_SCALAR)
                                 : H5Screate_simple(shape.dims.size(), shape.dims.data(), limits.data()),
                             path));
  const PropertyHandle create(h5(H5Pcreate(H5P_DATASET_CREATE), path));
  // Do not fill: a dataset would be written twice.
  h5(H5Pset_fill_time(create, H5D_FILL_TIME_NEVER), path);
  if (!shape.chunk.empty()) h5(H5Pset_chunk(create, shape.chunk.size(), shape.chunk.data()), path);
  if (shape.deflate > 0) {
    h5(H5Pset_shuffle(create), path);
    h5(H5Pset_deflate(create, shape.deflate), path);
  }
  return DatasetHandle(
      h5(H5Dcreate2(file, path.c_str(), type, space, with_parents(), create, H5P_DEFAULT), path));
}

std::vector<hsize_t> dataset_shape(hid_t dataset) {
  const SpaceHandle space(h5(H5Dget_space(dataset), "asking for a shape"));
  std::vector<hsize_t> dims(h5(H5Sget_simple_extent_ndims(space), "asking for a shape"));
  h5(H5Sget_simple_extent_dims(space, dims.data(), nullptr), "asking for a shape");
  return dims;
}

DatasetHandle open_dataset(hid_t file, const std::string& path) {
  const auto refuse = [&](const std::string& why) { throw Error(ExitCode::bad_input, why); };
  if (!path_exists(file, path)) refuse("no " + path);
  DatasetHandle dataset(H5Dopen2(file, path.c_str(), H5P_DEFAULT));
  if (!dataset.open()) refuse(path + " is not a dataset (" + hdf5_complaint() + ")");
  const PropertyHandle created(h5(H5Dget_create_plist(dataset), path));
  if (H5Pget_layout(created) == H5D_VIRTUAL)
    refuse(path + " is a virtual dataset: its numbers are in other files, which are not opened");
  if (h5(H5Pget_external_count(created), path) > 0)
    refuse(path + " has external storage: its numbers are in other files, which are not opened");
  const TypeHandle type(h5(H5Dget_type(dataset), path));
  double bytes = H5Tget_size(type);  // in double, since damaged extents may exceed any integer
  for (const hsize_t extent : dataset_shape(dataset)) bytes *= extent;
  const double held = H5Dget_storage_size(dataset);
  if (bytes > most_packed * held + free_of_charge)
    refuse(path + " announces " + std::to_string(bytes / 1e9) + " GB, of which the file holds " +
           std::to_string(held / 1e9) + " GB");
  return dataset;
}

std::vector<hsize_t> chunk_within_a_depth_cell(const std::vector<hsize_t>& field_shape) {
  std::vector<hsize_t> chunk(field_shape.size() + 1, 1);
  hsize_t room = (hsize_t{1} << 20) / sizeof(double);
  for (std::size_t k = field_shape.size(); k-- > 1;) {
    chunk[k + 1] = std::clamp<hsize_t>(field_shape[k], 1, std::max<hsize_t>(room, 1));
    room /= chunk[k + 1];
  }
  return chunk;
}

hsize_t stored_numbers(const std::vector<hsize_t>& dims, const std::vector<hsize_t>& chunk) {
  hsize_t numbers = 1;
  for (std::size_t k = 0; k < dims.size(); ++k)
    numbers *= chunk.empty() ? dims[k] : (dims[k] + chunk[k] - 1) / chunk[k] * chunk[k];
  return numbers;
}

TypeHandle utf8_type(std::size_t size) {
  TypeHandle type(h5(H5Tcopy(H5T_C_S1), "a type of text"));
  h5(H5Tset_size(type, size), "a type of text");
  h5(H5Tset_cset(type, H5T_CSET_UTF8), "a type of text");
  if (size != H5T_VARIABLE) h5(H5Tset_strpad(type, H5T_STR_NULLPAD), "a type of text");
  return type;
}

PropertyHandle collective_transfer() {
  PropertyHandle transfer(h5(H5Pcreate(H5P_DATASET_XFER), "preparing MPI-IO"));
  h5(H5Pset_dxpl_mpio(transfer, H5FD_MPIO_COLLECTIVE), "preparing MPI-IO");
  return transfer;
}

void write_contiguous(hid_t dataset, hid_t memory_type, const void* data) {
  h5(H5Dwrite(dataset, memory_type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data), "writing");
}

void write_rows(hid_t dataset, bool writes, hid_t memory_type, const void* data,
                std::pair<hsize_t, hsize_t> rows) {
  const SpaceHandle space(h5(H5Dget_space(dataset), "selecting rows"));
  auto count = dataset_shape(dataset);
  std::vector<hsize_t> start(count.size(), 0);
  std::tie(start.front(), count.front()) = rows;
  const SpaceHandle memory(h5(H5Screate_simple(count.size(), count.data(), nullptr), "selecting rows"));
  if (!writes) {
    h5(H5Sselect_none(space), "selecting nothing");
    h5(H5Sselect_none(memory), "selecting nothing");
  } else {
    h5(H5Sselect_hyperslab(space, H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr),
       "selecting rows");
  }
  static constexpr double nothing = 0;  // HDF5 needs a valid address even for no data
  h5(H5Dwrite(dataset, memory_type, memory, space, collective_transfer(), data != nullptr ? data : &nothing),
     "writing");
}

}  // namespace fluxformer::io
