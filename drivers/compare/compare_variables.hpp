#pragma once

// Variables that every comparison stores beside its own measures: /analysis/<experiment>/<model>/<measure>,
// over seeds. <model> is transformer or the kind of PDE model: independent, normed, distilled, inherited.
// Measures of a pair are stored with the PDE model.

#include <string>

#include "drivers/study/study_record.hpp"
#include "io/axes.hpp"
#include "io/variable.hpp"

namespace fluxformer::compare {

inline const io::Attribute files{"files", "model file of each seed"},
    parameters{"parameters", "number of parameters of each model"},
    trained{"trained", "origin of each model's weights"}, norm{"norm", "pre, post, sphere or none"},
    knots{"knots", "parameter sets"};

/// A variable over the weight snapshots after some epochs of the training.
inline io::Variable after_epochs(const io::Variable& of) {
  return io::along(axes::copied_epoch, "epoch_", of, ", after that epoch");
}

/// Describes all files of an experiment that compares models read from files.
void describe_comparison(io::Description& description, const std::string& experiment,
                         study::Contents contents);

}  // namespace fluxformer::compare
