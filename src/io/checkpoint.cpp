#include "io/checkpoint.hpp"

#include <cmath>
#include <utility>

#include "base/mpi.hpp"
#include "io/digest.hpp"
#include "io/file_names.hpp"
#include "io/hdf5/hdf5_objects.hpp"
#include "io/layout.hpp"

namespace fluxformer::io {

namespace {

/// Path of an item that is a dataset.
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

void CheckpointWriter::put_value(const std::string& name, const AttributeValue& value) {
  const auto* text = std::get_if<std::string>(&value);
  file_.change(name, text != nullptr ? text->size() : 0,
               [&] { write_attribute(open_group(file_.id(), names::state), name, value); });
  contents_ += digest_of_item(name, value);
}

void CheckpointWriter::put(const NumbersItem& item, const std::vector<double>& values) {
  const bool root = mpi::is_root(file_.comm());
  create(item.name, {values.size()}, root ? digest_of(values.data(), values.size()) : 0, [&](hid_t dataset) {
    if (root && !values.empty()) write_contiguous(dataset, H5T_NATIVE_DOUBLE, values.data());
  });
}

void CheckpointWriter::put(const NumbersItem& item, const FlatPart& part, const double* memory) {
  std::uint64_t digest = 0;
  for (const auto& piece : part.pieces) digest += digest_of(memory + piece.at, piece.count, piece.first);
  create(item.name, std::vector<hsize_t>(1, part.size), digest,
         [&](hid_t dataset) { write_pieces(dataset, part, memory); });
}

void CheckpointWriter::put(const NumbersItem& item, const FieldPart& part, const double* memory) {
  const FieldSlab slab = collectively(file_.comm(), [&] { return FieldSlab(part); });
  create(item.name, slab.shape(), slab.digest(memory),
         [&](hid_t dataset) { write_slab(dataset, slab, 0, memory); });
}

void CheckpointWriter::create(const std::string& name, const std::vector<hsize_t>& shape,
                              std::uint64_t digest_here, const std::function<void(hid_t)>& write) {
  std::uint64_t digest = digest_here;
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &digest, 1, MPI_UINT64_T, MPI_SUM, file_.comm()));
  file_.change(stored(name), 8 * stored_numbers(shape, {}), [&] {
    const DatasetHandle dataset = create_dataset(file_.id(), stored(name), H5T_IEEE_F64LE, {.dims = shape});
    write_attribute(dataset, names::digest, as_attribute(digest));
    write(dataset);
  });
  contents_ += digest_of_item(name, as_attribute(digest));
}

void CheckpointWriter::commit() {
  file_.change(names::digest, 0, [&] {
    write_attribute(open_group(file_.id(), names::state), names::digest, as_attribute(contents_));
  });
  file_.flush();
  put_value(names::complete, 1L);
  file_.commit(previous_);
}

CheckpointReader::CheckpointReader(MPI_Comm comm, const std::string& path)
    : reader_(comm, path, "checkpoint ") {
  if (!reader_.has(names::state))
    throw BadInput(reader_.called() + ": not a checkpoint (no " + names::state + ")");
  if (!reader_.has_attribute(names::complete, names::state))
    throw BadInput(reader_.called() + ": is incomplete; its writing was interrupted");
  reader_.require_digests(names::state);
}

CheckpointReader CheckpointReader::newest(MPI_Comm comm, const std::string& output) {
  try {
    return CheckpointReader(comm, checkpoint_path(output));
  } catch (const BadInput& newer) {
    try {
      CheckpointReader older(comm, previous_checkpoint_path(output));
      older.newer_failed_ = newer.what();
      return older;
    } catch (const BadInput& older) {
      throw BadInput("no checkpoint of " + output + " can be read: " + newer.what() + "; " + older.what());
    }
  }
}

std::string CheckpointReader::text(const char* name) const {
  return reader_.text(name, names::state);
}

long CheckpointReader::integer(const WholeItem& item) const {
  const long value = reader_.integer(item.name, names::state);
  if (value < item.least || value > item.most)
    throw BadInput(called() + ": " + item.name + " = " + std::to_string(value) + " is out of range");
  return value;
}

double CheckpointReader::real(const RealItem& item) const {
  const double value = reader_.real(item.name, names::state);
  if (!(value >= item.least && value <= item.most))
    throw BadInput(called() + ": " + item.name + " = " + std::to_string(value) + " is out of range");
  return value;
}

std::vector<double> CheckpointReader::numbers(const NumbersItem& item, Index size) const {
  auto values = reader_.array(stored(item.name), {size}).values;
  require_range(item, values);
  return values;
}

void CheckpointReader::part(const NumbersItem& item, const FlatPart& part, double* memory) const {
  reader_.pieces(stored(item.name), part, memory);
  collectively(reader_.comm(), [&] {
    for (const auto& piece : part.pieces) require_range(item, std::span(memory + piece.at, piece.count));
  });
}

std::vector<double> CheckpointReader::rows(const NumbersItem& item, Index width) const {
  auto array = reader_.array(stored(item.name));
  if (array.shape.size() != 1 || array.shape[0] % width != 0)
    throw BadInput(called() + ": " + item.name + " is not a list of rows of " + std::to_string(width) +
                   " numbers, as these settings need it");
  require_range(item, array.values);
  return std::move(array.values);
}

void CheckpointReader::field(const NumbersItem& item, const FieldPart& part, double* memory) const {
  reader_.field(stored(item.name), part, memory);
  collectively(reader_.comm(), [&] { require_range(item, std::span(memory, part.size())); });
}

void CheckpointReader::require_range(const NumbersItem& item, std::span<const double> values) const {
  for (const double value : values)
    if (!(value >= item.least && value <= std::numeric_limits<double>::max()) &&
        !(item.can_be_nan && std::isnan(value)) && !(item.can_be_infinite && std::isinf(value)))
      throw BadInput(called() + ": " + item.name + " holds " + std::to_string(value) +
                     ", which is out of range");
}

}  // namespace fluxformer::io
