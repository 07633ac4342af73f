#include "io/archive_reader.hpp"

#include <algorithm>
#include <numeric>

#include "io/from_root.hpp"
#include "io/hdf5/finished_file.hpp"
#include "io/hdf5/hdf5_check.hpp"
#include "io/layout.hpp"
#include "io/stored_digest.hpp"

namespace fluxformer::io {

namespace {

std::string tagged(char tag, const std::string& bytes) {
  std::string all(1, tag);
  all += bytes;
  return all;
}

std::string shape_text(const std::vector<std::size_t>& shape) {
  std::string text;
  for (const std::size_t extent : shape) text += (text.empty() ? "" : " x ") + std::to_string(extent);
  return text.empty() ? "a single number" : text;
}

/// Runs `read`; its failure becomes BadInput that names the file.
template <class Read>
auto blaming(const std::string& file, const Read& read) {
  try {
    return read();
  } catch (const Error& e) {
    const std::string what = e.what();
    throw BadInput(what.starts_with(file) ? what : file + ": " + what);
  } catch (const std::exception&) {  // std::bad_alloc, std::length_error
    throw BadInput(file + ": announces more than fits into memory");
  }
}

void check_version(hid_t file) {
  const GroupHandle group = open_group(file, "/");
  const auto version = read_attribute(group, names::version);
  const long* number = version ? std::get_if<long>(&*version) : nullptr;
  if (number == nullptr)
    throw BadInput(std::string("an HDF5 file, but not written by Fluxformer (no ") + names::version.name +
                   ")");
  if (*number < 1 || *number > schema_version)
    throw BadInput(std::string(names::version.name) + " " + std::to_string(*number) +
                   "; this program reads 1 to " + std::to_string(schema_version));
}

DatasetHandle open_numbers(hid_t file, const std::string& dataset) {
  DatasetHandle handle = open_dataset(file, dataset);
  const TypeHandle type(h5(H5Dget_type(handle), dataset));
  if (const auto kind = H5Tget_class(type); kind != H5T_INTEGER && kind != H5T_FLOAT)
    throw BadInput(dataset + " does not hold numbers");
  return handle;
}

std::vector<std::size_t> shape_of(hid_t dataset) {
  const auto dims = dataset_shape(dataset);
  return {dims.begin(), dims.end()};
}

}  // namespace

ArchiveReader::ArchiveReader(MPI_Comm comm, const std::string& path, const std::string& purpose)
    : comm_(comm), path_(path), called_(purpose + path) {
  int rank = 0;
  check_mpi(MPI_Comm_rank(comm, &rank));
  root_ = rank == 0;
  quiet_hdf5();
  collectively(comm_, [&] {
    if (!root_) return;
    blaming(called_, [&] {
      small_ = open_finished(path_);
      check_version(small_);
    });
  });
}

std::string ArchiveReader::from_file(const std::function<std::string()>& read) const {
  return from_root(comm_, root_, [&] { return blaming(called_, read); });
}

bool ArchiveReader::has(const std::string& object) const {
  return from_file([&] { return path_exists(small_, object) ? "y" : ""; }) == "y";
}

std::vector<std::string> ArchiveReader::children(const std::string& group) const {
  return from_terminated(from_file([&] {
    if (!path_exists(small_, group)) throw BadInput("no " + group);
    const GroupHandle handle(h5(H5Gopen2(small_, group.c_str(), H5P_DEFAULT), group));
    std::string all;
    for (const auto& name : members_of(handle)) all += name + '\0';
    return all;
  }));
}

std::optional<AttributeValue> ArchiveReader::attribute(const std::string& name,
                                                       const std::string& object) const {
  const std::string bytes = from_file([&]() -> std::string {
    if (!path_exists(small_, object)) throw BadInput("no " + object);
    const ObjectHandle handle(h5(H5Oopen(small_, object.c_str(), H5P_DEFAULT), object));
    const auto value = read_attribute(handle, name);
    if (!value) return {};
    if (const auto* text = std::get_if<std::string>(&*value)) return tagged('t', *text);
    if (const auto* whole = std::get_if<long>(&*value)) return tagged('i', as_bytes(std::vector{*whole}));
    return tagged('r', as_bytes(std::vector{std::get<double>(*value)}));
  });
  if (bytes.empty()) return {};
  if (bytes[0] == 't') return bytes.substr(1);
  if (bytes[0] == 'i') return from_bytes<long>(bytes.substr(1)).front();
  return from_bytes<double>(bytes.substr(1)).front();
}

AttributeValue ArchiveReader::required(const std::string& name, const std::string& object) const {
  if (auto value = attribute(name, object)) return *value;
  throw BadInput(called_ + ": " + object + " has no attribute " + name);
}

bool ArchiveReader::has_attribute(const std::string& name, const std::string& object) const {
  return attribute(name, object).has_value();
}

std::string ArchiveReader::text(const std::string& name, const std::string& object) const {
  const auto value = required(name, object);
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  throw BadInput(called_ + ": attribute " + name + " of " + object + " is not a text");
}

long ArchiveReader::integer(const std::string& name, const std::string& object) const {
  const auto value = required(name, object);
  if (const auto* whole = std::get_if<long>(&value)) return *whole;
  throw BadInput(called_ + ": attribute " + name + " of " + object + " is not a whole number");
}

double ArchiveReader::real(const std::string& name, const std::string& object) const {
  const auto value = required(name, object);
  if (const auto* number = std::get_if<double>(&value)) return *number;
  if (const auto* whole = std::get_if<long>(&value)) return static_cast<double>(*whole);
  throw BadInput(called_ + ": attribute " + name + " of " + object + " is not a number");
}

std::vector<std::size_t> ArchiveReader::shape(const std::string& dataset) const {
  return from_bytes<std::size_t>(
      from_file([&] { return as_bytes(shape_of(open_numbers(small_, dataset))); }));
}

Array ArchiveReader::array(const std::string& dataset) const {
  return read_array(dataset, nullptr);
}

Array ArchiveReader::array(const std::string& dataset, const std::vector<std::size_t>& expected) const {
  return read_array(dataset, &expected);
}

Array ArchiveReader::read_array(const std::string& dataset, const std::vector<std::size_t>* expected) const {
  // Rank, shape and numbers are broadcast together, since a model has hundreds of arrays.
  const std::string bytes = from_file([&] {
    const DatasetHandle handle = open_numbers(small_, dataset);
    std::vector<std::size_t> shape = shape_of(handle);
    if (expected != nullptr && shape != *expected)
      throw BadInput(dataset + " is " + shape_text(shape) + ", expected " + shape_text(*expected));
    std::vector<double> values(
        std::accumulate(shape.begin(), shape.end(), std::size_t{1}, std::multiplies<>()));
    if (!values.empty())
      h5(H5Dread(handle, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), dataset);
    if (const auto digest = stored_digest(handle);
        digest && *digest != digest_of(values.data(), values.size()))
      throw BadInput(dataset +
                     " is damaged: its digest is not the one written with it (remove the attribute " +
                     names::digest.name + " if the numbers were changed on purpose)");
    shape.insert(shape.begin(), shape.size());
    return as_bytes(shape) + as_bytes(values);
  });
  const std::size_t rank = from_bytes<std::size_t>(bytes.substr(0, sizeof(std::size_t))).front();
  const std::size_t header = (rank + 1) * sizeof(std::size_t);
  return {.shape = from_bytes<std::size_t>(bytes.substr(sizeof(std::size_t), rank * sizeof(std::size_t))),
          .values = from_bytes<double>(bytes.substr(header))};
}

void ArchiveReader::field(const std::string& dataset, const FieldPart& part, double* memory,
                          std::optional<std::size_t> time) const {
  read(dataset, collectively(comm_, [&] { return FieldSlab(part); }), memory, time);
}

std::vector<double> ArchiveReader::packed(const std::string& dataset, const FieldPart& part,
                                          const FieldSelection& selection, std::size_t time) const {
  const FieldSlab slab = collectively(comm_, [&] { return FieldSlab(part, selection); });
  std::vector<double> numbers(slab.count());
  read(dataset, slab, numbers.data(), time);
  return numbers;
}

void ArchiveReader::pieces(const std::string& dataset, const FlatPart& part, double* memory) const {
  require_shape(dataset, shape(dataset), {part.size});
  collectively(comm_, [&] {
    blaming(called_, [&] { read_pieces(open_numbers(shared_file(), dataset), part, memory); });
  });
}

void ArchiveReader::require_shape(const std::string& dataset, const std::vector<std::size_t>& found,
                                  const std::vector<std::size_t>& expected) const {
  if (found != expected)
    throw BadInput(called_ + ": " + dataset + " is " + shape_text(found) + ", expected " +
                   shape_text(expected));
}

hid_t ArchiveReader::shared_file() const {
  if (!shared_.open()) {
    const PropertyHandle access(h5(H5Pcreate(H5P_FILE_ACCESS), "H5Pcreate"));
    h5(H5Pset_fapl_mpio(access, comm_, MPI_INFO_NULL), "H5Pset_fapl_mpio");
    h5(H5Pset_all_coll_metadata_ops(access, true), "H5Pset_all_coll_metadata_ops");
    shared_ = FileHandle(h5(H5Fopen(path_.c_str(), H5F_ACC_RDONLY, access), "opening it with MPI-IO"));
  }
  return shared_;
}

void ArchiveReader::read(const std::string& dataset, const FieldSlab& slab, double* packed,
                         std::optional<std::size_t> time) const {
  std::vector<std::size_t> expected(slab.shape().begin(), slab.shape().end());
  const auto found = shape(dataset);
  if (time) expected.insert(expected.begin(), found.empty() ? 0 : std::max(found[0], *time + 1));
  require_shape(dataset, found, expected);
  const std::size_t pieces = slab.pieces(comm_);
  collectively(comm_, [&] {
    blaming(called_,
            [&] { read_slab(open_numbers(shared_file(), dataset), slab, time.value_or(0), packed, pieces); });
  });
}

}  // namespace fluxformer::io
