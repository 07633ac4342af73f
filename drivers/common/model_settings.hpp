#pragma once

// The model and the equation that the keys of model_options.hpp describe.

#include <mpi.h>

#include <string>
#include <utility>
#include <vector>

#include "base/settings.hpp"
#include "model/equation.hpp"
#include "model/parameters.hpp"
#include "model/precision.hpp"

namespace fluxformer {

/// The parameters the deck asks for: read from model.file (keys given in the deck that contradict the file
/// are refused), or initialised. Collective over `comm`. Throws BadInput.
Parameters make_parameters(const Settings& settings, const InputShape& input, MPI_Comm comm);

/// A model as the keys (role `model`) that describe it, but for equation.alpha, rho and kappa, which win over a
/// model file where they are given, and attention.iterations where attention has none.
std::vector<std::pair<std::string, OptionValue>> settings_of(const ModelSpec& spec);

/// Depth cells, speed, epsilon, scheme. Throws BadInput.
EquationSpec equation_spec(const Settings& settings, const ModelSpec& model);
/// run.precision
Precision precision_of(const Settings& settings);

}  // namespace fluxformer
