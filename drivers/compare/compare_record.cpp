#include "drivers/compare/compare_record.hpp"

#include <functional>
#include <numeric>
#include <stdexcept>

#include "drivers/common/run_attributes.hpp"
#include "io/archive_writer.hpp"
#include "io/schema_comparisons.hpp"
#include "model/model_spec.hpp"

namespace fluxformer {

CompareRecord::CompareRecord(const std::string& experiment, const std::string& cites,
                             const Settings& settings, const RunContext& context,
                             const std::vector<long>& seeds)
    : experiment_(experiment),
      cites_(cites),
      settings_(settings),
      context_(context),
      claim_(std::make_unique<io::PartFile>(context.comm, settings.word("output.file"),
                                            settings.flag("output.overwrite"))) {
  axis(names::seeds, {seeds.begin(), seeds.end()}, true);
}

CompareRecord::CompareRecord(const std::string& experiment, const std::string& cites,
                             const Settings& settings, const RunContext& context,
                             const CompareProblem& problem)
    : CompareRecord(experiment, cites, settings, context, problem.models().seeds()) {
  const auto& models = problem.models();
  for (const auto& name : models.names()) {
    const auto& spec = models.at(0, name).parameters.spec;
    std::vector<double> depth;
    for (int i = 0; i <= spec.cells; ++i) depth.push_back(static_cast<double>(i) * spec.layers / spec.cells);
    axis(names::model_depth(name), std::move(depth));
  }
  describe_models(problem);
}

std::string CompareRecord::group(const std::string& model) const {
  return model.empty() ? names::in(names::analysis, experiment_) : names::comparison(experiment_, model);
}

void CompareRecord::describe_models(const CompareProblem& problem) {
  const auto& models = problem.models();
  note("", names::samples, static_cast<long>(problem.members().size()));
  for (const auto& name : models.names()) {
    const auto& first = models.at(0, name).parameters;
    std::string files, trained;
    for (std::size_t k = 0; k < models.seeds().size(); ++k) {
      files += (k > 0 ? "\n" : "") + models.at(k, name).file;
      trained += (k > 0 ? "\n" : "") + models.at(k, name).trained;
    }
    note(name, names::files, files);
    note(name, names::trained, trained);
    note(name, names::parameters, static_cast<long>(first.values.size()));
    note(name, names::norm, to_word(first.spec.norm));
    note(name, names::knots, static_cast<long>(first.spec.knots));
  }
}

void CompareRecord::axis(const std::string& name, std::vector<double> values, bool whole_numbers) {
  const bool of_model = name.ends_with(names::depth) && name != names::depth;
  const auto meaning = meaning_of(names::root(of_model ? names::model_depth("<model>") : name));
  sizes_[name] = values.size();
  axes_.push_back({name, std::move(values), meaning.unit, meaning.long_name, false, whole_numbers});
}

void CompareRecord::axis(const std::string& name, long first, long last) {
  std::vector<double> values(static_cast<std::size_t>(last - first + 1));
  std::iota(values.begin(), values.end(), static_cast<double>(first));
  axis(name, std::move(values), true);
}

void CompareRecord::add(const std::string& model, const std::string& measure,
                        const std::vector<std::string>& axes, const std::vector<double>& values) {
  comparison_entry(experiment_, measure);  // throws for an unknown name
  std::size_t size = 1;
  for (const auto& name : axes) {
    const auto known = sizes_.find(name);
    if (known == sizes_.end()) throw std::logic_error(measure + ": no axis " + name);
    size *= known->second;
  }
  if (values.size() != size)
    throw std::logic_error(measure + ": " + std::to_string(values.size()) + " numbers for " +
                           std::to_string(size));
  auto& all = measures_[{model, measure}];
  all.axes = axes;
  all.values.insert(all.values.end(), values.begin(), values.end());
}

void CompareRecord::note(const std::string& model, const std::string& name, const io::AttributeValue& value) {
  notes_.push_back({group(model), name, value});
}

void CompareRecord::finish(const std::vector<std::pair<std::string, double>>& seconds) {
  claim_.reset();
  io::ArchiveWriter archive(context_.comm, settings_.word("output.file"), settings_.flag("output.overwrite"));
  for (const auto& [name, value] : run_attributes(experiment_, cites_, settings_, context_))
    archive.attribute(name, value);
  for (const auto& axis : axes_) archive.axis(axis);
  std::vector<io::SmallArray> arrays;
  for (const auto& [key, measure] : measures_) {
    const auto& [model, name] = key;
    const auto& entry = comparison_entry(experiment_, name);
    std::vector<std::string> axes{names::seeds};
    axes.insert(axes.end(), measure.axes.begin(), measure.axes.end());
    std::vector<std::size_t> shape{sizes_.at(names::seeds)};
    for (const auto& axis : measure.axes) shape.push_back(sizes_.at(axis));
    if (measure.values.size() !=
        std::accumulate(shape.begin(), shape.end(), std::size_t{1}, std::multiplies<>()))
      throw std::logic_error(group(model) + "/" + name + ": not once for each seed");
    arrays.push_back({names::in(group(model), name),
                      shape,
                      measure.values.data(),
                      {std::string(entry.unit), std::string(entry.doc)},
                      axes});
  }
  archive.arrays(arrays);
  for (const auto& one : notes_) archive.attribute(one.name, one.value, one.object);
  for (const auto& [phase, time] : seconds) archive.timing(phase, time);
  archive.finish(names::done);
}

}  // namespace fluxformer
