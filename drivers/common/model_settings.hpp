#pragma once

// The model and the equation described by the keys of model_options.hpp.

#include <mpi.h>

#include <string>
#include <utility>
#include <vector>

#include "base/settings.hpp"
#include "model/depth_model.hpp"
#include "model/equation.hpp"
#include "model/model_file.hpp"
#include "model/parameters.hpp"

namespace fluxformer {

/// Makes the model parameters, or a share of them: read from model.file (deck keys that contradict the file
/// are refused), or initialised. Collective over `comm`. Throws BadInput.
Parameters make_parameters(const Settings& settings, const InputShape& input, MPI_Comm comm,
                           const ShareOf& share = {});

/// Values of the keys of role `model` for a model. equation.alpha, rho and kappa, which override a model file
/// if given, are left out, and attention.iterations for attention without iterations.
std::vector<std::pair<std::string, OptionValue>> settings_of(const ModelSpec& spec);

/// Discretisation of the equation by the settings: depth cells, speed, epsilon, scheme. Throws BadInput.
EquationSpec equation_spec(const Settings& settings, const ModelSpec& model);
/// Precision by run.precision. Throws BadInput for one that this processor does not have.
Precision precision_of(const Settings& settings);

}  // namespace fluxformer
