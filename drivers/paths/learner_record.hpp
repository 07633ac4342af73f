#pragma once

// What the training of networks of attention paths stores of each seed.

#include <string>
#include <utility>
#include <vector>

#include "analysis/paths/path_learner.hpp"
#include "drivers/compare/study_record.hpp"

namespace fluxformer {

/// How a training went, at each judgement, and its best weights.
struct LearnerCourse {
  std::vector<double> loss = {}, validation_loss = {}, validation_accuracy = {};
  std::vector<double> weights = {};
  /// The judgement of the least validation loss, from 0.
  std::size_t best() const;
};

/// The measures of a seed in the order in which its numbers stand, and how many numbers each has.
std::vector<std::pair<io::Variable, std::size_t>> learner_measures(const paths::LearnerShape& shape,
                                                                   std::size_t judgements);
/// The numbers of a seed. `accuracies`: of each judged set; `steps`: after which it was judged.
std::vector<double> learner_numbers(const LearnerCourse& course, const std::vector<double>& accuracies,
                                    const std::vector<double>& steps);
/// Axes and measures of all seeds. `sets`: names of the judged sets.
void add_learners(StudyRecord& record, const paths::LearnerShape& shape, const std::vector<double>& steps,
                  const std::vector<std::string>& sets, const std::vector<std::vector<double>>& numbers);

/// What a file holds of them.
std::vector<io::Variable> learner_variables();
std::vector<io::Variable> learner_coordinates();

}  // namespace fluxformer
