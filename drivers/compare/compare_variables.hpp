#pragma once

// What every comparison stores beside its own measures: /analysis/<experiment>/<model>/<measure>, over seeds.
// <model> is transformer, or how the PDE model came about: independent, distilled, inherited. Measures of a pair
// stand with the PDE model.

#include <string>
#include <vector>

#include "io/axes.hpp"
#include "io/description.hpp"

namespace fluxformer::compare {

inline const io::Attribute samples{"samples", "test samples that were looked at"},
    files{"files", "model file of each seed"}, parameters{"parameters", "numbers in each model"},
    trained{"trained", "how each model came by its weights"}, norm{"norm", "pre, post, sphere or none"},
    knots{"knots", "parameter sets"};
inline const io::Variable seconds{"seconds", {}, "s", "wall time that this model took"};

/// The same, at copies of the weights that training left after some epochs.
inline io::Variable after_epochs(const io::Variable& of) {
  return io::along(axes::copied_epoch, "epoch_", of, ", after that epoch");
}

/// What `experiment` stores of each model; CompareRecord puts the seeds in front.
struct Contents {
  std::vector<io::Variable> coordinates;  ///< beside seeds
  std::vector<io::Attribute> notes;       ///< of the experiment
  std::vector<io::Attribute> model_notes;
  std::vector<io::Variable> measures;
};
/// All files of an experiment that records measures of models over seeds.
void describe_models_over_seeds(io::Description& description, const std::string& experiment,
                                const Contents& contents);
/// The same of one that compares models read from files.
void describe_comparison(io::Description& description, const std::string& experiment, Contents contents);

}  // namespace fluxformer::compare
