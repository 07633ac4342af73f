#include "io/history_file.hpp"

#include <fcntl.h>
#include <hdf5_hl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <stdexcept>

#include "io/file_names.hpp"
#include "io/hdf5/hdf5_objects.hpp"
#include "io/layout.hpp"
#include "io/part_file.hpp"

namespace fluxformer::io {

namespace {

constexpr hsize_t chunk = 1024;       // rows
constexpr Index pending_rows = 4096;  // rows kept in memory
// Always reserved on top of the rows, for object headers and chunk indices, so that the file can be closed
// properly when the disk has just run full.
constexpr std::uint64_t reserve = std::uint64_t{1} << 20;

[[noreturn]] void fail(const char* doing, int error) {
  throw Error(ExitCode::failure, std::string(doing) + ": " + write_failure(error));
}

// Locks are not needed (there is one writer by design, readers follow the SWMR protocol), and parallel file
// systems often refuse them.
PropertyHandle serial_access() {
  PropertyHandle access(h5(H5Pcreate(H5P_FILE_ACCESS), "H5Pcreate"));
  h5(H5Pset_libver_bounds(access, H5F_LIBVER_LATEST, H5F_LIBVER_LATEST), "H5Pset_libver_bounds");
  h5(H5Pset_file_locking(access, false, true), "H5Pset_file_locking");
  return access;
}

int descriptor_of(hid_t file) {
  void* descriptor = nullptr;
  return H5Fget_vfd_handle(file, H5P_DEFAULT, &descriptor) < 0 ? -1 : *static_cast<const int*>(descriptor);
}

void take_name(const std::string& part, const std::string& path) {
  if (std::rename(part.c_str(), path.c_str()) != 0) fail("getting its name", errno);
}

// After a failed write HDF5 keeps the unwritten data, and if closing fails again it crashes at exit (1.10.8).
// So the rest goes to a temporary file in memory.
void discard_the_rest(hid_t file) {
  const int descriptor = descriptor_of(file), nowhere = ::memfd_create("history", MFD_CLOEXEC);
  if (descriptor >= 0) release_reserved(descriptor);
  if (descriptor >= 0 && nowhere >= 0) ::dup2(nowhere, descriptor);
  if (nowhere >= 0) ::close(nowhere);
}

}  // namespace

HistoryFile::HistoryFile(const std::string& path, const HistoryHeader& header, const HistoryTable& steps,
                         const HistoryTable& epochs)
    : path_(path), group_(header.group) {
  quiet_hdf5();
  steps_.of = steps;
  epochs_.of = epochs;
  attempt([&] {
    // It gets its name when it can be read; an old one is replaced, not truncated, since it may have readers.
    const std::string part = part_path(path_);
    create(part, header);
    h5(H5Fstart_swmr_write(file_), "beginning to write for readers");
    open_table(steps_);
    open_table(epochs_);
    take_name(part, path_);
  });
}

void HistoryFile::attempt(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& e) {
    if (file_.open()) discard_the_rest(file_);
    throw Error(e.code(), path_ + ": " + e.what());
  }
}

// Everything except the rows: under SWMR no object or attribute can be added.
void HistoryFile::create(const std::string& part, const HistoryHeader& header) {
  if (::unlink(part.c_str()) != 0 && errno != ENOENT) fail("cannot be replaced", errno);
  file_ = FileHandle(h5(H5Fcreate(part.c_str(), H5F_ACC_EXCL, H5P_DEFAULT, serial_access()), "creating it"));
  make_room(0);
  const GroupHandle root = open_group(file_, "/"), group = open_group(file_, group_);
  write_attribute(root, names::version, schema_version);
  write_attribute(root, names::status, names::running);
  for (const auto& [name, value] : header.run) write_attribute(root, name, value);
  for (const auto& [name, value] : header.of_group) write_attribute(group, name, value);
  create_table(steps_);
  create_table(epochs_);
}

void HistoryFile::create_table(const Table& table) {
  const auto make = [&](const std::string& path, const Variable& variable) {
    DatasetHandle dataset =
        create_dataset(file_, path, H5T_IEEE_F64LE, {.dims = {0}, .chunk = {chunk}, .extendible = true});
    write_attribute(dataset, names::unit, variable.unit.empty() ? "1" : variable.unit);
    write_attribute(dataset, names::long_name, variable.long_name);
    return dataset;
  };
  const DatasetHandle scale = make(names::root(table.of.axis), table.of.axis);
  h5(H5DSset_scale(scale, table.of.axis.name.c_str()), "H5DSset_scale");
  for (const auto& column : table.of.columns)
    h5(H5DSattach_scale(make(names::in(group_, column.name), column), scale, 0), "H5DSattach_scale");
}

void HistoryFile::open_table(Table& table) {
  // The axis is last and written last, so all columns have at least as many rows as the axis.
  for (const auto& column : table.of.columns) table.paths.push_back(names::in(group_, column.name));
  table.paths.push_back(names::root(table.of.axis));
  for (const auto& path : table.paths)
    table.datasets.emplace_back(h5(H5Dopen2(file_, path.c_str(), H5P_DEFAULT), path));
  table.rows.resize(table.datasets.size());
}

void HistoryFile::add(Table& table, double coordinate, std::span<const double> values) {
  if (values.size() != table.of.columns.size())
    throw std::logic_error("history: a row along " + table.of.axis.name + " has " +
                           std::to_string(table.of.columns.size()) + " numbers");
  for (Index k = 0; k < std::ssize(values); ++k) table.rows[k].push_back(values[k]);
  table.rows.back().push_back(coordinate);
  if (std::ssize(table.rows.back()) >= pending_rows) attempt([&] { write(table); });
}

void HistoryFile::flush() {
  attempt([&] {
    write(steps_);
    write(epochs_);
  });
}

void HistoryFile::make_room(std::uint64_t bytes) {
  hsize_t end = 0;
  h5(H5Fget_filesize(file_, &end), "asking for its length");
  if (end + bytes + reserve <= reserved_) return;
  const std::uint64_t enough = bytes + 2 * reserve;
  if (!disk_can_hold(descriptor_of(file_), end, enough)) fail("cannot grow", errno);
  reserved_ = end + enough;
}

void HistoryFile::write(Table& table) {
  const hsize_t rows = table.rows.back().size();
  if (rows == 0) return;
  make_room(sizeof(double) * (rows + chunk) * table.datasets.size());
  const hsize_t size = table.written + rows;
  const SpaceHandle memory(h5(H5Screate_simple(1, &rows, nullptr), "choosing rows"));
  for (Index k = 0; k < std::ssize(table.datasets); ++k) {
    const hid_t dataset = table.datasets[k];
    const std::string doing = "writing " + table.paths[k];
    h5(H5Dset_extent(dataset, &size), doing);
    const SpaceHandle space(h5(H5Dget_space(dataset), doing));
    h5(H5Sselect_hyperslab(space, H5S_SELECT_SET, &table.written, nullptr, &rows, nullptr), doing);
    h5(H5Dwrite(dataset, H5T_NATIVE_DOUBLE, memory, space, H5P_DEFAULT, table.rows[k].data()), doing);
    h5(H5Dflush(dataset), doing);
  }
  for (auto& pending : table.rows) pending.clear();
  table.written = size;
}

void HistoryFile::close(const std::string& status) {
  flush();
  attempt([&] {
    for (Table* table : {&steps_, &epochs_})
      for (DatasetHandle& dataset : table->datasets) h5(dataset.close(), "closing a data set");
    h5(file_.close(), "closing");
    // Attributes cannot be changed under SWMR, and nobody could read a file left open for plain writing: a
    // copy gets the status, and then the name. (No space is reserved beyond the end of the copy.)
    const std::string part = part_path(path_);
    std::error_code problem;
    std::filesystem::copy_file(path_, part, std::filesystem::copy_options::overwrite_existing, problem);
    if (problem) fail("closing: copying it", problem.value());
    FileHandle plain(h5(H5Fopen(part.c_str(), H5F_ACC_RDWR, serial_access()), "closing"));
    write_attribute(open_group(plain, "/"), names::status, status);
    h5(plain.close(), "closing");
    take_name(part, path_);
  });
}

}  // namespace fluxformer::io
