// The parts of an archive that grow while the run goes on: series and fields.

#include <stdexcept>

#include "io/archive_writer.hpp"
#include "io/hdf5/hdf5_check.hpp"
#include "io/layout.hpp"

namespace fluxformer::io {

namespace {

constexpr std::size_t pending_numbers = 4096;  // numbers buffered per series

}  // namespace

void ArchiveWriter::series(const std::string& group, const Variable& variable) {
  const auto path = names::in(group, variable.name);
  const auto& axes = variable.axes;
  if (growing_.contains(path)) throw std::logic_error("archive: " + path + " is defined twice");
  if (axes.empty() || !known(axes.front()).growing)
    throw std::logic_error("archive: the first axis of " + path + " does not grow");
  Growing growing;
  DatasetShape shape{.dims = {0}, .chunk = {1}, .extendible = true};
  for (std::size_t k = 1; k < axes.size(); ++k) {
    if (known(axes[k]).growing)
      throw std::logic_error("archive: only the first axis of " + path + " may grow");
    shape.dims.push_back(known(axes[k]).size);
    shape.chunk.push_back(std::max<hsize_t>(1, known(axes[k]).size));
    growing.row *= known(axes[k]).size;
  }
  shape.chunk.front() = std::max<hsize_t>(1, 512 / std::max<std::size_t>(1, growing.row));
  file_.change(path, 0, [&] {
    growing.dataset = create_dataset(file_.id(), path, H5T_IEEE_F64LE, shape);
    attach(growing.dataset, axes, meaning_of(variable));
  });
  growing_[path] = std::move(growing);
}

void ArchiveWriter::append(const std::string& path, std::span<const double> row) {
  const auto found = growing_.find(path);
  if (found == growing_.end()) throw std::logic_error("archive: no series " + path);
  Growing& growing = found->second;
  if (row.size() != growing.row)
    throw std::logic_error("archive: a row of " + path + " has " + std::to_string(growing.row) + " numbers");
  growing.pending.insert(growing.pending.end(), row.begin(), row.end());
  if (const auto axis = axes_.find(path.substr(1)); axis != axes_.end()) {
    axis->second.values.push_back(row.front());
    ++axis->second.size;
  }
  if (growing.pending.size() >= pending_numbers) write_pending(path, growing);
}

void ArchiveWriter::write_pending(const std::string& path, Growing& growing) {
  if (growing.pending.empty()) return;
  const std::size_t rows = growing.pending.size() / growing.row;
  // The last chunk is allocated whole: at most 512 numbers or one row more.
  const std::uint64_t bytes = 8 * (growing.pending.size() + 512 + growing.row);
  file_.change(path, bytes, [&] {
    auto dims = dataset_shape(growing.dataset);
    dims.front() = growing.rows + rows;
    h5(H5Dset_extent(growing.dataset, dims.data()), "H5Dset_extent");
    write_rows(growing.dataset, root(), H5T_NATIVE_DOUBLE, growing.pending.data(),
               std::pair<hsize_t, hsize_t>{growing.rows, rows});
  });
  growing.rows += rows;
  growing.pending.clear();
}

void ArchiveWriter::flush() {
  for (auto& [path, growing] : growing_) write_pending(path, growing);
  file_.flush();
}

void ArchiveWriter::field(const Variable& variable, const FieldPart& part, const FieldSelection& selection,
                          int deflate) {
  const auto& name = variable.name;
  const auto& axes = variable.axes;
  const std::string path = names::in(names::field, name);
  if (fields_.contains(name)) throw std::logic_error("archive: " + path + " is defined twice");
  if (axes.size() != 5 || !known(axes.front()).growing)
    throw std::logic_error("archive: " + path + " needs five axes, the first a growing one");
  Field field;
  field.slab = collectively(file_.comm(), [&] { return FieldSlab(part, selection); });
  // Writing a compressed chunk in pieces would decompress and compress it each time.
  field.pieces = deflate > 0 ? 1 : field.slab.pieces(file_.comm());
  field.axes = axes;
  field.tokens_x = part.tokens_x;
  field.tokens_y = part.tokens_y;
  for (std::size_t k = 1; k < 5; ++k)
    if (known(axes[k]).growing || known(axes[k]).size != field.slab.shape()[k - 1])
      throw std::logic_error("archive: " + path + " is not as long as its axis " + axes[k]);
  DatasetShape shape{.dims = {0}, .extendible = true, .deflate = deflate};
  shape.dims.insert(shape.dims.end(), field.slab.shape().begin(), field.slab.shape().end());
  field.chunk = shape.chunk = chunk_within_a_depth_cell(field.slab.shape());
  file_.change(path, 0, [&] {
    field.dataset = create_dataset(file_.id(), path, H5T_IEEE_F64LE, shape);
    attach(field.dataset, axes, meaning_of(variable));
    write_attribute(field.dataset, names::tokens_x, static_cast<long>(part.tokens_x));
    write_attribute(field.dataset, names::tokens_y, static_cast<long>(part.tokens_y));
  });
  fields_[name] = std::move(field);
}

ArchiveWriter::Field& ArchiveWriter::known_field(const std::string& name) {
  const auto found = fields_.find(name);
  if (found == fields_.end()) throw std::logic_error("archive: no field named " + name);
  return found->second;
}

void ArchiveWriter::write(const std::string& name, std::size_t index, const double* memory) {
  const Field& field = known_field(name);
  // Packed before the collective write, where a failure would leave the other ranks waiting in MPI-IO.
  write_packed(name, index, collectively(file_.comm(), [&] { return field.slab.pack(memory, scratch_); }));
}

void ArchiveWriter::write_packed(const std::string& name, std::size_t index, const double* packed) {
  Field& field = known_field(name);
  if (index > field.times)
    throw std::logic_error("archive: field " + name + " would have a gap before time " +
                           std::to_string(index));
  std::vector<hsize_t> one_time = {1};
  one_time.insert(one_time.end(), field.slab.shape().begin(), field.slab.shape().end());
  const hsize_t numbers = stored_numbers(one_time, field.chunk);
  hsize_t chunk = 1;
  for (const hsize_t extent : field.chunk) chunk *= extent;
  // Each chunk adds an index entry of a few dozen bytes.
  file_.change(names::in(names::field, name), 8 * numbers + 64 * (numbers / chunk), [&] {
    if (index == field.times) {
      one_time.front() = index + 1;
      h5(H5Dset_extent(field.dataset, one_time.data()), "H5Dset_extent");
    }
    write_slab(field.dataset, field.slab, index, packed, field.pieces);
  });
  field.times = std::max(field.times, index + 1);
}

}  // namespace fluxformer::io
