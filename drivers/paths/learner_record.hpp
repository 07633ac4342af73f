#pragma once

// The record of training networks of attention paths, for each seed.

#include <string>
#include <utility>
#include <vector>

#include "analysis/paths/path_learner.hpp"
#include "drivers/study/study_record.hpp"

namespace fluxformer {

/// Course of a training at each evaluation, and its best weights.
struct LearnerCourse {
  std::vector<double> loss = {}, validation_loss = {}, validation_accuracy = {};
  std::vector<double> weights = {};
  /// Index of the evaluation with the least validation loss, from 0.
  std::size_t best() const;
};

/// Variables of a seed in the order in which their numbers stand, and how many numbers each has.
std::vector<std::pair<io::Variable, std::size_t>> learner_measures(const paths::LearnerShape& shape,
                                                                   std::size_t judgements);
/// Numbers of a seed. `accuracies`: accuracy on each evaluated set; `steps`: steps after which the network
/// was evaluated.
std::vector<double> learner_numbers(const LearnerCourse& course, const std::vector<double>& accuracies,
                                    const std::vector<double>& steps);
/// Adds axes and measures of all seeds. `sets`: names of the evaluated sets.
void add_learners(StudyRecord& record, const paths::LearnerShape& shape, const std::vector<double>& steps,
                  const std::vector<std::string>& sets, const std::vector<std::vector<double>>& numbers);

/// Variables and coordinates that a file of trained networks holds.
std::vector<io::Variable> learner_variables();
std::vector<io::Variable> learner_coordinates();

}  // namespace fluxformer
