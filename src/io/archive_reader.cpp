#include "io/archive_reader.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <numeric>
#include <span>

#include "base/error.hpp"
#include "base/mpi.hpp"
#include "io/digest.hpp"
#include "io/from_root.hpp"
#include "io/hdf5/checker.hpp"
#include "io/hdf5/finished_file.hpp"
#include "io/hdf5/hdf5_objects.hpp"
#include "io/layout.hpp"

namespace fluxformer::io {

namespace {

std::string tagged(char tag, const std::string& bytes) {
  std::string all(1, tag);
  all += bytes;
  return all;
}

std::string shape_text(const std::vector<Index>& shape) {
  std::string text;
  for (const Index extent : shape) text += (text.empty() ? "" : " x ") + std::to_string(extent);
  return text.empty() ? "a single number" : text;
}

/// Runs `read`; a failure of it becomes BadInput that names the file.
template <class Read>
auto blaming(const std::string& file, const Read& read) {
  const AtOnce at_once(file);
  try {
    return read();
  } catch (const NoChecker& e) {
    throw Error(e.code(), file + ": " + e.what());
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

std::vector<Index> shape_of(hid_t dataset) {
  const auto dims = dataset_shape(dataset);
  return {dims.begin(), dims.end()};
}

constexpr const char* damaged = " is damaged: its digest is not the one written with it";

/// Where the numbers of a dataset lie in the file, and their digest when they were written.
struct Stored {
  Index offset = 0, count = 0;  ///< bytes from the beginning of the file; numbers
  std::uint64_t digest = 0;
};

/// Finds the numbers of a dataset. Throws BadInput if it has no digest, or is not contiguous.
Stored stored(hid_t file, const std::string& path) {
  const DatasetHandle dataset = open_dataset(file, path);
  const auto digest = stored_digest(dataset);
  if (!digest) throw BadInput(path + " has no attribute " + names::digest.name);
  const TypeHandle type(h5(H5Dget_type(dataset), path));
  const hsize_t count = stored_numbers(dataset_shape(dataset), {});
  const haddr_t offset = count > 0 ? H5Dget_offset(dataset) : 0;
  if (h5(H5Tequal(type, H5T_IEEE_F64LE), path) == 0 || offset == HADDR_UNDEF)
    throw BadInput(path + " is not stored as this program stores it");
  Stored numbers;
  numbers.offset = offset;
  numbers.count = count;
  numbers.digest = *digest;
  return numbers;
}

/// A file opened for reading.
struct Descriptor {
  explicit Descriptor(const std::string& path) : number(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (number < 0) throw BadInput(std::string("cannot be read (") + std::strerror(errno) + ")");
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { ::close(number); }
  int number;
};

void read_all(const Descriptor& file, Index offset, std::span<double> to) {
  const auto bytes = std::as_writable_bytes(to);
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t more = ::pread(file.number, bytes.data() + done, bytes.size() - done, offset + done);
    if (more < 0 && errno == EINTR) continue;
    if (more < 0) throw BadInput(std::string("cannot be read (") + std::strerror(errno) + ")");
    if (more == 0) throw BadInput("is truncated");
    done += more;
  }
}

/// The digest of this rank's share of the numbers.
std::uint64_t digest_of_share(const Descriptor& file, const Stored& numbers, MPI_Comm comm) {
  constexpr Index most = Index{1} << 17;  // numbers in memory at a time
  const Index blocks = (numbers.count + most - 1) / most;
  std::vector<double> block;
  std::uint64_t sum = 0;
  for (Index k = mpi::rank(comm), ranks = mpi::size(comm); k < blocks; k += ranks) {
    block.resize(std::min(most, numbers.count - k * most));
    read_all(file, numbers.offset + k * most * sizeof(double), block);
    sum += digest_of(block.data(), block.size(), k * most);
  }
  return sum;
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
  if (const auto* whole = std::get_if<long>(&value)) return *whole;
  throw BadInput(called_ + ": attribute " + name + " of " + object + " is not a number");
}

std::vector<Index> ArchiveReader::shape(const std::string& dataset) const {
  return from_bytes<Index>(from_file([&] { return as_bytes(shape_of(open_numbers(small_, dataset))); }));
}

Array ArchiveReader::array(const std::string& dataset) const {
  return read_array(dataset, nullptr);
}

Array ArchiveReader::array(const std::string& dataset, const std::vector<Index>& expected) const {
  return read_array(dataset, &expected);
}

Array ArchiveReader::read_array(const std::string& dataset, const std::vector<Index>* expected) const {
  // Rank, shape and numbers are broadcast together, since a model has hundreds of arrays.
  const std::string bytes = from_file([&] {
    const DatasetHandle handle = open_numbers(small_, dataset);
    std::vector<Index> shape = shape_of(handle);
    if (expected != nullptr && shape != *expected)
      throw BadInput(dataset + " is " + shape_text(shape) + ", expected " + shape_text(*expected));
    std::vector<double> values(std::accumulate(shape.begin(), shape.end(), hsize_t{1}, std::multiplies<>()));
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
  const Index rank = from_bytes<Index>(bytes.substr(0, sizeof(Index))).front();
  const Index header = (rank + 1) * sizeof(Index);
  return {.shape = from_bytes<Index>(bytes.substr(sizeof(Index), rank * sizeof(Index))),
          .values = from_bytes<double>(bytes.substr(header))};
}

std::vector<std::string> ArchiveReader::words(const std::string& dataset) const {
  return from_terminated(from_file([&] { return read_words(small_, dataset); }));
}

void ArchiveReader::field(const std::string& dataset, const FieldPart& part, double* memory,
                          std::optional<Index> time) const {
  read(dataset, collectively(comm_, [&] { return FieldSlab(part); }), memory, time);
}

std::vector<double> ArchiveReader::packed(const std::string& dataset, const FieldPart& part,
                                          const FieldSelection& selection, Index time) const {
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

void ArchiveReader::require_shape(const std::string& dataset, const std::vector<Index>& found,
                                  const std::vector<Index>& expected) const {
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
                         std::optional<Index> time) const {
  std::vector<Index> expected(slab.shape().begin(), slab.shape().end());
  const auto found = shape(dataset);
  if (time) expected.insert(expected.begin(), found.empty() ? 0 : std::max(found[0], *time + 1));
  require_shape(dataset, found, expected);
  const Index pieces = slab.pieces(comm_);
  collectively(comm_, [&] {
    blaming(called_,
            [&] { read_slab(open_numbers(shared_file(), dataset), slab, time.value_or(0), packed, pieces); });
  });
}

void ArchiveReader::require_digests(const std::string& group) const {
  std::vector<std::string> paths;  // rank 0
  const auto list = from_bytes<Stored>(from_file([&]() -> std::string {
    const GroupHandle handle(h5(H5Gopen2(small_, group.c_str(), H5P_DEFAULT), group));
    const auto whole = stored_digest(handle);
    if (!whole) return {};
    std::uint64_t sum = 0;
    for (const auto& name : attributes_of(handle))
      if (name != names::digest.name && name != names::complete.name)
        sum += digest_of_item(name, read_attribute(handle, name).value());
    std::vector<Stored> all;
    for (const auto& name : members_of(handle)) {
      paths.push_back(names::in(group, name));
      all.push_back(stored(small_, paths.back()));
      sum += digest_of_item(name, as_attribute(all.back().digest));
    }
    if (sum != *whole) throw BadInput(group + damaged);
    return as_bytes(all);
  }));
  auto found = collectively(comm_, [&] {
    std::vector<std::uint64_t> digests;
    try {
      const Descriptor file(path_);
      for (const Stored& numbers : list) digests.push_back(digest_of_share(file, numbers, comm_));
    } catch (const BadInput& e) {
      throw BadInput(called_ + ": " + e.what());
    }
    return digests;
  });
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, found.data(), std::ssize(found), MPI_UINT64_T, MPI_SUM, comm_));
  from_file([&]() -> std::string {
    for (Index k = 0; k < std::ssize(list); ++k)
      if (found[k] != list[k].digest) throw BadInput(paths[k] + damaged);
    return {};
  });
}

bool EarlierResult::incomplete() const {
  return status == names::failed || status == names::interrupted;
}

std::optional<std::int64_t> time_written(MPI_Comm comm, const std::string& path) {
  std::int64_t look[2] = {0, 0};  // 1 if the file is there, and when it was written
  struct stat found {};
  if (mpi::is_root(comm) && ::stat(path.c_str(), &found) == 0) {
    look[0] = 1;
    look[1] = found.st_mtim.tv_sec * std::int64_t{1000000000} + found.st_mtim.tv_nsec;
  }
  check_mpi(MPI_Bcast(look, 2, MPI_INT64_T, 0, comm));
  if (look[0] == 0) return {};
  return look[1];
}

EarlierResult earlier_result(MPI_Comm comm, const std::string& path) {
  EarlierResult result{.written = time_written(comm, path), .status = {}};
  if (!result.written) return result;
  try {
    result.status = ArchiveReader(comm, path).text(names::status);
  } catch (const Error&) {  // the file of another program, or a damaged one
  }
  return result;
}

}  // namespace fluxformer::io
