#include "drivers/compare/compare_variables.hpp"

#include "io/layout.hpp"

namespace fluxformer::compare {
namespace {

void prepend(std::vector<io::Variable>& list, std::vector<io::Variable> first) {
  list.insert(list.begin(), first.begin(), first.end());
}

}  // namespace

void describe_models_over_seeds(io::Description& description, const std::string& experiment,
                                const Contents& contents) {
  const auto group = names::in(names::analysis, experiment), model = names::in(group, "<model>");
  io::describe_archive(description);
  description.variables("/", {axes::seed});
  description.variables("/", contents.coordinates);
  description.attributes(group, {samples});
  description.attributes(group, contents.notes);
  description.attributes(model, contents.model_notes);
  auto measures = contents.measures;
  measures.push_back(seconds);
  for (auto& one : measures) one.axes.insert(one.axes.begin(), axes::seed.name);
  description.variables(model, measures);
}

void describe_comparison(io::Description& description, const std::string& experiment, Contents contents) {
  prepend(contents.coordinates, {axes::model_depth});
  contents.model_notes.insert(contents.model_notes.begin(), {files, parameters, trained, norm, knots});
  describe_models_over_seeds(description, experiment, contents);
}

}  // namespace fluxformer::compare
