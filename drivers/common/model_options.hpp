#pragma once

// The keys of mesh, equation, depth, attention and model, shared by all experiments that build a model, and
// what they say: the model and the equation.

#include <mpi.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/settings.hpp"
#include "model/depth_model.hpp"
#include "model/equation.hpp"
#include "model/model_file.hpp"
#include "model/parameters.hpp"

namespace fluxformer {

/// Declares the keys of the model. Those that a model file decides have role `model`; the others are keys of
/// mesh and discretisation.
void declare_model_options(Options& options);

/// Omits keys of role `model` from the resolved settings if model.file is given, so that these settings can
/// be run again as they are.
void leave_model_to_file(Settings& settings);

/// A model to be read from a file, or to be initialised.
struct ModelPlan {
  /// A coefficient of the equation: its value in a new model, and whether it replaces that of a model file.
  struct Coefficient {
    double value = 0;
    bool given = false;
  };
  std::string file;  ///< model.file; empty: a new model
  ModelSpec spec;    ///< a new model, without the sizes of its input
  Coefficient kappa, alpha, rho, nu;
  std::uint64_t seed = 1;
  bool positions = true;       ///< a new model has learned positions
  bool standard = true;        ///< initial weights: random as usual; false: scaled identities
  double beta = 1, value = 1;  ///< identities: inverse temperature, and factor in W_V
  /// Keys of role `model` that were given, with their values: a model file must agree with them.
  std::vector<std::pair<std::string, OptionValue>> given;
  /// True if the model may have more positions than the samples have tokens, which take the first ones.
  bool first_positions = false;
};
/// The plan by the settings, which must have the keys of data, too. Not collective.
ModelPlan model_plan(const Settings& settings);

/// Makes the model parameters, or a share of them: read from plan.file (given keys that contradict the file
/// are refused), or initialised. Collective over `comm`. Throws BadInput.
Parameters make_parameters(const ModelPlan& plan, const InputShape& input, MPI_Comm comm,
                           const ShareOf& share = {});

/// Throws BadInput for lines of more tokens than the rotary angles of `spec` are for, and warns on rank 0 of lines
/// that are longer than those of its training. `where` names the model, `what` the lines.
void require_length(const ModelSpec& spec, int tokens, const std::string& what, const std::string& where,
                    MPI_Comm comm);

/// Values of the keys of role `model` for a model. equation.alpha, rho, kappa and nu, which override a model file
/// if given, are left out, attention.window, which may differ by layer, and attention.iterations for attention without
/// iterations.
std::vector<std::pair<std::string, OptionValue>> settings_of(const ModelSpec& spec);

/// The discretisation of the equation: the layers are those of the model; 0 cells: those of the model, too.
/// mesh.edges may be the list of the depths only; with_edges_from_file makes it so.
EquationSpec equation_plan(const Settings& settings);
/// The settings with the depths in place of the file that mesh.edges names, so that the run does not depend on
/// it any more. Throws BadInput for a file without edges. Collective.
Settings with_edges_from_file(const Settings& settings, MPI_Comm comm);
/// The discretisation for a model.
EquationSpec equation_for(const EquationSpec& plan, const ModelSpec& model);
/// Precision by run.precision. Throws BadInput for one that this processor does not have.
Precision precision_of(const Settings& settings);

}  // namespace fluxformer
