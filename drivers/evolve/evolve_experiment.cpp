#include "drivers/evolve/evolve_experiment.hpp"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <limits>
#include <optional>
#include <sstream>
#include <utility>

#include "analysis/attention/attention_variables.hpp"
#include "analysis/states/state_variables.hpp"
#include "base/error.hpp"
#include "base/mpi.hpp"
#include "base/progress.hpp"
#include "base/vector_arrays.hpp"
#include "drivers/common/earlier_runs.hpp"
#include "drivers/common/run_frame.hpp"
#include "drivers/evolve/evolve_options.hpp"
#include "drivers/evolve/evolve_problem.hpp"
#include "drivers/evolve/evolve_record.hpp"
#include "drivers/registry.hpp"
#include "io/archive_reader.hpp"
#include "io/axes.hpp"
#include "io/checkpoint.hpp"
#include "io/file_names.hpp"
#include "io/layout.hpp"
#include "model/model_file.hpp"

namespace fluxformer {
namespace {

// Items of a checkpoint that belong to the run; the record adds its own.
constexpr io::NumbersItem state{"u"};
constexpr io::RealItem time_reached{"time", 0}, last_step_size{"step_size", 0};
constexpr io::WholeItem steps_done{"step", 0, std::numeric_limits<int>::max()}, outputs_done{"outputs", 0},
    checkpoints_done{"checkpoints", 0};

/// The run that is continued, opened for reading.
struct Continuation {
  io::CheckpointReader checkpoint;
  /// The output of the run that was stopped or killed (or finished, if this one continues beyond it), if it
  /// can be read; the first `fields` states also belong to this run.
  std::optional<io::ArchiveReader> earlier;
  long fields = 0;
  /// True if the output is that of the stopped run.
  bool continues_output = false;
};

/// Fields in an archive that belong to the run described by the settings.
struct StoredFields {
  long fields = 0;  ///< number of the wanted fields that are there
  bool interrupted = false;
};

/// Looks for fields in the file; finds none if it cannot be read or belongs to another problem.
StoredFields stored_fields_in(MPI_Comm comm, const std::string& path, const Settings& settings, long wanted) {
  try {
    const io::ArchiveReader file(comm, path);
    if (!continues(settings, file.text(names::settings), path)) return {};
    const auto shape = file.shape(names::root(axes::time));
    return {shape.size() == 1 ? std::min(static_cast<long>(shape[0]), wanted) : 0,
            file.text(names::status) == names::interrupted};
  } catch (const Error&) {
    return {};
  }
}

/// Finds the file with the most fields of the run that is continued. A killed run leaves its part file,
/// readable up to its last checkpoint; a stopped, failed or finished one its output. A run killed before it
/// had copied the fields of its predecessor leaves a part file with fewer fields than the predecessor's. The
/// part file is kept as an interrupted result while this run writes its own.
void find_earlier(MPI_Comm comm, const Settings& settings, Continuation& found) {
  const auto& output = settings.word("output.file");
  const auto part = io::part_path(output), interrupted = io::incomplete_path(output, names::interrupted);
  long most = 0;
  std::string source;
  for (const auto& path : {part, interrupted, output, io::incomplete_path(output, names::failed)}) {
    const auto stored_part = stored_fields_in(comm, path, settings, found.fields);
    if (path == output) found.continues_output = stored_part.interrupted;
    if (stored_part.fields > most) std::tie(most, source) = std::pair(stored_part.fields, path);
  }
  if (source.empty()) return;
  if (source == part) {
    collectively(comm, [&] {
      if (mpi::is_root(comm)) std::filesystem::rename(part, interrupted);
    });
    source = interrupted;
  }
  found.earlier.emplace(comm, source);
}

/// Finds what the run continues from: std::nullopt if the settings ask for nothing, or for the newest
/// checkpoint (auto) and there is none. Must be called before the output file is claimed, because it moves
/// the part file of a killed run to <name>.interrupted.h5, which remove_interrupted removes once the output
/// is complete. Collective. Throws BadInput (agreed) if the checkpoint cannot be read, or if a key that
/// affects the solution differs from the checkpoint's.
std::optional<Continuation> find_continuation(MPI_Comm comm, const Settings& settings) {
  auto checkpoint = find_checkpoint(comm, settings);
  if (!checkpoint) return {};
  const long fields = checkpoint->integer(fields_stored);
  Continuation found{std::move(*checkpoint), {}, fields, false};
  find_earlier(comm, settings, found);
  return found;
}

class EvolveExperiment final : public Experiment {
 public:
  EvolveExperiment(const Settings& settings, const RunContext& context,
                   const std::vector<MakeTerm>& more_terms);
  std::string describe() const override { return problem_.describe(); }
  Report run() override;

 private:
  /// Computes the steady state u* of the front, if it is found. Returns false if asked to stop during the
  /// search.
  bool find_reference();
  void restart(const Continuation& from, EvolveRecord& record);
  void checkpoint(EvolveRecord& record);
  /// Writes what is due after a step: history, fields, checkpoints; returns false when asked to stop.
  bool after_step(const Step& step, EvolveRecord& record, Progress& progress);

  Settings settings_;
  RunContext context_;
  RunFrame frame_{settings_, context_};
  EvolveOutput output_;
  EvolveProblem problem_;
  states::DepthMeasurement measurement_;
  // State of the run.
  Cadence outputs_{output_.every}, checkpoints_{output_.checkpoints};
};

EvolveExperiment::EvolveExperiment(const Settings& settings, const RunContext& context,
                                   const std::vector<MakeTerm>& more_terms)
    : settings_(settings),
      context_(context),
      output_(output_of_evolve(settings)),
      problem_(plan_of_evolution(settings), context.comm, more_terms),
      measurement_(*problem_.mesh, problem_.slab,
                   {problem_.equation->spec().speed, problem_.equation->spec().epsilon,
                    problem_.equation->spec().depth.shortest()}) {
  if (output_.logits) require_storable_logits(problem_);
  if (output_.attention) require_storable_attention(problem_);
  if (output_.counts) {
    output_.counts = with_kernel(*output_.counts, problem_.mesh->spec().width);
    require_memory_of_clusters(output_, problem_);
  }
}

bool EvolveExperiment::find_reference() {
  if (output_.threshold == 0 || problem_.equation->spec().speed == 0 ||
      problem_.solver_settings.inflow_every > 0)
    return true;
  bool stopped = false;
  try {
    measurement_.set_reference(front_reference(problem_, [&] { return stopped = frame_.asked_to_stop(); }));
  } catch (const NumericalFailure& e) {
    if (frame_.root())
      std::cerr << "fluxformer: no arrival times, the steady state was not found: " << e.what() << '\n';
  }
  return !stopped;
}

bool EvolveExperiment::after_step(const Step& step, EvolveRecord& record, Progress& progress) {
  const double time = step.clock.time, end = problem_.solver_settings.time;
  const double slack = 1e-3 * step.clock.step_size;  // round-off of many summed steps
  if (step.clock.step % output_.history == 0 || time >= end - slack) {
    const double courant =
        problem_.equation->spec().speed * step.clock.step_size / problem_.equation->spec().depth.shortest();
    record.write_history(step, courant, frame_.seconds());
  }
  if (outputs_.due(time, slack)) frame_.timed("output", [&] { record.write_fields(time, step.u); });
  if (checkpoints_.due(time, slack)) {
    checkpoint(record);
    problem_.solver->forget_history();
  }
  progress.update(std::min(time, end));
  return !frame_.asked_to_stop();
}

void EvolveExperiment::checkpoint(EvolveRecord& record) {
  io::CheckpointWriter file(problem_.mesh->comm(), output_.file);
  const auto clock = problem_.solver->clock();
  file.put("settings", settings_.resolved());
  file.put(time_reached, clock.time);
  file.put(last_step_size, clock.step_size);
  file.put(steps_done, clock.step);
  file.put(outputs_done, outputs_.count());
  file.put(checkpoints_done, checkpoints_.count());
  record.save(file);
  file.put(state, field_part(*problem_.mesh), ReadArray(problem_.solver->state()).values);
  file.commit();
}

void EvolveExperiment::restart(const Continuation& from, EvolveRecord& record) {
  const auto& file = from.checkpoint;
  file.field(state, field_part(*problem_.mesh), WriteArray(problem_.solver->state()).values);
  const double time = file.real(time_reached);
  problem_.solver->restore({time, file.real(last_step_size), file.integer(steps_done)});
  outputs_.restore(file.integer(outputs_done));
  checkpoints_.restore(file.integer(checkpoints_done));
  record.load(file);
  if (from.earlier) record.copy_fields(*from.earlier, from.fields);
  if (frame_.root()) std::cerr << "fluxformer: continuing from " << file.path() << " at t = " << time << '\n';
}

Report EvolveExperiment::run() {
  frame_.begin();
  for (const char* part : {"reference", "solve", "output"}) frame_.add_seconds(part, 0);
  const auto continued = find_continuation(problem_.mesh->comm(), settings_);
  OutputClaim files{.continues_output = continued && continued->continues_output,
                    .bytes = least_output_bytes(output_, problem_),
                    .datasets = ParameterLayout(problem_.parameters->spec).views().size()};
  if (output_.fields) files.side_files = {io::side_car_path(output_.file)};
  auto claim = frame_.claim(files);
  frame_.announce(*this);
  if (!frame_.timed("reference", [&] { return find_reference(); }))
    return frame_.stopped(
        "while searching for the steady state (front.threshold)",
        "nothing was written; start the run again, with --checkpoint.restart=auto if it had begun");
  EvolveRecord record(output_, run_attributes(settings_, context_), std::move(claim), problem_, measurement_);
  if (continued) restart(*continued, record);
  if (problem_.solver->clock().step == 0) record.write_fields(0, problem_.solver->state());

  Progress progress = frame_.progress(problem_.solver_settings.time, "time units");
  Report report;
  std::string status = names::done;
  EvolveEnd end = EvolveEnd::time_reached;
  try {
    frame_.timed("solve", [&] {
      end = problem_.solver->run([&](const Step& step) { return after_step(step, record, progress); });
    });
  } catch (const NumericalFailure& e) {
    status = names::failed;
    report = {ExitCode::numerical, "fluxformer: " + std::string(e.what())};
  }
  progress.finish();
  const auto clock = problem_.solver->clock();
  if (end == EvolveEnd::stopped_by_hook) {
    status = names::interrupted;
    checkpoint(record);
    report =
        frame_.stopped("at t = " + std::to_string(clock.time), "continue with --checkpoint.restart=auto");
  }
  if (report.code == ExitCode::done && end == EvolveEnd::time_reached &&
      problem_.solver_settings.steady_tolerance > 0) {
    status = names::failed;
    report = {ExitCode::numerical, "fluxformer: not steady at t = " + std::to_string(clock.time) +
                                       ": |du/dt| is above evolve.steady; raise evolve.time"};
  }
  if (clock.time != record.last_fields()) record.write_fields(clock.time, problem_.solver->state());
  const auto written = record.finish(status, report.summary, problem_.solver->state(),
                                     problem_.solver->inflow(), frame_.parts());
  if (continued && status == names::done) remove_interrupted(problem_.mesh->comm(), settings_);
  if (report.code == ExitCode::done) {
    std::ostringstream text;
    text << (end == EvolveEnd::steady ? "steady" : "done") << " at t = " << clock.time << " after "
         << clock.step << " steps, " << frame_.seconds() << " s";
    return frame_.done(text.str());
  }
  report.summary += "\nwritten to " + written;
  return report;
}

void describe_evolve(io::Description& description) {
  using namespace evolution;
  io::describe_archive(description);
  description.variables("/", {axes::depth, axes::token, axes::token_x, axes::token_y, axes::stored_depth,
                              axes::time, axes::step, axes::sample, axes::channel, depth_cell, axes::head,
                              axes::query, axes::key, sample_words, axes::feature, sample_features});
  description.variables(names::field, {hidden_state});
  description.attributes(names::in(names::field, hidden_state.name), {names::tokens_x, names::tokens_y});
  description.variables(
      history, {evolution::time, step_size, cfl, wall_time, states::variables::history::norm,
                states::variables::history::rate, states::variables::history::distance,
                states::variables::history::token_variance, states::variables::history::dirichlet_energy,
                states::variables::history::flux});
  description.variables(analysis, {arrival_time, attention::variables::attention_entropy});
  for (const auto* variable : clusters::variables::of_fields::all)
    description.variables(analysis, {*variable});
  description.attributes(analysis, {clusters::variables::temperature, clusters::variables::delta});
  description.variables(evolution::attention, {attention::variables::weights});
  description.variables("/", {evolution::class_index, evolution::word_index});
  description.variables(evolution::prediction, {evolution::class_logits, evolution::word_logits});
  model_file::describe(description);
  io::describe_checkpoint(description);
}

}  // namespace

std::unique_ptr<Experiment> make_evolve_with(const std::vector<MakeTerm>& more_terms,
                                             const Settings& settings, const RunContext& context) {
  return std::make_unique<EvolveExperiment>(settings, context, more_terms);
}

ExperimentEntry evolve_experiment() {
  return {.name = "evolve",
          .family = "evolve",
          .sentence = "solves the PDE of a Transformer in time on the depth x token mesh",
          .cites = "MODEL: docs/model.md; arXiv 2408.09523; arXiv 1906.02762",
          .declare = declare_evolve,
          .describe = describe_evolve,
          .make = [](const Settings& settings, const RunContext& context) {
            return make_evolve_with({}, settings, context);
          }};
}

}  // namespace fluxformer
