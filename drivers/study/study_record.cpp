#include "drivers/compare/study_record.hpp"

#include <numeric>
#include <stdexcept>

#include "drivers/common/run_attributes.hpp"
#include "drivers/compare/compare_variables.hpp"
#include "io/archive_writer.hpp"
#include "io/axes.hpp"
#include "io/layout.hpp"
#include "model/model_spec.hpp"

namespace fluxformer {
namespace {

/// Name of an axis with <model> replaced.
std::string of_model(std::string axis, const std::string& model) {
  const std::string place = "<model>";
  if (const auto at = axis.find(place); at != std::string::npos) axis.replace(at, place.size(), model);
  return axis;
}

}  // namespace

StudyRecord::StudyRecord(const Settings& settings, const RunContext& context,
                         std::unique_ptr<io::PartFile> claim, const std::vector<long>& seeds)
    : settings_(settings), context_(context), claim_(std::move(claim)) {
  axis(axes::seed, {seeds.begin(), seeds.end()});
}

StudyRecord::StudyRecord(const Settings& settings, const RunContext& context,
                         std::unique_ptr<io::PartFile> claim, const CompareProblem& problem)
    : StudyRecord(settings, context, std::move(claim), problem.models().seeds()) {
  const auto& models = problem.models();
  for (const auto& name : models.names()) {
    const auto& spec = models.at(0, name).parameters.spec;
    std::vector<double> depth;
    for (int i = 0; i <= spec.cells; ++i) depth.push_back(static_cast<double>(i) * spec.layers / spec.cells);
    auto coordinate = axes::model_depth;
    coordinate.name = of_model(coordinate.name, name);
    axis(coordinate, std::move(depth));
  }
  describe_models(problem);
}

std::string StudyRecord::group(const std::string& model) const {
  const auto whole = names::in(names::analysis, context_.experiment);
  return model.empty() ? whole : names::in(whole, model);
}

void StudyRecord::describe_models(const CompareProblem& problem) {
  const auto& models = problem.models();
  note("", compare::samples, problem.samples().size());
  for (const auto& name : models.names()) {
    const auto& first = models.at(0, name).parameters;
    std::string files, trained;
    for (std::size_t k = 0; k < models.seeds().size(); ++k) {
      files += (k > 0 ? "\n" : "") + models.at(k, name).file;
      trained += (k > 0 ? "\n" : "") + models.at(k, name).trained;
    }
    note(name, compare::files, files);
    note(name, compare::trained, trained);
    note(name, compare::parameters, first.layout.size());
    note(name, compare::norm, to_word(first.spec.norm));
    note(name, compare::knots, static_cast<long>(first.spec.knots));
  }
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

void StudyRecord::samples(const std::vector<std::size_t>& members) {
  axis(axes::test_sample, {members.begin(), members.end()});
}

void StudyRecord::add(const std::string& model, io::Variable measure, const std::vector<double>& values) {
  std::size_t size = 1;
  for (auto& axis : measure.axes) {
    axis = of_model(axis, model);
    const auto known = sizes_.find(axis);
    if (known == sizes_.end()) throw std::logic_error(measure.name + ": no axis " + axis);
    size *= known->second;
  }
  if (values.size() != size)
    throw std::logic_error(measure.name + ": " + std::to_string(values.size()) + " numbers for " +
                           std::to_string(size));
  measure.axes.insert(measure.axes.begin(), axes::seed.name);
  auto& all = measures_[{model, measure.name}];
  all.variable = std::move(measure);
  all.values.insert(all.values.end(), values.begin(), values.end());
}

void StudyRecord::rows(const std::string& model, const io::Variable& measure, std::vector<float> mine) {
  rows_.push_back({group(model), measure, std::move(mine)});
}

void StudyRecord::note(const std::string& model, const io::Attribute& attribute,
                       const io::AttributeValue& value) {
  notes_.push_back({group(model), attribute, value});
}

void StudyRecord::finish(const std::vector<std::pair<std::string, double>>& seconds) {
  io::ArchiveWriter archive(std::move(claim_));
  for (const auto& [name, value] : run_attributes(settings_, context_)) archive.attribute(name, value);
  for (const auto& [coordinate, values] : axes_) archive.axis(coordinate, values);
  for (const auto& [key, measure] : measures_)
    archive.write(group(key.first), measure.variable, measure.values);
  for (const auto& one : rows_) archive.rows(one.group, one.variable, one.mine);
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
