#include "drivers/evolve/evolve_problem.hpp"

#include <sstream>

#include "base/error.hpp"
#include "model/depth_march.hpp"
#include "model/depth_model.hpp"
#include "operators/kernels/blas.hpp"

namespace fluxformer {
namespace {

MeshSpec mesh_spec(const Settings& settings, const Inflow& inflow, const ModelSpec& model) {
  const auto depth = equation_spec(settings, model).depth;
  return {.cells = depth.cells,
          .tokens_x = inflow.tokens_x(),
          .tokens_y = inflow.tokens_y(),
          .samples = inflow.samples(),
          .width = model.width,
          .ranks_depth = settings.count("mesh.ranks_depth"),
          .ranks_token = settings.count("mesh.ranks_token"),
          .periodic = settings.flag("mesh.periodic")};
}

SlabContext slab_context(const ModelSpec& model, const Mesh& mesh, const Inflow& inflow) {
  SlabContext context{&mesh.token_line(), mesh.spec().samples, mesh.spec().width, {}};
  context.mask.causal = model.causal;
  context.mask.length = inflow.lengths();
  return context;
}

/// The parameters that this rank needs: the inflow, the layers of its cells, and the head behind the last of
/// them.
ParameterShare share_of_mesh(const Mesh& mesh, const ModelSpec& model) {
  auto share = share_of(model, {model.layers, mesh.total_cells()},
                        {mesh.first_cell(), mesh.first_cell() + mesh.cells() - 1});
  share.embedding = true;  // the inflow is needed beyond the first rank: stencils reach two cells down
  return share;
}

/// Makes the model on all ranks, which agree on its coefficients.
std::unique_ptr<DepthModel> make_shared_model(MPI_Comm comm, const Parameters& parameters,
                                              const SlabContext& slab, Precision precision) {
  auto model = collectively(comm, [&] { return make_depth_model(parameters, slab, precision); });
  model->agree_on_coefficients(comm);
  return model;
}

Equation make_equation(const Settings& settings, const Parameters& parameters, const SlabContext& slab,
                       DepthModel& model, const std::vector<MakeTerm>& more_terms) {
  Equation equation(model, equation_spec(settings, parameters.spec));
  for (const auto& make : more_terms) equation.add(make(settings, slab));
  return equation;
}

EvolveSettings evolve_settings(const Settings& settings, const EquationSpec& equation) {
  EvolveSettings s;
  s.method = settings.word("evolve.method");
  s.variant = settings.word("evolve.variant");
  s.dt = settings.real("evolve.dt");
  s.cfl = settings.real("evolve.cfl");
  s.time = settings.real("evolve.time");
  if (s.time == 0) s.time = equation.speed > 0 ? 2 * equation.depth.layers / equation.speed : 1;
  s.adaptive_tolerance = settings.real("evolve.tolerance");
  s.steady_tolerance = settings.word("evolve.stop") == "steady" ? settings.real("evolve.steady") : 0;
  s.max_norm = settings.real("evolve.max_norm");
  s.inflow_every = settings.real("inflow.every");
  return s;
}

/// The precision of run.precision. Throws BadInput for one that is too coarse for the steady state u*.
Precision precision_for(const Settings& settings) {
  const auto precision = precision_of(settings);
  const bool solved = settings.word("depth.scheme") != "shift" || settings.real("equation.epsilon") > 0;
  if (is_mixed(precision) && solved && settings.real("front.threshold") > 0)
    throw BadInput("run.precision = " + settings.word("run.precision") +
                   ": the steady state that fronts are measured against is solved for, and residuals cannot "
                   "become smaller than its "
                   "rounding; use single, or front.threshold = 0");
  return precision;
}

}  // namespace

EvolveProblem::EvolveProblem(const Settings& settings, MPI_Comm comm, const std::vector<MakeTerm>& more_terms)
    : inflow(settings, comm),
      parameters(make_parameters(settings, inflow.shape(), comm,
                                 [&](const ModelSpec& spec) {
                                   mesh_ = std::make_unique<Mesh>(comm, mesh_spec(settings, inflow, spec));
                                   return share_of_mesh(*mesh_, spec);
                                 })),
      mesh(*mesh_),
      slab(slab_context(parameters.spec, mesh, inflow)),
      model(make_shared_model(comm, parameters, slab, precision_for(settings))),
      equation(make_equation(settings, parameters, slab, *model, more_terms)),
      solver_settings(evolve_settings(settings, equation.spec())),
      solver(mesh, equation, solver_settings),
      inflow_slab(mesh.slab_size()) {
  const auto depth = equation.spec().depth;
  std::vector<DepthPoint> points;
  for (int cell = mesh.first_cell(); cell < mesh.first_cell() + mesh.cells(); ++cell)
    points.push_back(equation.spec().scheme == DepthScheme::shift
                         ? cell_entry(cell, depth.layers, depth.cells)
                         : cell_exit(cell, depth.layers, depth.cells));
  model->prepare(points);
  inflow.fill(parameters, slab, 0, inflow_slab.data());
  solver.set_inflow([this](long block, double* to) { inflow.fill(parameters, slab, block, to); });
  set_initial_state(initial_state(settings, parameters.spec), mesh, slab, inflow_slab, solver.state());
}

std::string EvolveProblem::describe() const {
  std::ostringstream text;
  const auto& spec = parameters.spec;
  const auto& grid = mesh.grid();
  text << to_word(spec.kind) << ", " << spec.layers << " layers on " << mesh.total_cells() << " depth cells, "
       << inflow.tokens_x() << " x " << inflow.tokens_y() << " tokens, width " << spec.width << ", "
       << inflow.samples() << (inflow.samples() == 1 ? " sample, " : " samples, ")
       << parameters.layout.size_of_model() << " parameters\n"
       << to_word(equation.spec().scheme) << ", " << solver_settings.method
       << " to t = " << solver_settings.time << ", step " << solver.step_size() << "; ranks: " << grid.depth
       << " over depth x " << grid.token() << " over tokens; " << blas_description() << '\n'
       << solver.describe();
  return text.str();
}

}  // namespace fluxformer
