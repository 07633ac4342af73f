#include "drivers/paths/learner_record.hpp"

#include <algorithm>

#include "analysis/paths/path_variables.hpp"

namespace fluxformer {

namespace stored = paths::variables;
using namespace paths;

std::size_t LearnerCourse::best() const {
  return static_cast<std::size_t>(std::ranges::min_element(validation_loss) - validation_loss.begin());
}

std::vector<std::pair<io::Variable, std::size_t>> learner_measures(const LearnerShape& shape,
                                                                   std::size_t judgements) {
  const auto n = [](int size) { return static_cast<std::size_t>(size); };
  return {{stored::learned_loss, judgements},
          {stored::validation_loss, judgements},
          {stored::validation_accuracy, judgements},
          {stored::judged_accuracy, 3},
          {stored::best_step, 1},
          {stored::input_weights, n(shape.width) * n(shape.dimension)},
          {stored::projections, n(shape.layers) * 2 * n(shape.heads) * n(shape.key) * n(shape.dimension)},
          {stored::values, n(shape.layers) * n(shape.heads) * n(shape.width) * n(shape.width)},
          {stored::readout_weights, n(shape.width)}};
}

std::vector<double> learner_numbers(const LearnerCourse& course, const std::vector<double>& accuracies,
                                    const std::vector<double>& steps) {
  std::vector<double> all;
  for (const auto* part : {&course.loss, &course.validation_loss, &course.validation_accuracy, &accuracies})
    all.insert(all.end(), part->begin(), part->end());
  all.push_back(steps[course.best()]);
  all.insert(all.end(), course.weights.begin(), course.weights.end());
  return all;
}

void add_learners(StudyRecord& record, const LearnerShape& shape, const std::vector<double>& steps,
                  const std::vector<std::string>& sets, const std::vector<std::vector<double>>& numbers) {
  record.axis(stored::judged_step, steps);
  record.axis(stored::judged_set, 0, static_cast<long>(sets.size()) - 1);
  record.axis(axes::layer, 1, shape.layers);
  record.axis(axes::head, 0, shape.heads - 1);
  record.axis(stored::projection, 0, 1);
  record.axis(stored::query_unit, 0, shape.key - 1);
  record.axis(stored::input_unit, 0, shape.dimension - 1);
  record.axis(stored::unit, 0, shape.width - 1);
  record.axis(stored::other_unit, 0, shape.width - 1);
  record.note("", stored::judged_sets, as_lines(sets));
  for (const auto& seed : numbers) {
    auto at = seed.begin();
    for (const auto& [variable, size] : learner_measures(shape, steps.size())) {
      const auto end = at + static_cast<std::ptrdiff_t>(size);
      record.add(stored::network_group, variable, {at, end});
      at = end;
    }
  }
}

std::vector<io::Variable> learner_variables() {
  std::vector<io::Variable> all;
  for (const auto& [variable, size] : learner_measures({1, 1, 1, 1, 1, 1}, 1)) all.push_back(variable);
  return all;
}

std::vector<io::Variable> learner_coordinates() {
  return {stored::judged_step, stored::judged_set, axes::layer,  axes::head,        stored::projection,
          stored::query_unit,  stored::input_unit, stored::unit, stored::other_unit};
}

}  // namespace fluxformer
