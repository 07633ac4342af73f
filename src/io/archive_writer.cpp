#include "io/archive_writer.hpp"

#include <hdf5_hl.h>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <stdexcept>

#include "base/mpi.hpp"
#include "io/digest.hpp"
#include "io/earlier_result.hpp"
#include "io/file_names.hpp"
#include "io/hdf5/hdf5_check.hpp"
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
  if (mpi::is_root(comm))
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

}  // namespace fluxformer::io
