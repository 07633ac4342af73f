#include "drivers/study/study_record.hpp"

#include <functional>
#include <numeric>
#include <stdexcept>

#include "base/statistics.hpp"
#include "drivers/common/run_frame.hpp"
#include "io/archive_writer.hpp"
#include "io/axes.hpp"
#include "io/layout.hpp"

namespace fluxformer {
namespace {

// The edges in names::mesh, and their coordinate
const io::Variable mesh_edge = io::index("mesh_edge", "edge of the depth cells that were found"),
                   mesh_edges{"edges", {"mesh_edge"}, "layers", "edges of the depth cells that were found"};

/// Calls use(k) for the places k, in rising order, that have the given indices (-1: any) in a row-major array.
template <class Use>
void for_each_within(const std::vector<std::size_t>& sizes, const std::vector<long>& index, Use&& use,
                     std::size_t axis = 0, std::size_t offset = 0) {
  if (axis == sizes.size()) return use(offset);
  const bool fixed = index[axis] >= 0;
  const std::size_t first = fixed ? static_cast<std::size_t>(index[axis]) : 0,
                    end = fixed ? first + 1 : sizes[axis];
  for (std::size_t k = first; k < end; ++k)
    for_each_within(sizes, index, use, axis + 1, offset * sizes[axis] + k);
}

}  // namespace

void study::describe(io::Description& description, const std::string& experiment, const Contents& contents) {
  const auto group = contents.group.empty() ? names::in(names::analysis, experiment) : contents.group,
             model = names::in(group, "<model>");
  io::describe_archive(description);
  description.variables("/", {axes::seed});
  description.variables("/", contents.coordinates);
  description.attributes(group, {samples});
  description.attributes(group, contents.notes);
  description.attributes(model, contents.model_notes);
  if (contents.mesh) {
    description.variables("/", {mesh_edge});
    description.variables(names::mesh, {mesh_edges});
  }
  auto measures = contents.measures;
  measures.push_back(seconds);
  for (auto& one : measures) one.axes.insert(one.axes.begin(), axes::seed.name);
  description.variables(model, measures);
}

io::Variable StudyRecord::over_seeds(io::Variable measure, const std::string& group) const {
  const std::string place = "<model>";
  for (auto& axis : measure.axes)
    if (const auto at = axis.find(place); at != std::string::npos) axis.replace(at, place.size(), group);
  if (sizes_.contains(axes::seed.name)) measure.axes.insert(measure.axes.begin(), axes::seed.name);
  return measure;
}

std::string StudyRecord::group(const std::string& name) const {
  const auto whole = root_.empty() ? names::in(names::analysis, context_.experiment) : root_;
  return name.empty() ? whole : names::in(whole, name);
}

void StudyRecord::axis(const io::Variable& coordinate, std::vector<double> values) {
  sizes_[coordinate.name] = values.size();
  axes_.emplace_back(coordinate, std::move(values));
}

void StudyRecord::axis(const io::Variable& coordinate, long first, long last) {
  std::vector<double> values(last - first + 1);
  std::iota(values.begin(), values.end(), static_cast<double>(first));
  axis(coordinate, std::move(values));
}

void StudyRecord::seeds(const std::vector<long>& seeds) {
  axis(axes::seed, {seeds.begin(), seeds.end()});
}

void StudyRecord::samples(const std::vector<std::size_t>& members) {
  axis(axes::test_sample, {members.begin(), members.end()});
}

void StudyRecord::note(const std::string& group, const io::Attribute& attribute,
                       const io::AttributeValue& value) {
  notes_.push_back({this->group(group), attribute, value});
}

void StudyRecord::array(const io::Variable& variable, std::vector<double> values) {
  arrays_.emplace_back(variable, std::move(values));
}

void StudyRecord::words(const io::Variable& variable, std::vector<std::string> words) {
  words_.emplace_back(variable, std::move(words));
}

void StudyRecord::mesh(std::vector<double> edges) {
  axis(mesh_edge, 0, std::ssize(edges) - 1);
  mesh_edges_ = std::move(edges);
}

void StudyRecord::rows(const std::string& group, const io::Variable& measure, std::vector<float> mine) {
  rows_.push_back({this->group(group), measure, std::move(mine)});
}

std::size_t StudyRecord::size(const std::string& axis, const std::string& measure) const {
  if (const auto extent = names::anonymous_extent(axis)) return static_cast<std::size_t>(*extent);
  const auto known = sizes_.find(axis);
  if (known == sizes_.end()) throw std::logic_error(measure + ": no axis " + axis);
  return known->second;
}

std::size_t StudyRecord::numbers(const Place& place, const io::Variable& measure) const {
  std::size_t numbers = 1;
  for (const auto& axis : over_seeds(measure, place.group).axes)
    if (!place.index.contains(axis)) numbers *= size(axis, measure.name);
  return numbers;
}

void StudyRecord::add(const Place& place, const io::Variable& measure, const std::vector<double>& values) {
  if (const auto wanted = numbers(place, measure); values.size() != wanted)
    throw std::logic_error(measure.name + ": " + std::to_string(values.size()) + " numbers for " +
                           std::to_string(wanted));
  auto variable = over_seeds(measure, place.group);
  std::vector<std::size_t> sizes;
  std::vector<long> index;
  for (const auto& axis : variable.axes) {
    sizes.push_back(size(axis, measure.name));
    const auto here = place.index.find(axis);
    index.push_back(here == place.index.end() ? -1 : static_cast<long>(here->second));
    if (index.back() >= static_cast<long>(sizes.back()))
      throw std::logic_error(measure.name + ": index " + std::to_string(index.back()) + " along " + axis);
  }
  auto& all = measures_[{place.group, measure.name}];
  if (all.values.empty()) {
    all.variable = std::move(variable);
    all.values.resize(std::accumulate(sizes.begin(), sizes.end(), std::size_t{1}, std::multiplies<>()),
                      missing_value);
    all.given.resize(all.values.size());
  }
  auto value = values.begin();
  for_each_within(sizes, index, [&](std::size_t k) {
    if (all.given[k]) throw std::logic_error(measure.name + ": given twice in " + place.group);
    all.given[k] = true;
    all.values[k] = *value++;
  });
}

void StudyRecord::finish(std::unique_ptr<io::PartFile> claim,
                         const std::vector<std::pair<std::string, double>>& seconds) const {
  io::ArchiveWriter archive(std::move(claim));
  for (const auto& [name, value] : run_attributes(settings_, context_)) archive.attribute(name, value);
  for (const auto& [coordinate, values] : axes_) archive.axis(coordinate, values);
  for (const auto& [variable, values] : arrays_) archive.write("", variable, values);
  for (const auto& [variable, words] : words_) archive.words("", variable, words);
  for (const auto& [key, measure] : measures_)
    archive.write(group(key.first), measure.variable, measure.values);
  for (const auto& one : rows_) archive.rows(one.group, one.variable, one.mine);
  if (!mesh_edges_.empty()) archive.write_with_digests(names::mesh, {{mesh_edges, mesh_edges_.data()}});
  for (const auto& one : notes_) archive.attribute(one.name, one.value, one.object);
  for (const auto& [phase, time] : seconds) archive.timing(phase, time);
  archive.finish(names::done);
}

std::string as_lines(const std::vector<std::string>& words) {
  std::string lines;
  for (const auto& word : words) lines += word + "\n";
  return lines;
}

}  // namespace fluxformer
