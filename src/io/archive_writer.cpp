#include "io/archive_writer.hpp"

#include <hdf5_hl.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <stdexcept>

#include "base/mpi.hpp"
#include "io/archive_reader.hpp"
#include "io/digest.hpp"
#include "io/file_names.hpp"
#include "io/hdf5/hdf5_objects.hpp"
#include "io/layout.hpp"
#include "io/xdmf.hpp"

namespace fluxformer::io {

namespace {

constexpr Index most_pending = 4096;  // numbers that a series buffers
// A chunk of a series holds at least this many numbers, unless one row does.
constexpr hsize_t chunk_of_series = 512;
constexpr hsize_t chunk_of_rows = hsize_t{1} << 18;  // numbers of 4 bytes: a megabyte
constexpr int deflate_of_rows = 4;
// A chunk adds an entry of a few dozen bytes to the index of its dataset.
constexpr hsize_t bytes_of_index_entry = 64;

/// netCDF-4's name for a scale that is a dimension but holds no coordinate (netCDF-C, nc4hdf.c).
std::string without_variable(Index size) {
  char text[96];
  std::snprintf(text, sizeof text, "This is a netCDF dimension but not a netCDF variable.%10td", size);
  return text;
}

hid_t stored_type(bool whole_numbers) {
  return whole_numbers ? H5T_STD_I64LE : H5T_IEEE_F64LE;
}

hsize_t product_of(const std::vector<hsize_t>& extents) {
  return stored_numbers(extents, {});
}

/// The name under which a result of this status is finished: only a result that is done replaces one that is
/// done, or a file of another program.
std::string place_of(const OutputFile& file, const std::string& status) {
  if (status == names::done) return file.path();
  const auto earlier = earlier_result(file.comm(), file.path());
  return earlier.written && !earlier.incomplete() ? incomplete_path(file.path(), status) : file.path();
}

}  // namespace

Series::Series(OutputFile& file, std::string path, DatasetHandle dataset, Index row,
               std::vector<double>* values)
    : file_(file), path_(std::move(path)), dataset_(std::move(dataset)), row_(row), values_(values) {}

void Series::append(std::span<const double> row) {
  if (std::ssize(row) != row_)
    throw std::logic_error("archive: a row of " + path_ + " has " + std::to_string(row_) + " numbers");
  pending_.insert(pending_.end(), row.begin(), row.end());
  if (values_ != nullptr) values_->push_back(row.front());
  if (std::ssize(pending_) >= most_pending) write_pending();
}

void Series::write_pending() {
  if (pending_.empty()) return;
  const hsize_t first = written_, rows = pending_.size() / row_;
  // The last chunk is allocated whole: at most so many numbers, or one row, more.
  const std::uint64_t bytes = 8 * (pending_.size() + chunk_of_series + row_);
  file_.change(path_, bytes, [&] {
    auto dims = dataset_shape(dataset_);
    dims.front() = first + rows;
    h5(H5Dset_extent(dataset_, dims.data()), "H5Dset_extent");
    write_rows(dataset_, mpi::is_root(file_.comm()), H5T_NATIVE_DOUBLE, pending_.data(), {first, rows});
  });
  written_ += rows;
  pending_.clear();
}

Field::Field(OutputFile& file, const Variable& variable, const FieldPart& part,
             const FieldSelection& selection, int deflate)
    : file_(file),
      name_(variable.name),
      axes_(variable.axes),
      slab_(collectively(file.comm(), [&] { return FieldSlab(part, selection); })),
      chunk_(chunk_within_a_depth_cell(slab_.shape())),
      // Writing a compressed chunk in pieces would decompress and compress it each time.
      pieces_(deflate > 0 ? 1 : slab_.pieces(file.comm())),
      tokens_x_(part.tokens_x),
      tokens_y_(part.tokens_y) {}

void Field::write(Index index, const double* memory) {
  // Packed before the collective write, where a failure would leave the other ranks waiting in MPI-IO.
  write_packed(index, collectively(file_.comm(), [&] { return slab_.pack(memory, scratch_); }));
}

void Field::write_packed(Index index, const double* packed) {
  if (index > times_)
    throw std::logic_error("archive: field " + name_ + " would have a gap before time " +
                           std::to_string(index));
  std::vector<hsize_t> one_time = {1};
  one_time.insert(one_time.end(), slab_.shape().begin(), slab_.shape().end());
  const hsize_t numbers = stored_numbers(one_time, chunk_), chunks = numbers / product_of(chunk_);
  file_.change(names::in(names::field, name_), 8 * numbers + bytes_of_index_entry * chunks, [&] {
    if (index == times_) {
      one_time.front() = index + 1;
      h5(H5Dset_extent(dataset_, one_time.data()), "H5Dset_extent");
    }
    write_slab(dataset_, slab_, index, packed, pieces_);
  });
  times_ = std::max(times_, index + 1);
}

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

const ArchiveWriter::Axis& ArchiveWriter::known(const std::string& axis) const {
  const auto found = axes_.find(axis);
  if (found == axes_.end()) throw std::logic_error("archive: no axis named " + axis);
  return found->second;
}

ArchiveWriter::Axis& ArchiveWriter::create_axis(const Variable& coordinate, const DatasetShape& shape,
                                                std::vector<double> values) {
  const std::string& name = coordinate.name;
  if (axes_.contains(name)) throw std::logic_error("archive: axis " + name + " is defined twice");
  Axis axis{.scale = {}, .growing = shape.extendible, .values = std::move(values), .size = 0};
  axis.size = std::ssize(axis.values);
  file_.change("axis " + name, 8 * axis.size, [&] {
    axis.scale =
        create_dataset(file_.id(), names::root(coordinate), stored_type(coordinate.whole_numbers), shape);
    h5(H5DSset_scale(axis.scale, name.c_str()), "H5DSset_scale");
    write_attribute(axis.scale, names::unit, coordinate.unit.empty() ? "1" : coordinate.unit);
    write_attribute(axis.scale, names::long_name, coordinate.long_name);
    write_whole(axis.scale, coordinate.whole_numbers, axis.values.data(), axis.size);
  });
  return axes_[name] = std::move(axis);
}

void ArchiveWriter::axis(const Variable& coordinate, std::vector<double> values) {
  const DatasetShape shape{.dims = {values.size()}};
  create_axis(coordinate, shape, std::move(values));
}

Series& ArchiveWriter::growing_axis(const Variable& coordinate) {
  const DatasetShape shape{.dims = {0}, .chunk = {chunk_of_series}, .extendible = true};
  Axis& axis = create_axis(coordinate, shape, {});
  const std::string path = names::root(coordinate);
  DatasetHandle dataset(h5(H5Dopen2(file_.id(), path.c_str(), H5P_DEFAULT), path));
  return series_.try_emplace(path, file_, path, std::move(dataset), 1, &axis.values).first->second;
}

Index ArchiveWriter::length(const std::string& axis, const std::string& path) {
  const auto extent = names::anonymous_extent(axis);
  if (extent && !axes_.contains(axis))
    file_.change("axis " + axis, 4 * *extent, [&] {
      const hsize_t size = *extent;
      DatasetHandle scale = create_dataset(file_.id(), "/" + axis, H5T_IEEE_F32BE, {.dims = {size}});
      h5(H5DSset_scale(scale, without_variable(*extent).c_str()), "H5DSset_scale");
      axes_[axis] = {.scale = std::move(scale), .size = *extent};
    });
  if (known(axis).growing) throw std::logic_error("archive: the axis " + axis + " of " + path + " grows");
  return known(axis).size;
}

ArchiveWriter::Numbers ArchiveWriter::numbers(const std::string& group, const Variable& variable,
                                              const double* data) {
  Numbers numbers{.variable = variable, .path = names::in(group, variable.name), .data = data, .dims = {}};
  for (const auto& axis : variable.axes) numbers.dims.push_back(length(axis, numbers.path));
  return numbers;
}

void ArchiveWriter::write(const std::string& group,
                          const std::vector<std::pair<Variable, std::vector<double>>>& list) {
  std::vector<Numbers> all;
  for (const auto& [variable, values] : list) {
    all.push_back(numbers(group, variable, values.data()));
    if (const auto count = product_of(all.back().dims); values.size() != count)
      throw std::logic_error("archive: " + std::to_string(values.size()) + " numbers for " + variable.name +
                             ", whose axes have " + std::to_string(count) + " points");
  }
  write(all, std::vector<std::uint64_t>());
}

void ArchiveWriter::write_with_digests(const std::string& group,
                                       const std::vector<std::pair<Variable, const double*>>& list) {
  std::vector<Numbers> all;
  std::vector<std::uint64_t> digests;
  for (const auto& [variable, data] : list) {
    all.push_back(numbers(group, variable, data));
    digests.push_back(root() ? digest_of(data, product_of(all.back().dims)) : 0);
  }
  check_mpi(MPI_Bcast(digests.data(), std::ssize(digests), MPI_UINT64_T, 0, file_.comm()));
  write(all, digests);
}

void ArchiveWriter::write(const std::vector<Numbers>& list, const std::vector<std::uint64_t>& digests) {
  if (list.empty()) return;
  hsize_t count = 0;
  for (const Numbers& one : list) count += product_of(one.dims);
  const std::string doing = list.size() == 1 ? list[0].path : std::to_string(list.size()) + " arrays";
  const auto work = [&] {
    // All ranks create the datasets, then rank 0 alone writes: no synchronisation for each array.
    std::vector<DatasetHandle> datasets;
    for (const Numbers& one : list) {
      const auto type = stored_type(one.variable.whole_numbers);
      datasets.push_back(create_dataset(file_.id(), one.path, type, {.dims = one.dims}));
      attach(datasets.back(), one.variable);
      if (!digests.empty())
        write_attribute(datasets.back(), names::digest, as_attribute(digests[datasets.size() - 1]));
    }
    for (Index k = 0; k < std::ssize(list); ++k)
      write_whole(datasets[k], list[k].variable.whole_numbers, list[k].data, product_of(list[k].dims));
  };
  file_.change(doing, 8 * count, work, list.size());
}

void ArchiveWriter::write_whole(hid_t dataset, bool whole_numbers, const double* data, Index count) const {
  if (count == 0 || !root()) return;
  if (!whole_numbers) {
    write_contiguous(dataset, H5T_NATIVE_DOUBLE, data);
    return;
  }
  const std::vector<std::int64_t> whole(data, data + count);
  write_contiguous(dataset, H5T_NATIVE_INT64, whole.data());
}

void ArchiveWriter::attach(hid_t dataset, const std::vector<std::string>& axes) const {
  unsigned dimension = 0;
  for (const std::string& axis : axes)
    h5(H5DSattach_scale(dataset, known(axis).scale, dimension++), "attaching axis " + axis);
}

void ArchiveWriter::attach(hid_t dataset, const Variable& variable) const {
  attach(dataset, variable.axes);
  write_attribute(dataset, names::unit, variable.unit.empty() ? "1" : variable.unit);
  write_attribute(dataset, names::long_name, variable.long_name);
}

void ArchiveWriter::rows(const std::string& group, const Variable& variable, std::span<const float> mine) {
  const std::string path = names::in(group, variable.name);
  if (variable.axes.size() != 2) throw std::logic_error("archive: " + path + " needs two axes");
  const hsize_t rows = length(variable.axes[0], path), columns = length(variable.axes[1], path);
  // Rows of all ranks, and of those up to this one; a rank with a part of a row makes the sum wrong.
  const bool whole = columns > 0 && mine.size() % columns == 0;
  const std::uint64_t here = whole ? mine.size() / columns : rows + 1;
  std::uint64_t all = here, end = here;
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_UINT64_T, MPI_SUM, file_.comm()));
  check_mpi(MPI_Scan(MPI_IN_PLACE, &end, 1, MPI_UINT64_T, MPI_SUM, file_.comm()));
  if (all != rows) throw std::logic_error("archive: " + path + " is not as long as its axes");

  const std::vector<hsize_t> dims{rows, columns},
      chunk{std::clamp<hsize_t>(chunk_of_rows / columns, 1, rows), columns};
  const hsize_t numbers = stored_numbers(dims, chunk), chunks = numbers / product_of(chunk);
  file_.change(path, 4 * numbers + bytes_of_index_entry * chunks, [&] {
    const DatasetHandle dataset = create_dataset(file_.id(), path, H5T_IEEE_F32LE,
                                                 {.dims = dims, .chunk = chunk, .deflate = deflate_of_rows});
    attach(dataset, variable);
    write_rows(dataset, here > 0, H5T_NATIVE_FLOAT, mine.data(), {end - here, here});
  });
}

void ArchiveWriter::words(const std::string& path, const std::vector<std::string>& words,
                          const std::string& long_name, const std::vector<std::string>& axes) {
  std::size_t longest = 1;  // HDF5 knows no type of length 0
  for (const std::string& word : words) {
    if (word.find('\0') != std::string::npos)
      throw std::logic_error("archive: a word of " + path + " holds a zero byte");
    longest = std::max(longest, word.size());
  }
  const auto along = axes.empty() ? names::anonymous_axes({std::ssize(words)}) : axes;
  std::vector<hsize_t> dims(along.size());
  std::transform(along.begin(), along.end(), dims.begin(),
                 [&](const auto& axis) { return length(axis, path); });
  if (product_of(dims) != words.size())
    throw std::logic_error("archive: " + path + " is not as long as its axes");
  file_.change(path, words.size() * longest, [&] {
    const TypeHandle type = utf8_type(longest);
    const DatasetHandle dataset = create_dataset(file_.id(), path, type, {.dims = dims});
    attach(dataset, along);
    write_attribute(dataset, names::long_name, long_name);
    if (!root() || words.empty()) return;
    std::string padded;
    for (const std::string& word : words) (padded += word).append(longest - word.size(), '\0');
    write_contiguous(dataset, type, padded.data());
  });
}

void ArchiveWriter::words(const std::string& group, const Variable& variable,
                          const std::vector<std::string>& words) {
  const auto path = names::in(group, variable.name);
  this->words(path, words, variable.long_name, variable.axes);
  attribute(names::unit, std::string("1"), path);
}

void ArchiveWriter::timing(const std::string& phase, double seconds) {
  int ranks = 1;
  check_mpi(MPI_Comm_size(file_.comm(), &ranks));
  std::vector<double> summary(3, seconds);
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &summary[0], 1, MPI_DOUBLE, MPI_MIN, file_.comm()));
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &summary[1], 1, MPI_DOUBLE, MPI_SUM, file_.comm()));
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &summary[2], 1, MPI_DOUBLE, MPI_MAX, file_.comm()));
  summary[1] /= ranks;
  const std::string meaning = "wall time of " + phase + ": min, mean, max over ranks";
  write(names::timing, {phase, names::anonymous_axes({3}), "s", meaning}, summary);
  attribute(names::statistics, "min mean max", names::timing);
}

Series& ArchiveWriter::series(const std::string& group, const Variable& variable) {
  const std::string path = names::in(group, variable.name);
  const auto& axes = variable.axes;
  if (series_.contains(path)) throw std::logic_error("archive: " + path + " is defined twice");
  if (axes.empty() || !known(axes.front()).growing)
    throw std::logic_error("archive: the first axis of " + path + " does not grow");
  Index row = 1;
  DatasetShape shape{.dims = {0}, .chunk = {1}, .extendible = true};
  for (const auto& axis : std::span(axes).subspan(1)) {
    if (known(axis).growing) throw std::logic_error("archive: only the first axis of " + path + " may grow");
    const hsize_t extent = known(axis).size;
    shape.dims.push_back(extent);
    shape.chunk.push_back(std::max<hsize_t>(1, extent));
    row *= known(axis).size;
  }
  shape.chunk.front() = std::max<hsize_t>(1, chunk_of_series / std::max<hsize_t>(1, row));
  DatasetHandle dataset;
  file_.change(path, 0, [&] {
    dataset = create_dataset(file_.id(), path, H5T_IEEE_F64LE, shape);
    attach(dataset, variable);
  });
  return series_.try_emplace(path, file_, path, std::move(dataset), row, nullptr).first->second;
}

Field& ArchiveWriter::field(const Variable& variable, const FieldPart& part, const FieldSelection& selection,
                            int deflate) {
  const auto& axes = variable.axes;
  const std::string path = names::in(names::field, variable.name);
  if (fields_.contains(variable.name)) throw std::logic_error("archive: " + path + " is defined twice");
  if (axes.size() != 5 || !known(axes.front()).growing)
    throw std::logic_error("archive: " + path + " needs five axes, the first a growing one");
  Field field(file_, variable, part, selection, deflate);
  const auto& extents = field.slab_.shape();
  for (Index k = 0; k < std::ssize(extents); ++k) {
    const Axis& axis = known(axes[k + 1]);
    const hsize_t size = axis.size;
    if (axis.growing || size != extents[k])
      throw std::logic_error("archive: " + path + " is not as long as its axis " + axes[k + 1]);
  }
  DatasetShape shape{.dims = {0}, .chunk = field.chunk_, .extendible = true, .deflate = deflate};
  shape.dims.insert(shape.dims.end(), extents.begin(), extents.end());
  file_.change(path, 0, [&] {
    field.dataset_ = create_dataset(file_.id(), path, H5T_IEEE_F64LE, shape);
    attach(field.dataset_, variable);
    write_attribute(field.dataset_, names::tokens_x, long{part.tokens_x});
    write_attribute(field.dataset_, names::tokens_y, long{part.tokens_y});
  });
  return fields_.try_emplace(variable.name, std::move(field)).first->second;
}

void ArchiveWriter::show(const Field& field, Index sample, std::vector<Index> channels) {
  shown_.push_back({field, sample, std::move(channels)});
}

std::string ArchiveWriter::side_car(const std::string& file) const {
  XdmfScene scene;
  scene.file = std::filesystem::path(file).filename().string();
  for (const auto& [field, sample, channels] : shown_) {
    std::vector<Index> shape = {field.times_};
    shape.insert(shape.end(), field.slab_.shape().begin(), field.slab_.shape().end());
    scene.times = known(field.axes_[0]).values;
    scene.depths = known(field.axes_[1]).values;
    scene.tokens_x = field.tokens_x_;
    scene.tokens_y = field.tokens_y_;
    for (const Index channel : channels)
      scene.scalars.push_back({field.name_ + "_channel_" + std::to_string(channel),
                               names::in(names::field, field.name_), shape, sample, channel});
  }
  return xdmf_document(scene);
}

void ArchiveWriter::flush() {
  for (auto& [path, series] : series_) series.write_pending();
  file_.flush();
}

std::string ArchiveWriter::finish(const std::string& status) {
  flush();
  std::string place = place_of(file_, status);
  const std::string scene = shown_.empty() ? "" : side_car(place);
  attribute(names::status, status);
  shown_.clear();
  fields_.clear();
  series_.clear();
  axes_.clear();
  place == file_.path() ? file_.commit() : file_.commit_as(place);
  if (!scene.empty()) write_text_file(file_.comm(), side_car_path(place), scene);
  return place;
}

}  // namespace fluxformer::io
