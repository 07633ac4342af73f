#include "io/checkpoint.hpp"

#include "io/file_names.hpp"
#include "io/hdf5/hdf5_check.hpp"
#include "io/layout.hpp"

namespace fluxformer::io {

namespace {

std::string stored(const std::string& name) {
  return names::in(names::state, name);
}

}  // namespace

CheckpointWriter::CheckpointWriter(MPI_Comm comm, const std::string& output)
    : file_(comm, checkpoint_path(output), true), previous_(previous_checkpoint_path(output)) {
  file_.change(names::state, 0, [&] {
    const GroupHandle root = open_group(file_.id(), "/");
    write_attribute(root, names::version, schema_version);
    open_group(file_.id(), names::state);
  });
}

void CheckpointWriter::put(const std::string& name, const AttributeValue& value) {
  const auto* text = std::get_if<std::string>(&value);
  file_.change(name, text != nullptr ? text->size() : 0,
               [&] { write_attribute(open_group(file_.id(), names::state), name, value); });
}

void CheckpointWriter::put(const std::string& name, const std::vector<double>& values) {
  int rank = 0;
  check_mpi(MPI_Comm_rank(file_.comm(), &rank));
  file_.change(stored(name), 8 * values.size(), [&] {
    const DatasetHandle dataset =
        create_dataset(file_.id(), stored(name), H5T_IEEE_F64LE, {.dims = {values.size()}});
    if (rank == 0 && !values.empty()) write_contiguous(dataset, H5T_NATIVE_DOUBLE, values.data());
  });
}

void CheckpointWriter::put(const std::string& name, const FieldPart& part, const double* memory) {
  const FieldSlab slab = collectively(file_.comm(), [&] { return FieldSlab(part); });
  file_.change(stored(name), 8 * stored_numbers(slab.shape(), {}), [&] {
    const DatasetHandle dataset =
        create_dataset(file_.id(), stored(name), H5T_IEEE_F64LE, {.dims = slab.shape()});
    write_slab(dataset, slab, 0, memory);
  });
}

void CheckpointWriter::commit() {
  file_.flush();
  put(names::complete, 1L);
  file_.commit(previous_);
}

CheckpointReader::CheckpointReader(MPI_Comm comm, const std::string& path) : reader_(comm, path) {
  if (!reader_.has(names::state)) throw BadInput(path + ": not a checkpoint (no " + names::state + ")");
  if (!reader_.has_attribute(names::complete, names::state))
    throw BadInput(path + ": the checkpoint is incomplete; its writing was interrupted");
}

CheckpointReader CheckpointReader::newest(MPI_Comm comm, const std::string& output) {
  try {
    return CheckpointReader(comm, checkpoint_path(output));
  } catch (const BadInput& newer) {
    try {
      return CheckpointReader(comm, previous_checkpoint_path(output));
    } catch (const BadInput& older) {
      throw BadInput("no checkpoint of " + output + " can be read: " + newer.what() + "; " + older.what());
    }
  }
}

bool CheckpointReader::has(const std::string& name) const {
  return reader_.has(stored(name)) || reader_.has_attribute(name, names::state);
}
long CheckpointReader::integer(const std::string& name) const {
  return reader_.integer(name, names::state);
}
double CheckpointReader::real(const std::string& name) const {
  return reader_.real(name, names::state);
}
std::string CheckpointReader::text(const std::string& name) const {
  return reader_.text(name, names::state);
}
std::vector<double> CheckpointReader::numbers(const std::string& name) const {
  return reader_.array(stored(name)).values;
}
void CheckpointReader::field(const std::string& name, const FieldPart& part, double* memory) const {
  reader_.field(stored(name), part, memory);
}

}  // namespace fluxformer::io
