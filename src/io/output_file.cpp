#include "io/output_file.hpp"

#include "base/error.hpp"
#include "base/phases.hpp"
#include "io/hdf5/hdf5_objects.hpp"

namespace fluxformer::io {

namespace {

// Upper bounds of what one object adds to the file besides its data (object headers, attributes, chunk
// index), and of what HDF5 buffers between two flushes. The margin is always reserved, so that the file can
// be closed properly when the disk has just run full.
constexpr std::uint64_t metadata_of_an_object = std::uint64_t{1} << 14;
constexpr std::uint64_t margin = std::uint64_t{1} << 20;

PropertyHandle parallel_access(MPI_Comm comm) {
  PropertyHandle access(h5(H5Pcreate(H5P_FILE_ACCESS), "preparing MPI-IO"));
  h5(H5Pset_fapl_mpio(access, comm, MPI_INFO_NULL), "preparing MPI-IO");
  // Object headers of HDF5 1.8 allow large attributes (the list of references to a dimension scale) and are
  // widely supported.
  h5(H5Pset_libver_bounds(access, H5F_LIBVER_V18, H5F_LIBVER_LATEST), "choosing the file format");
  h5(H5Pset_coll_metadata_write(access, true), "preparing MPI-IO");
  h5(H5Pset_all_coll_metadata_ops(access, true), "preparing MPI-IO");
  return access;
}

}  // namespace

std::uint64_t room_for(std::uint64_t bytes, std::uint64_t objects) {
  constexpr std::uint64_t of_every_file = 128;  // the attributes of the run, axes, timings
  return bytes + (objects + of_every_file) * metadata_of_an_object + 2 * margin;
}

OutputFile::OutputFile(MPI_Comm comm, const std::string& path, bool overwrite)
    : OutputFile(std::make_unique<PartFile>(comm, path, overwrite)) {}

OutputFile::OutputFile(std::unique_ptr<PartFile> claim) : part_(std::move(claim)) {
  part_->reserve(0, margin);
  collectively(comm(), [&] {
    quiet_hdf5();
    const PropertyHandle access = parallel_access(comm());
    // The truncation keeps the inode that rank 0 has open.
    file_ =
        FileHandle(h5(H5Fcreate(part_->part().c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access), part_->part()));
  });
  flush();  // which also restores the reservation lost by the truncation
}

void OutputFile::make_room(std::uint64_t bytes) {
  end_ += bytes;
  if (end_ + margin <= reserved_) return;
  const std::uint64_t enough = end_ + 2 * margin;
  part_->reserve(reserved_, enough - reserved_);
  reserved_ = enough;
}

void OutputFile::change(const std::string& doing, std::uint64_t bytes, const std::function<void()>& work,
                        std::uint64_t objects) {
  const InPhase phase(Phase::output);
  make_room(bytes + objects * metadata_of_an_object);
  collectively(comm(), [&] {
    try {
      work();
    } catch (const Error& e) {
      throw Error(e.code(), part_->part() + ": " + doing + ": " + e.what());
    }
  });
}

void OutputFile::flush() {
  const InPhase phase(Phase::output);
  collectively(comm(), [&] { h5(H5Fflush(file_, H5F_SCOPE_LOCAL), part_->part() + ": flushing"); });
  // Flushing truncates the file to its length, which releases the reservation.
  end_ = reserved_ = part_->size();
  make_room(0);
}

void OutputFile::close() {
  flush();
  collectively(comm(), [&] { h5(file_.close(), part_->part() + ": closing"); });
}

void OutputFile::commit(const std::string& previous) {
  const InPhase phase(Phase::output);
  close();
  part_->commit(previous);
}

void OutputFile::commit_as(const std::string& path) {
  const InPhase phase(Phase::output);
  close();
  part_->commit_as(path);
}

}  // namespace fluxformer::io
