#include "drivers/evolve/evolve_problem.hpp"

#include <algorithm>
#include <sstream>

#include "base/error.hpp"
#include "base/mpi.hpp"
#include "base/vector_arrays.hpp"
#include "model/depth_march.hpp"
#include "model/depth_model.hpp"
#include "model/sample_set.hpp"
#include "operators/kernels/blas.hpp"
#include "solvers/march/march.hpp"

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
ParameterShare share_of_mesh(const Mesh& mesh, const ModelSpec& model, const DepthCells& depth) {
  auto share = share_of(model, depth, {mesh.first_cell(), mesh.first_cell() + mesh.cells() - 1});
  share.embedding = true;  // the inflow is needed beyond the first rank: stencils reach two cells down
  return share;
}

/// The points in depth at which the terms of this rank's cells are evaluated.
std::vector<DepthPoint> depth_points(const Mesh& mesh, const EquationSpec& equation) {
  const auto depth = equation.depth;
  std::vector<DepthPoint> points;
  for (int cell = mesh.first_cell(); cell < mesh.first_cell() + mesh.cells(); ++cell)
    points.push_back(equation.scheme == DepthScheme::shift ? depth.entry(cell) : depth.exit(cell));
  return points;
}

}  // namespace

EvolveProblem::EvolveProblem(const EvolvePlan& plan, MPI_Comm comm, const std::vector<MakeTerm>& more_terms) {
  inflow.emplace(plan.inflow, comm);

  // The mesh follows from the sizes of the model and says which of its parameters this rank needs.
  const auto share = [&](const ModelSpec& spec) {
    mesh = std::make_unique<Mesh>(comm, mesh_spec(plan, *inflow, spec));
    return share_of_mesh(*mesh, spec, equation_for(plan.equation, spec).depth);
  };
  parameters.emplace(make_parameters(plan.model, inflow->shape(), comm, share));
  if (inflow->data() != nullptr)
    collectively(comm, [&] { require_real_tokens(*inflow->data(), parameters->spec); });
  if (!plan.model.file.empty()) depth_report = depth_report_in({comm, plan.model.file, "model.file = "});

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
  if (!depth_report.empty()) text << "\ndepth, as its training found: " << depth_report;
  return text.str();
}

namespace {

constexpr int state_tag = 1;

/// Marches to u* through depth, one rank after another: each marches through its own cells after the ranks
/// before it, which pass on their last two slabs.
std::vector<float> marched(const EvolveProblem& problem) {
  const auto& mesh = *problem.mesh;
  const auto& equation = *problem.equation;
  const auto& spec = equation.spec();
  MarchSettings settings;
  // A steady march solves du/ds = F(u)/c: the upwind differences are backward Euler and BDF2 in depth.
  settings.method = spec.scheme == DepthScheme::shift    ? "euler"
                    : spec.scheme == DepthScheme::upwind ? "beuler"
                                                         : "bdf2";
  const DepthRange cells{mesh.first_cell(), mesh.first_cell() + mesh.cells() - 1};
  March march(equation.model(), spec.depth, spec.speed, settings, cells);
  const int rank = mpi::rank(mesh.depth_line()), ranks = mpi::size(mesh.depth_line());
  const std::size_t size = mesh.slab_size();
  // Message from the ranks before: a flag that all went well so far, the slab in front of these cells, and
  // the one before that.
  std::vector<double> from(1 + 2 * size, 0.0);
  from[0] = 1;
  std::ranges::copy(problem.inflow_slab, from.begin() + 1);
  std::vector<float> reference;
  RankFailure failure;
  if (rank != 0) receive_numbers(from, rank - 1, state_tag, mesh.depth_line());
  const auto march_on = [&] {
    const std::vector<double> start = from;
    reference.reserve(static_cast<std::size_t>(mesh.cells()) * size);
    march.run(
        start.data() + 1,
        [&](int, const double* slab) {
          reference.insert(reference.end(), slab, slab + size);
          // Keeps the last two slabs for the next rank.
          std::copy_n(from.begin() + 1, size, from.begin() + 1 + static_cast<std::ptrdiff_t>(size));
          std::copy_n(slab, size, from.begin() + 1);
        },
        start.data() + 1 + size);
  };
  if (from[0] != 0 && !failure.attempt(march_on)) from[0] = 0;
  // Passed on also after a failure, so that no rank waits in vain.
  if (rank + 1 < ranks) send_numbers(from, rank + 1, state_tag, mesh.depth_line());
  failure.share(mesh.comm());
  return reference;
}

/// Evolves to u*; empty if `stop` ended the search.
std::vector<float> evolved(const EvolveProblem& problem, const std::function<bool()>& stop) {
  const auto& spec = problem.equation->spec();
  auto settings = problem.solver_settings;
  settings.steady_tolerance = 1e-6;
  settings.time = 50 * spec.depth.layers / spec.speed;
  Evolve steady(*problem.mesh, *problem.equation, settings);
  steady.set_inflow([&](long, double* slab) { std::ranges::copy(problem.inflow_slab, slab); });
  const auto end = steady.run([&](const Step&) { return !stop(); });
  if (end == EvolveEnd::stopped_by_hook) return {};
  if (end != EvolveEnd::steady)
    throw NumericalFailure("the state is not steady at t = " + std::to_string(steady.clock().time));
  const ReadArray u(steady.state());
  return {u.values, u.values + static_cast<std::size_t>(problem.mesh->cells()) * problem.mesh->slab_size()};
}

}  // namespace

std::vector<float> front_reference(const EvolveProblem& problem, const std::function<bool()>& stop) {
  const auto& spec = problem.equation->spec();
  return spec.epsilon == 0 && !problem.equation->has_added_terms() ? marched(problem)
                                                                   : evolved(problem, stop);
}

}  // namespace fluxformer
