#include "drivers/evolve/evolve_record.hpp"

#include <algorithm>
#include <cmath>

#include "analysis/states/state_variables.hpp"
#include "base/vector_arrays.hpp"
#include "drivers/common/run_attributes.hpp"
#include "drivers/evolve/evolve_attention.hpp"
#include "drivers/evolve/evolve_logits.hpp"
#include "drivers/evolve/evolve_variables.hpp"
#include "io/archive_reader.hpp"
#include "io/layout.hpp"
#include "model/model_file.hpp"
#include "training/stage_parameters.hpp"

namespace fluxformer {
namespace {

constexpr std::size_t scalars = 5;  // step, time, step size, Courant number, wall time
const io::Variable* const scalar_variables[] = {&evolution::time, &evolution::step_size, &evolution::cfl,
                                                &evolution::wall_time};

// Items of a checkpoint that belong to the record. A cell that the front has not reached has no arrival time.
constexpr io::NumbersItem lines_written{.name = "history", .can_be_nan = true},
    arrival_times{.name = "arrival", .can_be_nan = true};

/// The measures of a history line, in storage order.
std::vector<std::pair<const io::Variable*, const std::vector<double>*>> measures(
    const states::DepthResult& m) {
  using namespace states::variables;
  return {{&history::norm, &m.norm},
          {&history::rate, &m.rate},
          {&history::token_variance, &m.token_variance},
          {&history::dirichlet_energy, &m.dirichlet_energy},
          {&history::flux, &m.flux},
          {&history::distance, &m.distance}};
}

}  // namespace

io::FieldPart field_part(const Mesh& mesh) {
  const auto& line = mesh.token_line();
  return {mesh.total_cells(), mesh.first_cell() - 1, mesh.cells(),        line.tokens_x(),
          line.tokens_y(),    line.block(),          mesh.spec().samples, mesh.spec().width};
}

std::uint64_t least_output_bytes(const Settings& settings, const EvolveProblem& problem) {
  const std::uint64_t weights = settings.flag("output.model") ? problem.parameters.layout.size_of_model() : 0;
  if (settings.word("output.fields") != "u" || settings.integer("output.compression") > 0) return 8 * weights;
  const auto& mesh = problem.mesh;
  const auto stored = [&](const char* stride, int size) {
    return io::FieldSelection::every(settings.count(stride), size).size();
  };
  const std::uint64_t state = stored("output.depth_stride", mesh.total_cells()) *
                              static_cast<std::uint64_t>(mesh.token_line().tokens()) *
                              static_cast<std::uint64_t>(mesh.spec().samples) *
                              stored("output.channel_stride", mesh.spec().width);
  // Stored states: the first, the last, and one every `every` between them, but at most one each step.
  const double every = std::max(settings.real("output.every"), problem.solver.step_size());
  const bool known = settings.real("output.every") > 0 && problem.solver.step_size() > 0 &&
                     problem.solver_settings.steady_tolerance == 0;
  const double between = known ? std::ceil(problem.solver_settings.time / every - 1e-6) - 1 : 0;
  return 8 * (weights + state * (2 + static_cast<std::uint64_t>(std::max(0.0, between))));
}

EvolveRecord::EvolveRecord(const Settings& settings, std::unique_ptr<io::PartFile> claim,
                           const RunContext& context, const Mesh& mesh, const Equation& equation,
                           const Parameters& parameters, const Inflow& inflow,
                           states::DepthMeasurement& measurement)
    : settings_(settings),
      mesh_(mesh),
      equation_(equation),
      parameters_(parameters),
      inflow_(inflow),
      measurement_(measurement),
      part_(field_part(mesh)),
      selection_{io::FieldSelection::every(settings.count("output.depth_stride"), mesh.total_cells()),
                 {},
                 {},
                 io::FieldSelection::every(settings.count("output.channel_stride"), mesh.spec().width)},
      archive_(std::move(claim)),
      arrival_(static_cast<std::size_t>(mesh.total_cells()), settings.real("front.threshold")),
      fields_(settings.word("output.fields") == "u") {
  describe(context);
  define_axes();
  if (settings.flag("output.model")) write_weights();
}

void EvolveRecord::describe(const RunContext& context) {
  for (const auto& [name, value] : run_attributes(settings_, context)) archive_.attribute(name, value);
}

void EvolveRecord::write_weights() {
  write_model_attributes(archive_, parameters_.spec);
  const TrainingRanks ranks{mesh_.comm(), mesh_.token_line().comm(), mesh_.depth_line()};
  StageParameters(ranks, parameters_)
      .for_each_stage(parameters_, [&](const auto& views, const double* values) {
        write_model_arrays(archive_, views, values);
      });
}

void EvolveRecord::define_axes() {
  const auto& line = mesh_.token_line();
  const double h = equation_.spec().depth.spacing();
  const int tokens = line.tokens();
  std::vector<double> depth, column, row;
  for (int i = 1; i <= mesh_.total_cells(); ++i) depth.push_back(i * h);
  for (int token = 0; token < tokens; ++token) {
    column.push_back(token % line.tokens_x());
    row.push_back(token / line.tokens_x());
  }
  std::vector<double> channels(selection_.channels.begin(), selection_.channels.end());
  std::vector<double> samples;
  for (const auto index : inflow_.indices(0)) samples.push_back(static_cast<double>(index));

  archive_.axis(axes::depth, depth);
  archive_.axis(axes::token, evolution::indices(static_cast<std::size_t>(tokens)));
  archive_.write("", axes::token_x, column);
  archive_.write("", axes::token_y, row);
  archive_.axis(axes::sample, samples);
  archive_.axis(axes::channel, channels);
  time_ = &archive_.growing_axis(axes::time);
  step_ = &archive_.growing_axis(axes::step);

  if (fields_) {
    auto u = evolution::hidden_state;
    if (selection_.depths.size() != depth.size()) {
      u.axes[1] = axes::stored_depth.name;
      std::vector<double> stored;
      stored.reserve(selection_.depths.size());
      for (const int i : selection_.depths) stored.push_back(depth[i]);
      archive_.axis(axes::stored_depth, stored);
    }
    u_ = &archive_.field(u, part_, selection_, settings_.count("output.compression"));
    std::vector<Index> shown;
    for (Index c = 0; c < std::min(Index{4}, std::ssize(channels)); ++c) shown.push_back(c);
    archive_.show(*u_, 0, shown);
  }
  for (const auto* variable : scalar_variables)
    scalars_.push_back(&archive_.series(evolution::history, *variable));
  line_size_ = scalars;
  for (const auto& [variable, values] : measures(last_)) {
    if (variable == &states::variables::history::distance && !measurement_.has_reference()) continue;
    measures_.push_back(&archive_.series(evolution::history, *variable));
    line_size_ += static_cast<std::size_t>(mesh_.total_cells());
  }
}

void EvolveRecord::write_fields(double time, Vec u) {
  time_->append(time);
  if (fields_) u_->write(fields_written_, ReadArray(u).values);
  ++fields_written_;
  last_fields_ = time;
}

void EvolveRecord::write_history(const Step& step, double courant, double wall_time) {
  last_ = measurement_.measure(step.u, step.previous, step.clock.step_size);
  if (measurement_.has_reference()) arrival_.update(step.clock.time, last_.distance);
  std::vector<double> line{static_cast<double>(step.clock.step), step.clock.time, step.clock.step_size,
                           courant, wall_time};
  for (const auto& [variable, values] : measures(last_))
    line.insert(line.end(), values->begin(), values->end());
  append_line(line);
}

void EvolveRecord::append_line(const std::vector<double>& line) {
  lines_.insert(lines_.end(), line.begin(), line.end());
  step_->append(line[0]);
  for (Index k = 0; k < std::ssize(scalars_); ++k) scalars_[k]->append(line[k + 1]);
  Index at = scalars;
  for (auto* measure : measures_) {
    measure->append(std::span(line).subspan(at, mesh_.total_cells()));
    at += mesh_.total_cells();
  }
}

void EvolveRecord::save(io::CheckpointWriter& checkpoint) {
  archive_.flush();
  checkpoint.put(lines_written, lines_);
  checkpoint.put(arrival_times, arrival_.times());
  checkpoint.put(fields_stored, static_cast<long>(fields_written_));
}

void EvolveRecord::load(const io::CheckpointReader& checkpoint) {
  arrival_.restore(checkpoint.numbers(arrival_times, arrival_.times().size()));
  const auto lines = checkpoint.rows(lines_written, line_size_);
  for (std::size_t at = 0; at < lines.size(); at += line_size_)
    append_line({lines.begin() + at, lines.begin() + static_cast<std::ptrdiff_t>(at + line_size_)});
}

void EvolveRecord::copy_fields(const io::ArchiveReader& earlier, long count) {
  const auto times = earlier.array(names::root(axes::time)).values;
  const auto path = names::in(names::field, evolution::hidden_state.name);
  if (fields_ && !earlier.has(path)) return;
  for (std::size_t k = 0; k < std::min(times.size(), static_cast<std::size_t>(count)); ++k) {
    time_->append(times[k]);
    if (fields_) u_->write_packed(k, earlier.packed(path, part_, selection_, k).data());
    ++fields_written_;
    last_fields_ = times[k];
  }
}

std::string EvolveRecord::finish(const std::string& status, const std::string& message, Vec u,
                                 const std::vector<double>& inflow_slab,
                                 const std::vector<std::pair<std::string, double>>& seconds) {
  if (measurement_.has_reference())
    archive_.write(evolution::analysis, evolution::arrival_time, arrival_.times());
  if (status == names::done)
    write_attention(archive_, mesh_, equation_, u, inflow_slab, settings_.flag("output.attention"));
  if (status == names::done && settings_.flag("output.logits"))
    write_logits(archive_, mesh_, equation_.model().context(), parameters_, u);
  for (const auto& [phase, time] : seconds) archive_.timing(phase, time);
  if (!message.empty()) archive_.attribute(names::message, message);
  return archive_.finish(status);
}

}  // namespace fluxformer
