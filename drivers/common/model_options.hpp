#pragma once

// The keys of mesh, equation, depth, attention and model, which every experiment shares, and what they mean.

#include "base/options.hpp"
#include "model/equation.hpp"
#include "model/parameters.hpp"
#include "model/precision.hpp"

namespace fluxformer {

void declare_model_options(Schema& schema);

/// Sizes that come from the input rather than from the model's keys; 0 where there is none.
struct InputShape {
  int features = 0, vocabulary = 0, tokens = 0, classes = 0;
  bool any() const { return features > 0 || vocabulary > 0; }
};

/// The parameters the deck asks for: read from model.file (keys given in the deck that contradict the file
/// are refused), or initialised. Collective over `comm`. Throws BadInput.
Parameters make_parameters(const Settings& settings, const InputShape& input, MPI_Comm comm);

/// With model.file, the keys that file decides are left out of the resolved settings, so that they run again
/// as they are.
void leave_model_to_file(Settings& settings);

/// Depth cells, speed, epsilon, scheme. Throws BadInput.
EquationSpec equation_spec(const Settings& settings, const ModelSpec& model);
Precision precision_of(const Settings& settings);

}  // namespace fluxformer
