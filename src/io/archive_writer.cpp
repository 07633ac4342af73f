#include "io/archive_writer.hpp"

#include <hdf5_hl.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <stdexcept>

#include "base/rank_of.hpp"
#include "io/archive_reader.hpp"
#include "io/digest.hpp"
#include "io/file_names.hpp"
#include "io/hdf5/hdf5_objects.hpp"
#include "io/layout.hpp"
#include "io/xdmf.hpp"

namespace fluxformer::io {

namespace {

std::vector<hsize_t> as_dims(const std::vector<std::size_t>& shape) {
  return {shape.begin(), shape.end()};
}

// netCDF-4's name for a scale that is a dimension but holds no coordinate (netCDF-C, nc4hdf.c).
std::string without_variable(std::size_t size) {
  char text[96];
  std::snprintf(text, sizeof text, "This is a netCDF dimension but not a netCDF variable.%10zu", size);
  return text;
}

/// Those of rank 0's numbers, for the arrays that have one. Collective.
std::vector<std::uint64_t> digests_of(const std::vector<SmallArray>& list, MPI_Comm comm) {
  std::vector<std::uint64_t> digests(list.size());
  if (std::ranges::none_of(list, &SmallArray::with_digest)) return digests;
  if (RankOf(comm).root())
    for (std::size_t k = 0; k < list.size(); ++k)
      if (list[k].with_digest)
        digests[k] = digest_of(list[k].data, stored_numbers(as_dims(list[k].shape), {}));
  check_mpi(MPI_Bcast(digests.data(), static_cast<int>(digests.size()), MPI_UINT64_T, 0, comm));
  return digests;
}

hid_t stored_type(bool whole_numbers) {
  return whole_numbers ? H5T_STD_I64LE : H5T_IEEE_F64LE;
}

/// Only a result that is done replaces what is not incomplete itself.
std::string place_of(const OutputFile& file, const std::string& status) {
  if (status == names::done) return file.path();
  const auto earlier = earlier_result(file.comm(), file.path());
  return earlier.written && !earlier.incomplete() ? incomplete_path(file.path(), status) : file.path();
}

}  // namespace

ArchiveWriter::ArchiveWriter(MPI_Comm comm, const std::string& path, bool overwrite)
    : ArchiveWriter(std::make_unique<PartFile>(comm, path, overwrite)) {}

ArchiveWriter::ArchiveWriter(std::unique_ptr<PartFile> claim) : file_(std::move(claim)) {
  check_mpi(MPI_Comm_rank(file_.comm(), &rank_));
  attribute(names::version, schema_version);
  attribute(names::status, names::running);
  unsigned major = 0, minor = 0, release = 0;
  H5get_libversion(&major, &minor, &release);
  attribute(names::hdf5, std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(release));
}

void ArchiveWriter::attribute(const std::string& name, const AttributeValue& value,
                              const std::string& object) {
  const auto* text = std::get_if<std::string>(&value);
  file_.change("attribute " + name, text != nullptr ? text->size() : 0, [&] {
    const bool exists = path_exists(file_.id(), object);
    const ObjectHandle target(exists ? h5(H5Oopen(file_.id(), object.c_str(), H5P_DEFAULT), object)
                                     : h5(H5Oopen(open_group(file_.id(), object), ".", H5P_DEFAULT), object));
    write_attribute(target, name, value);
  });
}

const ArchiveWriter::KnownAxis& ArchiveWriter::known(const std::string& axis) const {
  const auto found = axes_.find(axis);
  if (found == axes_.end()) throw std::logic_error("archive: no axis named " + axis);
  return found->second;
}

void ArchiveWriter::axis(const Axis& axis) {
  if (axes_.contains(axis.name)) throw std::logic_error("archive: axis " + axis.name + " is defined twice");
  const std::string path = "/" + axis.name;
  const std::size_t size = axis.growing ? 0 : axis.values.size();
  file_.change("axis " + axis.name, 8 * size, [&] {
    const DatasetShape shape{.dims = {size},
                             .chunk = axis.growing ? std::vector<hsize_t>{512} : std::vector<hsize_t>{},
                             .extendible = axis.growing};
    DatasetHandle scale = create_dataset(file_.id(), path, stored_type(axis.whole_numbers), shape);
    h5(H5DSset_scale(scale, axis.name.c_str()), "H5DSset_scale");
    write_attribute(scale, names::unit, axis.unit.empty() ? "1" : axis.unit);
    write_attribute(scale, names::long_name, axis.long_name);
    write_whole(scale, axis.whole_numbers, axis.values.data(), size);
    axes_[axis.name] = {
        .scale = std::move(scale), .growing = axis.growing, .values = axis.values, .size = size};
  });
  if (!axis.growing) return;
  axes_[axis.name].values.clear();
  Growing& growing = growing_[path];
  growing.dataset = DatasetHandle(h5(H5Dopen2(file_.id(), path.c_str(), H5P_DEFAULT), path));
}

void ArchiveWriter::axis(const Variable& coordinate, std::vector<double> values) {
  axis({coordinate.name, std::move(values), coordinate.unit, coordinate.long_name, false,
        coordinate.whole_numbers});
}

void ArchiveWriter::growing_axis(const Variable& coordinate) {
  axis({coordinate.name, {}, coordinate.unit, coordinate.long_name, true, coordinate.whole_numbers});
}

void ArchiveWriter::write(const std::string& group,
                          const std::vector<std::pair<Variable, std::vector<double>>>& list) {
  std::vector<SmallArray> all;
  for (const auto& [variable, values] : list) {
    std::vector<std::size_t> shape;
    std::size_t size = 1;
    for (const auto& axis : variable.axes) {
      const auto extent = names::anonymous_extent(axis);
      shape.push_back(extent ? *extent : known(axis).size);
      if (extent) anonymous_axis(*extent, 1);
      size *= shape.back();
    }
    if (values.size() != size)
      throw std::logic_error("archive: " + std::to_string(values.size()) + " numbers for " + variable.name +
                             ", whose axes have " + std::to_string(size) + " points");
    all.push_back(
        {names::in(group, variable.name), shape, values.data(), meaning_of(variable), variable.axes});
  }
  arrays(all);
}

const std::string& ArchiveWriter::anonymous_axis(std::size_t size, std::size_t repetition) {
  const std::string name = names::anonymous_axis(size, repetition);
  const auto found = axes_.find(name);
  if (found != axes_.end()) return found->first;
  file_.change("axis " + name, 4 * size, [&] {
    DatasetHandle scale = create_dataset(file_.id(), "/" + name, H5T_IEEE_F32BE, {.dims = {size}});
    h5(H5DSset_scale(scale, without_variable(size).c_str()), "H5DSset_scale");
    axes_[name] = {.scale = std::move(scale), .growing = false, .values = {}, .size = size};
  });
  return axes_.find(name)->first;
}

void ArchiveWriter::write_whole(hid_t dataset, bool whole_numbers, const double* data, std::size_t count) {
  if (count == 0 || !root()) return;
  if (!whole_numbers) {
    write_contiguous(dataset, H5T_NATIVE_DOUBLE, data);
    return;
  }
  const std::vector<std::int64_t> whole(data, data + count);
  write_contiguous(dataset, H5T_NATIVE_INT64, whole.data());
}

void ArchiveWriter::attach(hid_t dataset, const std::vector<std::string>& axes) {
  for (std::size_t k = 0; k < axes.size(); ++k)
    h5(H5DSattach_scale(dataset, known(axes[k]).scale, static_cast<unsigned>(k)),
       "attaching axis " + axes[k]);
}

void ArchiveWriter::attach(hid_t dataset, const std::vector<std::string>& axes, const Meaning& meaning) {
  attach(dataset, axes);
  write_attribute(dataset, names::unit, meaning.unit.empty() ? "1" : meaning.unit);
  write_attribute(dataset, names::long_name, meaning.long_name);
}

std::vector<std::string> ArchiveWriter::named_axes(const std::string& path,
                                                   const std::vector<std::size_t>& shape,
                                                   std::vector<std::string> axes) {
  axes.resize(shape.size());
  std::map<std::size_t, std::size_t> repetitions;
  for (std::size_t k = 0; k < shape.size(); ++k) {
    if (axes[k].empty()) axes[k] = anonymous_axis(shape[k], ++repetitions[shape[k]]);
    if (known(axes[k]).growing || known(axes[k]).size != shape[k])
      throw std::logic_error("archive: " + path + " is not as long as its axis " + axes[k]);
  }
  return axes;
}

void ArchiveWriter::arrays(const std::vector<SmallArray>& list) {
  if (list.empty()) return;
  std::vector<std::vector<std::string>> axes;
  hsize_t numbers = 0;
  for (const SmallArray& array : list) {
    axes.push_back(named_axes(array.path, array.shape, array.axes));
    numbers += stored_numbers(as_dims(array.shape), {});
  }
  const auto digests = digests_of(list, file_.comm());
  const std::string doing = list.size() == 1 ? list[0].path : std::to_string(list.size()) + " arrays";
  const auto work = [&] {
    // All ranks create the datasets, then rank 0 alone writes: no synchronisation for each array.
    std::vector<DatasetHandle> datasets;
    for (std::size_t k = 0; k < list.size(); ++k) {
      datasets.push_back(create_dataset(file_.id(), list[k].path, stored_type(list[k].meaning.whole_numbers),
                                        {.dims = as_dims(list[k].shape)}));
      attach(datasets[k], axes[k], list[k].meaning);
      if (list[k].with_digest) write_attribute(datasets[k], names::digest, as_attribute(digests[k]));
    }
    for (std::size_t k = 0; k < list.size(); ++k)
      write_whole(datasets[k], list[k].meaning.whole_numbers, list[k].data,
                  stored_numbers(as_dims(list[k].shape), {}));
  };
  file_.change(doing, 8 * numbers, work, list.size());
}

void ArchiveWriter::timing(const std::string& phase, double seconds) {
  int ranks = 1;
  check_mpi(MPI_Comm_size(file_.comm(), &ranks));
  double summary[3] = {seconds, seconds, seconds};
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &summary[0], 1, MPI_DOUBLE, MPI_MIN, file_.comm()));
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &summary[1], 1, MPI_DOUBLE, MPI_SUM, file_.comm()));
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &summary[2], 1, MPI_DOUBLE, MPI_MAX, file_.comm()));
  summary[1] /= ranks;
  array(names::in(names::timing, phase), {3}, summary,
        {"s", "wall time of " + phase + ": min, mean, max over ranks"});
  attribute(names::statistics, "min mean max", names::timing);
}

std::string ArchiveWriter::side_car(const std::string& file) const {
  XdmfScene scene;
  scene.file = std::filesystem::path(file).filename().string();
  for (const XdmfChoice& choice : shown_) {
    const auto found = fields_.find(choice.field);
    if (found == fields_.end()) throw std::logic_error("archive: no field named " + choice.field);
    const Field& field = found->second;
    std::vector<std::size_t> shape = {field.times};
    shape.insert(shape.end(), field.slab.shape().begin(), field.slab.shape().end());
    scene.times = known(field.axes[0]).values;
    scene.depths = known(field.axes[1]).values;
    scene.tokens_x = static_cast<std::size_t>(field.tokens_x);
    scene.tokens_y = static_cast<std::size_t>(field.tokens_y);
    for (const std::size_t channel : choice.channels)
      scene.scalars.push_back({choice.field + "_channel_" + std::to_string(channel),
                               names::in(names::field, choice.field), shape, choice.sample, channel});
  }
  return xdmf_document(scene);
}

std::string ArchiveWriter::finish(const std::string& status) {
  flush();
  std::string place = place_of(file_, status);
  const std::string scene = shown_.empty() ? "" : side_car(place);
  attribute(names::status, status);
  fields_.clear();
  growing_.clear();
  axes_.clear();
  place == file_.path() ? file_.commit() : file_.commit_as(place);
  if (!scene.empty()) write_text_file(file_.comm(), side_car_path(place), scene);
  return place;
}

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

namespace {

constexpr hsize_t chunk_numbers = hsize_t{1} << 18;  // a megabyte
constexpr int deflate_of_rows = 4;

}  // namespace

void ArchiveWriter::rows(const std::string& group, const Variable& variable, std::span<const float> mine) {
  const std::string path = names::in(group, variable.name);
  if (variable.axes.size() != 2) throw std::logic_error("archive: " + path + " needs two axes");
  const hsize_t rows = known(variable.axes[0]).size, columns = known(variable.axes[1]).size;
  // Rows of all ranks, and of those up to this one; a rank with a part of a row makes the sum wrong.
  const auto whole = columns > 0 && mine.size() % columns == 0;
  const std::uint64_t here = whole ? mine.size() / columns : rows + 1;
  std::uint64_t all = here, end = here;
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_UINT64_T, MPI_SUM, file_.comm()));
  check_mpi(MPI_Scan(MPI_IN_PLACE, &end, 1, MPI_UINT64_T, MPI_SUM, file_.comm()));
  if (all != rows) throw std::logic_error("archive: " + path + " is not as long as its axes");

  const std::vector<hsize_t> dims{rows, columns},
      chunk{std::clamp<hsize_t>(chunk_numbers / columns, 1, rows), columns};
  const hsize_t numbers = stored_numbers(dims, chunk);
  // Each chunk adds an index entry of a few dozen bytes.
  file_.change(path, 4 * numbers + 64 * (numbers / (chunk[0] * chunk[1])), [&] {
    const DatasetHandle dataset = create_dataset(file_.id(), path, H5T_IEEE_F32LE,
                                                 {.dims = dims, .chunk = chunk, .deflate = deflate_of_rows});
    attach(dataset, variable.axes, meaning_of(variable));
    write_rows(dataset, here > 0, H5T_NATIVE_FLOAT, mine.data(), {end - here, here});
  });
}

void ArchiveWriter::words(const std::string& path, const std::vector<std::string>& words,
                          const std::string& long_name, const std::string& axis) {
  std::size_t longest = 1;  // HDF5 knows no type of length 0
  for (const std::string& word : words) {
    if (word.find('\0') != std::string::npos)
      throw std::logic_error("archive: a word of " + path + " holds a zero byte");
    longest = std::max(longest, word.size());
  }
  const auto axes = named_axes(path, {words.size()}, {axis});
  file_.change(path, words.size() * longest, [&] {
    const TypeHandle type = utf8_type(longest);
    const DatasetHandle dataset = create_dataset(file_.id(), path, type, {.dims = {words.size()}});
    attach(dataset, axes);
    write_attribute(dataset, names::long_name, long_name);
    if (!root() || words.empty()) return;
    std::string padded;
    for (const std::string& word : words) (padded += word).append(longest - word.size(), '\0');
    write_contiguous(dataset, type, padded.data());
  });
}

}  // namespace fluxformer::io
