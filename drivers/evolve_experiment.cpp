#include "drivers/evolve_experiment.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iostream>
#include <optional>
#include <sstream>

#include "base/progress.hpp"
#include "base/session.hpp"
#include "drivers/evolve_record.hpp"
#include "drivers/evolve_restart.hpp"
#include "drivers/front_reference.hpp"
#include "drivers/model_options.hpp"
#include "io/part_file.hpp"
#include "io/schema.hpp"
#include "operators/blas.hpp"

namespace fluxformer {
namespace {

class EvolveExperiment final : public Experiment {
 public:
  EvolveExperiment(const Settings& settings, const RunContext& context);
  std::string describe() const override;
  Report run() override;

 private:
  using WallClock = std::chrono::steady_clock;
  static double since(WallClock::time_point start) {
    return std::chrono::duration<double>(WallClock::now() - start).count();
  }
  static MeshSpec mesh_spec(const Settings& settings, const Inflow& inflow, const Parameters& parameters);
  static SlabContext slab_context(const Settings& settings, const Mesh& mesh);
  static EvolveSettings evolve_settings(const Settings& settings, const EquationSpec& equation);

  /// u* of the front, from march, or from the steady state where epsilon > 0; none if it cannot be had.
  void find_reference();
  void restart(const Continuation& from, EvolveRecord& record);
  void checkpoint(EvolveRecord& record, long outputs);
  /// After a step: history, fields, checkpoints; false when asked to stop.
  bool after_step(const Step& step, EvolveRecord& record, Progress& progress);
  bool asked_to_stop();

  Settings settings_;
  RunContext context_;
  WallClock::time_point start_ = WallClock::now();
  Inflow inflow_;
  Parameters parameters_;
  Mesh mesh_;
  SlabContext slab_;
  std::unique_ptr<DepthModel> model_;
  Equation equation_;
  EvolveSettings solver_settings_;
  Evolve solver_;
  DepthMeter meter_;
  std::vector<double> inflow_slab_;
  bool root_ = false;
  // of the run
  long outputs_ = 0, checkpoints_ = 0;
  std::string stop_reason_;
  double output_seconds_ = 0;
};

MeshSpec EvolveExperiment::mesh_spec(const Settings& settings, const Inflow& inflow,
                                     const Parameters& parameters) {
  const auto depth = equation_spec(settings, parameters.spec).depth;
  return {.cells = depth.cells,
          .tokens_x = inflow.tokens_x(),
          .tokens_y = inflow.tokens_y(),
          .samples = inflow.samples(),
          .width = parameters.spec.width,
          .ranks_depth = static_cast<int>(settings.integer("mesh.ranks_depth")),
          .ranks_token = static_cast<int>(settings.integer("mesh.ranks_token")),
          .periodic = settings.flag("mesh.periodic")};
}

SlabContext EvolveExperiment::slab_context(const Settings& settings, const Mesh& mesh) {
  SlabContext context{&mesh.token_line(), mesh.spec().samples, mesh.spec().width, {}};
  context.mask.causal = settings.flag("attention.causal");
  return context;
}

EvolveSettings EvolveExperiment::evolve_settings(const Settings& settings, const EquationSpec& equation) {
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

EvolveExperiment::EvolveExperiment(const Settings& settings, const RunContext& context)
    : settings_(settings),
      context_(context),
      inflow_(settings, context.comm),
      parameters_(make_parameters(settings, inflow_.shape(), context.comm)),
      mesh_(context.comm, mesh_spec(settings, inflow_, parameters_)),
      slab_(slab_context(settings, mesh_)),
      model_(make_depth_model(parameters_, slab_, precision_of(settings))),
      equation_(*model_, equation_spec(settings, parameters_.spec)),
      solver_settings_(evolve_settings(settings, equation_.spec())),
      solver_(mesh_, equation_, solver_settings_),
      meter_(mesh_, slab_,
             {equation_.spec().speed, equation_.spec().epsilon, equation_.spec().depth.spacing()}),
      inflow_slab_(mesh_.slab_size()) {
  int rank = 0;
  MPI_Comm_rank(context.comm, &rank);
  root_ = rank == 0;
  const auto depth = equation_.spec().depth;
  std::vector<DepthPoint> points;
  for (int cell = mesh_.first_cell(); cell < mesh_.first_cell() + mesh_.cells(); ++cell)
    points.push_back(equation_.spec().scheme == DepthScheme::shift
                         ? cell_entry(cell, depth.layers, depth.cells)
                         : cell_exit(cell, depth.layers, depth.cells));
  model_->prepare(points);
  inflow_.fill(parameters_, slab_, 0, inflow_slab_.data());
  solver_.set_inflow([this](long block, double* slab) { inflow_.fill(parameters_, slab_, block, slab); });
  set_start(settings_, mesh_, slab_, inflow_slab_, solver_.state());
}

std::string EvolveExperiment::describe() const {
  std::ostringstream text;
  const auto& spec = parameters_.spec;
  const auto& grid = mesh_.grid();
  text << to_word(spec.kind) << ", " << spec.layers << " layers on " << mesh_.total_cells()
       << " depth cells, " << inflow_.tokens_x() << " x " << inflow_.tokens_y() << " tokens, width "
       << spec.width << ", " << inflow_.samples() << (inflow_.samples() == 1 ? " sample, " : " samples, ")
       << parameters_.values.size() << " parameters\n"
       << to_word(equation_.spec().scheme) << ", " << solver_settings_.method
       << " to t = " << solver_settings_.time << ", step " << solver_.step_size() << "; ranks: " << grid.depth
       << " over depth x " << grid.token() << " over tokens; " << blas_description();
  return text.str();
}

void EvolveExperiment::find_reference() {
  if (settings_.real("front.threshold") == 0 || equation_.spec().speed == 0 ||
      solver_settings_.inflow_every > 0)
    return;
  try {
    meter_.set_reference(front_reference(mesh_, equation_, solver_settings_, inflow_slab_));
  } catch (const NumericalFailure& e) {
    if (root_)
      std::cerr << "fluxformer: no arrival times, the steady state was not found: " << e.what() << '\n';
  }
}

bool EvolveExperiment::asked_to_stop() {
  if (const int signal = stop_signal(mesh_.comm()); signal != 0) {
    stop_reason_ = "signal " + std::to_string(signal);
    return true;
  }
  const double limit = settings_.real("run.time_limit");
  if (limit == 0) return false;
  int over = since(start_) >= limit ? 1 : 0;
  check_mpi(MPI_Bcast(&over, 1, MPI_INT, 0, mesh_.comm()));  // rank 0's clock decides
  if (over != 0) stop_reason_ = "run.time_limit";
  return over != 0;
}

bool EvolveExperiment::after_step(const Step& step, EvolveRecord& record, Progress& progress) {
  const double time = step.clock.time, end = solver_settings_.time;
  const double slack = 1e-9 * std::max(step.clock.step_size, 1e-300);
  if (step.clock.step % settings_.integer("output.history") == 0 || time >= end - slack) {
    const double courant = equation_.spec().speed * step.clock.step_size / equation_.spec().depth.spacing();
    record.write_history(step, courant, since(start_));
  }
  const double every = settings_.real("output.every");
  if (every > 0 && time >= static_cast<double>(outputs_ + 1) * every - slack) {
    const auto began = WallClock::now();
    record.write_fields(time, step.u);
    outputs_ = static_cast<long>(std::floor((time + slack) / every));
    output_seconds_ += since(began);
  }
  const double saves = settings_.real("checkpoint.every");
  if (saves > 0 && time >= static_cast<double>(checkpoints_ + 1) * saves - slack) {
    checkpoints_ = static_cast<long>(std::floor((time + slack) / saves));
    checkpoint(record, outputs_);
    solver_.forget_history();
  }
  progress.update(std::min(time, end));
  return !asked_to_stop();
}

void EvolveExperiment::checkpoint(EvolveRecord& record, long outputs) {
  CheckpointWriter file(mesh_.comm(), settings_.word("output.file"));
  const auto clock = solver_.clock();
  file.put("settings", settings_.resolved());
  file.put("time", clock.time);
  file.put("step_size", clock.step_size);
  file.put("step", clock.step);
  file.put("outputs", outputs);
  file.put("checkpoints", checkpoints_);
  record.save(file);
  const double* values = nullptr;
  check(VecGetArrayRead(solver_.state(), &values));
  file.put("u", field_part(mesh_), values);
  check(VecRestoreArrayRead(solver_.state(), &values));
  file.commit();
}

void EvolveExperiment::restart(const Continuation& from, EvolveRecord& record) {
  const auto& file = from.checkpoint;
  double* values = nullptr;
  check(VecGetArray(solver_.state(), &values));
  file.field("u", field_part(mesh_), values);
  check(VecRestoreArray(solver_.state(), &values));
  const double time = file.real("time");
  solver_.restore({time, file.real("step_size"), file.integer("step")});
  outputs_ = file.integer("outputs");
  checkpoints_ = file.integer("checkpoints");
  record.load(file);
  if (from.earlier) record.copy_fields(*from.earlier, from.fields);
  if (root_) std::cerr << "fluxformer: continuing from " << file.path() << " at t = " << time << '\n';
}

Report EvolveExperiment::run() {
  catch_stop_signals();
  const double set_up = since(start_);
  const auto continued = find_continuation(mesh_.comm(), settings_);
  const bool overwrite = settings_.flag("output.overwrite") || (continued && continued->replaces_output);
  {
    // What cannot be written is found here, before a steady state is computed.
    const PartFile probe(mesh_.comm(), settings_.word("output.file"), overwrite);
  }
  auto began = WallClock::now();
  find_reference();
  const double reference_seconds = since(began);
  EvolveRecord record(settings_, overwrite, context_, mesh_, equation_, parameters_, inflow_, meter_);
  if (continued) restart(*continued, record);
  if (solver_.clock().step == 0) record.write_fields(0, solver_.state());
  if (root_ && !context_.quiet) std::cerr << describe() << '\n';
  if (root_ && !blas_warning().empty()) std::cerr << "fluxformer: " << blas_warning() << '\n';

  Progress progress("evolve", solver_settings_.time, "time units", root_ && !context_.quiet);
  Report report;
  std::string status = names::done;
  EvolveEnd end = EvolveEnd::time_reached;
  began = WallClock::now();
  try {
    end = solver_.run([&](const Step& step) { return after_step(step, record, progress); });
  } catch (const NumericalFailure& e) {
    status = names::failed;
    report = {ExitCode::numerical, "fluxformer: " + std::string(e.what())};
  }
  const double solve_seconds = since(began);
  progress.finish();
  const auto clock = solver_.clock();
  if (end == EvolveEnd::stopped_by_hook) {
    status = names::interrupted;
    checkpoint(record, outputs_);
    report = {ExitCode::stopped, "fluxformer: stopped by " + stop_reason_ +
                                     " at t = " + std::to_string(clock.time) +
                                     "; continue with --checkpoint.restart=auto"};
  }
  const double every = settings_.real("output.every");
  const bool stored =
      every > 0 && std::abs(clock.time - static_cast<double>(outputs_) * every) < 1e-9 * every;
  if (!stored) record.write_fields(clock.time, solver_.state());
  record.finish(status, report.summary, solver_.state(), inflow_slab_,
                {{"set_up", set_up},
                 {"reference", reference_seconds},
                 {"solve", solve_seconds},
                 {"output", output_seconds_}});
  remove_interrupted(mesh_.comm(), settings_);
  if (report.code == ExitCode::done) {
    std::ostringstream text;
    text << (end == EvolveEnd::steady ? "steady" : "done") << " at t = " << clock.time << " after "
         << clock.step << " steps, " << since(start_) << " s; written to " << settings_.word("output.file");
    report.summary = text.str();
  } else {
    report.summary += "\nwritten to " + settings_.word("output.file");
  }
  return report;
}

}  // namespace

std::unique_ptr<Experiment> make_evolve(const Settings& settings, const RunContext& context) {
  return std::make_unique<EvolveExperiment>(settings, context);
}

}  // namespace fluxformer
