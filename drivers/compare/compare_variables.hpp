#pragma once

// Variables that every comparison stores beside its own measures: /analysis/<experiment>/<model>/<measure>,
// over seeds. <model> is transformer or the kind of PDE model: independent, normed, distilled, inherited.
// Measures of a pair are stored with the PDE model.

#include <string>
#include <vector>

#include "io/axes.hpp"
#include "io/variable.hpp"

namespace fluxformer::compare {

inline const io::Attribute samples{"samples", "test samples used"}, files{"files", "model file of each seed"},
    parameters{"parameters", "number of parameters of each model"},
    trained{"trained", "origin of each model's weights"}, norm{"norm", "pre, post, sphere or none"},
    knots{"knots", "parameter sets"};
inline const io::Variable seconds{"seconds", {}, "s", "wall time spent on this model"};

/// A variable over the weight snapshots after some epochs of the training.
inline io::Variable after_epochs(const io::Variable& of) {
  return io::along(axes::copied_epoch, "epoch_", of, ", after that epoch");
}

/// Contents of a comparison's file for each model; StudyRecord adds the seed axis in front.
struct Contents {
  std::vector<io::Variable> coordinates;  ///< coordinates beside seeds
  std::vector<io::Attribute> notes;       ///< attributes of the experiment
  std::vector<io::Attribute> model_notes;
  std::vector<io::Variable> measures;
};
/// Describes all files of an experiment that records measures of models over seeds.
void describe_models_over_seeds(io::Description& description, const std::string& experiment,
                                const Contents& contents);
/// Describes all files of an experiment that compares models read from files.
void describe_comparison(io::Description& description, const std::string& experiment, Contents contents);

}  // namespace fluxformer::compare
