#include "drivers/evolve/evolve_problem.hpp"

#include <algorithm>
#include <sstream>

#include "base/error.hpp"
#include "model/depth_march.hpp"
#include "model/depth_model.hpp"
#include "model/sample_set.hpp"
#include "operators/kernels/blas.hpp"

namespace fluxformer {

Inflow::Inflow(const InflowPlan& plan, MPI_Comm comm)
    : source_(plan.source), samples_(plan.samples), first_(plan.first), seed_(plan.seed) {
  if (source_ == "data") {
    data_ = open_data(plan.data, plan.split, known_input(plan.data, comm), comm);
    if (first_ + static_cast<std::size_t>(samples_) > data_->size())
      throw BadInput(
          "inflow.first + inflow.samples = " + std::to_string(first_ + static_cast<std::size_t>(samples_)) +
          ": " + plan.data.set.name + " has " + std::to_string(data_->size()) + " samples");
    if (data_->padded() && plan.every > 0)
      throw BadInput("inflow.every: texts of different lengths cannot follow each other through depth");
    tokens_x_ = data_->tokens_x();
    tokens_y_ = data_->tokens_y();
  }
  const auto choose = [&](const char* key, int asked, int& tokens) {
    if (data_ != nullptr && asked > 0 && asked != tokens)
      throw BadInput(std::string(key) + " = " + std::to_string(asked) + ": the data has " +
                     std::to_string(tokens) + "; leave the key out");
    if (data_ == nullptr) tokens = std::max(1, asked);
  };
  choose("mesh.tokens_x", plan.tokens_x, tokens_x_);
  choose("mesh.tokens_y", plan.tokens_y, tokens_y_);
}

InputShape Inflow::shape() const {
  if (data_ == nullptr) return {};
  return shape_of(*data_);
}

std::vector<int> Inflow::lengths() const {
  std::vector<int> list;
  if (data_ == nullptr || !data_->padded()) return list;
  for (const auto index : indices(0)) list.push_back(data_->length(index));
  return list;
}

std::vector<std::size_t> Inflow::indices(long block) const {
  std::vector<std::size_t> list;
  for (int b = 0; b < samples_; ++b) {
    const std::size_t index = first_ + static_cast<std::size_t>(block) * static_cast<std::size_t>(samples_) +
                              static_cast<std::size_t>(b);
    list.push_back(data_ == nullptr ? index : index % data_->size());
  }
  return list;
}

void Inflow::fill(const Parameters& parameters, const SlabContext& context, long block, double* slab) const {
  const auto which = indices(block);
  if (data_ != nullptr)
    fill_with_samples(*data_, which, parameters, context, slab);
  else if (source_ == "none")
    std::fill_n(slab, context.size(), 0.0);
  else
    fill_with_noise(which, seed_, context, slab);
}

namespace {

MeshSpec mesh_spec(const EvolvePlan& plan, const Inflow& inflow, const ModelSpec& model) {
  return {.cells = equation_for(plan.equation, model).depth.cells,
          .tokens_x = inflow.tokens_x(),
          .tokens_y = inflow.tokens_y(),
          .samples = inflow.samples(),
          .width = model.width,
          .ranks_depth = plan.ranks_depth,
          .ranks_token = plan.ranks_token,
          .periodic = plan.periodic};
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

/// The points in depth at which the terms of this rank's cells are evaluated.
std::vector<DepthPoint> depth_points(const Mesh& mesh, const EquationSpec& equation) {
  const auto depth = equation.depth;
  std::vector<DepthPoint> points;
  for (int cell = mesh.first_cell(); cell < mesh.first_cell() + mesh.cells(); ++cell)
    points.push_back(equation.scheme == DepthScheme::shift ? cell_entry(cell, depth.layers, depth.cells)
                                                           : cell_exit(cell, depth.layers, depth.cells));
  return points;
}

}  // namespace

EvolveProblem::EvolveProblem(const EvolvePlan& plan, MPI_Comm comm, const std::vector<MakeTerm>& more_terms) {
  inflow.emplace(plan.inflow, comm);

  // The mesh follows from the sizes of the model and says which of its parameters this rank needs.
  const auto share = [&](const ModelSpec& spec) {
    mesh = std::make_unique<Mesh>(comm, mesh_spec(plan, *inflow, spec));
    return share_of_mesh(*mesh, spec);
  };
  parameters.emplace(make_parameters(plan.model, inflow->shape(), comm, share));

  slab = slab_context(parameters->spec, *mesh, *inflow);
  model = collectively(comm, [&] { return make_depth_model(*parameters, slab, plan.precision); });
  model->agree_on_coefficients(comm);

  equation.emplace(*model, equation_for(plan.equation, parameters->spec));
  for (const auto& make : more_terms) equation->add(make(slab));
  const auto& spec = equation->spec();

  solver_settings = plan.solver;
  if (solver_settings.time == 0)
    solver_settings.time = spec.speed > 0 ? 2 * spec.depth.layers / spec.speed : 1;
  solver.emplace(*mesh, *equation, solver_settings);
  model->prepare(depth_points(*mesh, spec));

  inflow_slab.resize(mesh->slab_size());
  inflow->fill(*parameters, slab, 0, inflow_slab.data());
  solver->set_inflow([this](long block, double* to) { inflow->fill(*parameters, slab, block, to); });

  auto start = plan.start;
  start.no_zero_vectors = parameters->spec.norm == Norm::sphere;
  set_initial_state(start, *mesh, slab, inflow_slab, solver->state());
}

std::string EvolveProblem::describe() const {
  std::ostringstream text;
  const auto& spec = parameters->spec;
  const auto& grid = mesh->grid();
  text << to_word(spec.kind) << ", " << spec.layers << " layers on " << mesh->total_cells()
       << " depth cells, " << inflow->tokens_x() << " x " << inflow->tokens_y() << " tokens, width "
       << spec.width << ", " << inflow->samples() << (inflow->samples() == 1 ? " sample, " : " samples, ")
       << parameters->layout.size_of_model() << " parameters\n"
       << to_word(equation->spec().scheme) << ", " << solver_settings.method
       << " to t = " << solver_settings.time << ", step " << solver->step_size() << "; ranks: " << grid.depth
       << " over depth x " << grid.token() << " over tokens; " << blas_description() << '\n'
       << solver->describe();
  return text.str();
}

}  // namespace fluxformer
