#include "drivers/evolve/evolve_experiment.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iostream>
#include <optional>
#include <sstream>

#include "base/progress.hpp"
#include "base/session.hpp"
#include "base/vector_arrays.hpp"
#include "drivers/common/announce.hpp"
#include "drivers/common/stop_request.hpp"
#include "drivers/evolve/evolve_attention.hpp"
#include "drivers/evolve/evolve_problem.hpp"
#include "drivers/evolve/evolve_record.hpp"
#include "drivers/evolve/evolve_restart.hpp"
#include "drivers/evolve/front_reference.hpp"
#include "io/part_file.hpp"
#include "io/schema.hpp"

namespace fluxformer {
namespace {

class EvolveExperiment final : public Experiment {
 public:
  EvolveExperiment(const Settings& settings, const RunContext& context);
  std::string describe() const override { return problem_.describe(); }
  Report run() override;

 private:
  using WallClock = std::chrono::steady_clock;
  static double since(WallClock::time_point start) {
    return std::chrono::duration<double>(WallClock::now() - start).count();
  }
  /// u* of the front, from march, or from the steady state where epsilon > 0; none if it cannot be had.
  void find_reference();
  void restart(const Continuation& from, EvolveRecord& record);
  void checkpoint(EvolveRecord& record, long outputs);
  /// After a step: history, fields, checkpoints; false when asked to stop.
  bool after_step(const Step& step, EvolveRecord& record, Progress& progress);

  Settings settings_;
  RunContext context_;
  WallClock::time_point start_ = WallClock::now();
  StopRequest stop_;
  EvolveProblem problem_;
  states::DepthMeter meter_;
  bool root_ = false;
  // of the run
  long outputs_ = 0, checkpoints_ = 0;
  double output_seconds_ = 0;
};

EvolveExperiment::EvolveExperiment(const Settings& settings, const RunContext& context)
    : settings_(settings),
      context_(context),
      stop_(context.comm, settings.real("run.time_limit")),
      problem_(settings, context.comm),
      meter_(problem_.mesh, problem_.slab,
             {problem_.equation.spec().speed, problem_.equation.spec().epsilon,
              problem_.equation.spec().depth.spacing()}) {
  int rank = 0;
  MPI_Comm_rank(context.comm, &rank);
  root_ = rank == 0;
  if (settings.flag("output.attention")) require_storable_attention(problem_.mesh, problem_.equation);
  leave_model_to_file(settings_);
}

void EvolveExperiment::find_reference() {
  if (settings_.real("front.threshold") == 0 || problem_.equation.spec().speed == 0 ||
      problem_.solver_settings.inflow_every > 0)
    return;
  try {
    meter_.set_reference(
        front_reference(problem_.mesh, problem_.equation, problem_.solver_settings, problem_.inflow_slab));
  } catch (const NumericalFailure& e) {
    if (root_)
      std::cerr << "fluxformer: no arrival times, the steady state was not found: " << e.what() << '\n';
  }
}

bool EvolveExperiment::after_step(const Step& step, EvolveRecord& record, Progress& progress) {
  const double time = step.clock.time, end = problem_.solver_settings.time;
  const double slack = 1e-3 * step.clock.step_size;  // the round-off of many summed steps
  if (step.clock.step % settings_.integer("output.history") == 0 || time >= end - slack) {
    const double courant =
        problem_.equation.spec().speed * step.clock.step_size / problem_.equation.spec().depth.spacing();
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
    problem_.solver.forget_history();
  }
  progress.update(std::min(time, end));
  return !stop_.asked();
}

void EvolveExperiment::checkpoint(EvolveRecord& record, long outputs) {
  io::CheckpointWriter file(problem_.mesh.comm(), settings_.word("output.file"));
  const auto clock = problem_.solver.clock();
  file.put("settings", settings_.resolved());
  file.put("time", clock.time);
  file.put("step_size", clock.step_size);
  file.put("step", clock.step);
  file.put("outputs", outputs);
  file.put("checkpoints", checkpoints_);
  record.save(file);
  file.put("u", field_part(problem_.mesh), Reading(problem_.solver.state()).values);
  file.commit();
}

void EvolveExperiment::restart(const Continuation& from, EvolveRecord& record) {
  const auto& file = from.checkpoint;
  file.field("u", field_part(problem_.mesh), Writing(problem_.solver.state()).values);
  const double time = file.real("time");
  problem_.solver.restore({time, file.real("step_size"), file.integer("step")});
  outputs_ = file.integer("outputs");
  checkpoints_ = file.integer("checkpoints");
  record.load(file);
  if (from.earlier) record.copy_fields(*from.earlier, from.fields);
  if (root_) std::cerr << "fluxformer: continuing from " << file.path() << " at t = " << time << '\n';
}

Report EvolveExperiment::run() {
  catch_stop_signals();
  const double set_up = since(start_);
  const auto continued = find_continuation(problem_.mesh.comm(), settings_);
  const bool overwrite = settings_.flag("output.overwrite") || (continued && continued->replaces_output);
  auto began = WallClock::now();
  {
    // What cannot be written is found here, before a steady state is computed.
    const io::PartFile claim(problem_.mesh.comm(), settings_.word("output.file"), overwrite);
    find_reference();
  }
  const double reference_seconds = since(began);
  EvolveRecord record(settings_, overwrite, context_, problem_.mesh, problem_.equation, problem_.parameters,
                      problem_.inflow, meter_);
  if (continued) restart(*continued, record);
  if (problem_.solver.clock().step == 0) record.write_fields(0, problem_.solver.state());
  const bool speaks = announce(*this, context_);

  Progress progress("evolve", problem_.solver_settings.time, "time units", speaks);
  Report report;
  std::string status = names::done;
  EvolveEnd end = EvolveEnd::time_reached;
  began = WallClock::now();
  try {
    end = problem_.solver.run([&](const Step& step) { return after_step(step, record, progress); });
  } catch (const NumericalFailure& e) {
    status = names::failed;
    report = {ExitCode::numerical, "fluxformer: " + std::string(e.what())};
  }
  const double solve_seconds = since(began);
  progress.finish();
  const auto clock = problem_.solver.clock();
  if (end == EvolveEnd::stopped_by_hook) {
    status = names::interrupted;
    checkpoint(record, outputs_);
    report = {ExitCode::stopped, "fluxformer: stopped by " + stop_.reason() +
                                     " at t = " + std::to_string(clock.time) +
                                     "; continue with --checkpoint.restart=auto"};
  }
  if (report.code == ExitCode::done && end == EvolveEnd::time_reached &&
      problem_.solver_settings.steady_tolerance > 0) {
    status = names::failed;
    report = {ExitCode::numerical, "fluxformer: not steady at t = " + std::to_string(clock.time) +
                                       ": |du/dt| is above evolve.steady; raise evolve.time"};
  }
  if (clock.time != record.last_fields()) record.write_fields(clock.time, problem_.solver.state());
  record.finish(status, report.summary, problem_.solver.state(), problem_.solver.inflow(),
                {{"set_up", set_up},
                 {"reference", reference_seconds},
                 {"solve", solve_seconds},
                 {"output", output_seconds_}});
  remove_interrupted(problem_.mesh.comm(), settings_);
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
