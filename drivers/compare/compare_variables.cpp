#include "drivers/compare/compare_variables.hpp"

namespace fluxformer::compare {

void describe_comparison(io::Description& description, const std::string& experiment,
                         study::Contents contents) {
  contents.coordinates.insert(contents.coordinates.begin(), axes::model_depth);
  contents.model_notes.insert(contents.model_notes.begin(), {files, parameters, trained, norm, knots});
  study::describe(description, experiment, contents);
}

}  // namespace fluxformer::compare
