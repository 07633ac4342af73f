#include "drivers/evolve/evolve_record.hpp"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "analysis/attention/attention_variables.hpp"
#include "analysis/attention/field_attention.hpp"
#include "analysis/states/state_variables.hpp"
#include "base/error.hpp"
#include "base/memory.hpp"
#include "base/mpi.hpp"
#include "base/vector_arrays.hpp"
#include "data/text/words_of.hpp"
#include "io/archive_reader.hpp"
#include "io/layout.hpp"
#include "model/model_file.hpp"
#include "model/readout.hpp"
#include "model/tasks/word_task.hpp"
#include "training/stage_parameters.hpp"

namespace fluxformer {
namespace {

constexpr std::size_t scalars = 5;  // step, time, step size, Courant number, wall time
const io::Variable* const scalar_variables[] = {&evolution::time, &evolution::step_size, &evolution::cfl,
                                                &evolution::wall_time};

// Items of a checkpoint that belong to the record. A cell that the front has not reached has no arrival time.
constexpr io::NumbersItem lines_written{.name = "history", .can_be_nan = true},
    arrival_times{.name = "arrival", .can_be_nan = true},
    clusters_counted{.name = "clusters", .can_be_nan = true};

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

/// Number of attention weights of one depth cell.
double weights_of_cell(const EvolveProblem& problem) {
  const double n = problem.mesh->token_line().tokens();
  return n * n * problem.mesh->spec().samples * problem.parameters->spec.attention.heads;
}

/// Number of word logits of all tokens, as a double: there may be too many for an integer.
double word_count(const EvolveProblem& problem) {
  return 1.0 * problem.mesh->token_line().tokens() * problem.mesh->spec().samples *
         problem.parameters->spec.vocabulary;
}

/// Stored states: the first, the last, and one every `every` between them, but at most one each step. Those between are counted only where
/// steps and end are fixed beforehand.
double least_stored_states(const EvolveOutput& output, const EvolveProblem& problem) {
  const double step = problem.solver->step_size(), every = std::max(output.every, step);
  const bool known = output.every > 0 && step > 0 && problem.solver_settings.steady_tolerance == 0;
  const double between = known ? std::ceil(problem.solver_settings.time / every - 1e-6) - 1 : 0;
  return 2 + std::max(0.0, between);
}

}  // namespace

void require_storable_attention(const EvolveProblem& problem) {
  const double numbers = weights_of_cell(problem) * problem.mesh->total_cells();
  if (numbers <= std::numeric_limits<int>::max()) return;
  std::ostringstream text;
  text << "output.attention: cells * samples * heads * tokens^2 = " << numbers
       << " weights are too many to gather; reduce inflow.samples or mesh.cells, or leave it out";
  throw BadInput(text.str());
}

void require_storable_logits(const EvolveProblem& problem) {
  const auto& spec = problem.parameters->spec;
  if (spec.classes == 0 && !spec.word_head.present)
    throw BadInput("output.logits: the model has no head, neither of classes nor of words");
  if (!spec.word_head.present) return;
  constexpr double most = 1 << 28;  // 2 GB
  const double words = word_count(problem);
  if (words > most)
    throw BadInput("output.logits: " + std::to_string(static_cast<long long>(words)) +
                   " logits of words are too many to gather; reduce inflow.samples");
  require_memory(problem.mesh->comm(), 2 * sizeof(double) * words, "output.logits and inflow.samples");
}

io::FieldPart field_part(const Mesh& mesh) {
  const auto& line = mesh.token_line();
  return {mesh.total_cells(), mesh.first_cell() - 1, mesh.cells(),        line.tokens_x(),
          line.tokens_y(),    line.block(),          mesh.spec().samples, mesh.spec().width};
}

void require_memory_of_clusters(const EvolveOutput& output, const EvolveProblem& problem) {
  const clusters::FieldClusters measurement(*problem.mesh, problem.slab, *output.counts);
  // Numbers kept for restarts grow by doubling, the old ones beside the new; a run that is continued has as many beside them at most.
  const double kept = 4 * least_stored_states(output, problem) * static_cast<double>(measurement.size());
  require_memory(problem.mesh->comm(), measurement.bytes() + sizeof(double) * kept,
                 "clusters.measure, for the tokens of a sample and for all stored times (output.every)");
}

std::uint64_t least_output_bytes(const EvolveOutput& output, const EvolveProblem& problem) {
  const std::uint64_t weights = output.model ? problem.parameters->layout.size_of_model() : 0;
  if (!output.fields || output.compression > 0) return 8 * weights;
  const auto& mesh = *problem.mesh;
  const auto stored = [](int stride, int size) { return io::FieldSelection::every(stride, size).size(); };
  const std::uint64_t state = stored(output.depth_stride, mesh.total_cells()) *
                              static_cast<std::uint64_t>(mesh.token_line().tokens()) *
                              static_cast<std::uint64_t>(mesh.spec().samples) *
                              stored(output.channel_stride, mesh.spec().width);
  return 8 * (weights + state * static_cast<std::uint64_t>(least_stored_states(output, problem)));
}

EvolveRecord::EvolveRecord(const EvolveOutput& output, const RunAttributes& run,
                           std::unique_ptr<io::PartFile> claim, const EvolveProblem& problem,
                           states::DepthMeasurement& measurement)
    : output_(output),
      problem_(problem),
      mesh_(*problem.mesh),
      measurement_(measurement),
      part_(field_part(mesh_)),
      selection_{io::FieldSelection::every(output.depth_stride, mesh_.total_cells()),
                 {},
                 {},
                 io::FieldSelection::every(output.channel_stride, mesh_.spec().width)},
      archive_(std::move(claim)),
      arrival_(static_cast<std::size_t>(mesh_.total_cells()), output.threshold) {
  for (const auto& [name, value] : run) archive_.attribute(name, value);
  if (output.counts) clusters_.emplace(mesh_, problem.slab, *output.counts);
  define_axes();
  if (output.model) write_weights();
}

void EvolveRecord::write_weights() {
  const auto& parameters = *problem_.parameters;
  write_model_attributes(archive_, parameters.spec);
  const TrainingRanks ranks{mesh_.comm(), mesh_.token_line().comm(), mesh_.depth_line()};
  StageParameters(ranks, parameters).for_each_stage(parameters, [&](const auto& views, const double* values) {
    write_model_arrays(archive_, views, values);
  });
}

void EvolveRecord::define_axes() {
  const auto& line = mesh_.token_line();
  const int tokens = line.tokens();
  std::vector<double> depth, column, row;
  for (int i = 1; i <= mesh_.total_cells(); ++i) depth.push_back(problem_.equation->spec().depth.depth(i));
  for (int token = 0; token < tokens; ++token) {
    column.push_back(token % line.tokens_x());
    row.push_back(token / line.tokens_x());
  }
  std::vector<double> channels(selection_.channels.begin(), selection_.channels.end());
  std::vector<double> samples;
  for (const auto index : problem_.inflow->indices(0)) samples.push_back(static_cast<double>(index));

  archive_.axis(axes::depth, depth);
  archive_.axis(axes::token, evolution::indices(static_cast<std::size_t>(tokens)));
  archive_.write("", axes::token_x, column);
  archive_.write("", axes::token_y, row);
  archive_.axis(axes::sample, samples);
  archive_.axis(axes::channel, channels);
  describe_samples();
  time_ = &archive_.growing_axis(axes::time);
  step_ = &archive_.growing_axis(axes::step);

  if (output_.fields) {
    auto u = evolution::hidden_state;
    if (selection_.depths.size() != depth.size()) {
      u.axes[1] = axes::stored_depth.name;
      std::vector<double> stored;
      stored.reserve(selection_.depths.size());
      for (const int i : selection_.depths) stored.push_back(depth[i]);
      archive_.axis(axes::stored_depth, stored);
    }
    u_ = &archive_.field(u, part_, selection_, output_.compression);
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
  if (!clusters_) return;
  for (const auto* variable : clusters::variables::of_fields::all)
    counts_.push_back(&archive_.series(evolution::analysis, *variable));
  archive_.attribute(clusters::variables::temperature, clusters_->settings().beta, evolution::analysis);
  archive_.attribute(clusters::variables::delta, clusters_->settings().delta, evolution::analysis);
}

void EvolveRecord::describe_samples() {
  const auto* data = problem_.inflow->data();
  if (data == nullptr || problem_.solver_settings.inflow_every > 0) return;  // later blocks hold others
  if (!output_.fields && !output_.attention && !output_.logits && !output_.counts) return;
  const auto members = problem_.inflow->indices(0);
  if (const auto words = data::named_words_of(*data, members); !words.empty()) {
    archive_.words("", evolution::sample_words, words);
    return;
  }
  const Index numbers = Index{mesh_.token_line().tokens()} * data->features();
  std::vector<double> features(std::ssize(members) * numbers);
  for (Index b = 0; b < std::ssize(members); ++b) data->tokens(members[b], features.data() + b * numbers);
  archive_.axis(axes::feature, evolution::indices(data->features()));
  archive_.write("", evolution::sample_features, features);
}

void EvolveRecord::write_fields(double time, Vec u) {
  time_->append(time);
  if (output_.fields) u_->write(fields_written_, ReadArray(u).values);
  if (clusters_) append_counts(clusters_->measure(u));
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

void EvolveRecord::append_counts(std::span<const double> numbers) {
  counted_.insert(counted_.end(), numbers.begin(), numbers.end());
  const std::size_t each = numbers.size() / counts_.size();
  for (std::size_t k = 0; k < counts_.size(); ++k) counts_[k]->append(numbers.subspan(k * each, each));
}

void EvolveRecord::save(io::CheckpointWriter& checkpoint) {
  archive_.flush();
  checkpoint.put(lines_written, lines_);
  checkpoint.put(arrival_times, arrival_.times());
  if (clusters_) checkpoint.put(clusters_counted, counted_);
  checkpoint.put(fields_stored, static_cast<long>(fields_written_));
}

void EvolveRecord::load(const io::CheckpointReader& checkpoint) {
  arrival_.restore(checkpoint.numbers(arrival_times, arrival_.times().size()));
  const auto lines = checkpoint.rows(lines_written, line_size_);
  for (std::size_t at = 0; at < lines.size(); at += line_size_)
    append_line({lines.begin() + at, lines.begin() + static_cast<std::ptrdiff_t>(at + line_size_)});
  if (clusters_) counted_earlier_ = checkpoint.rows(clusters_counted, clusters_->size());
}

void EvolveRecord::copy_fields(const io::ArchiveReader& earlier, long count) {
  const auto times = earlier.array(names::root(axes::time)).values;
  const auto path = names::in(names::field, evolution::hidden_state.name);
  if (output_.fields && !earlier.has(path)) return;
  std::size_t there = std::min(times.size(), static_cast<std::size_t>(count)), row = 0;
  if (clusters_) {
    row = static_cast<std::size_t>(clusters_->size());
    there = std::min(there, counted_earlier_.size() / row);
  }
  for (std::size_t k = 0; k < there; ++k) {
    time_->append(times[k]);
    if (clusters_) append_counts(std::span(counted_earlier_).subspan(k * row, row));
    if (output_.fields) u_->write_packed(k, earlier.packed(path, part_, selection_, k).data());
    ++fields_written_;
    last_fields_ = times[k];
  }
}

void EvolveRecord::write_attention(Vec u, const std::vector<double>& inflow_slab) {
  constexpr std::size_t most_tokens = 1024, most_rows = std::size_t{1} << 25;
  const bool store = output_.attention;
  const auto& spec = problem_.parameters->spec.attention;
  const auto cells = static_cast<std::size_t>(mesh_.total_cells());
  const auto heads = static_cast<std::size_t>(spec.heads);
  const auto n = static_cast<std::size_t>(mesh_.token_line().tokens());
  const bool many = weights_of_cell(problem_) / mesh_.token_line().size() > most_rows;
  // Rows of linear attention are no probabilities: they have no entropy.
  const bool normalised = spec.normalisation != Normalisation::linear;
  if (n < 2 || (!store && (many || n > most_tokens || !normalised))) return;

  const auto found = attention::field_attention(
      mesh_, *problem_.equation, u, inflow_slab,
      store ? attention::StoredAttention::entropy_and_weights : attention::StoredAttention::entropy);
  archive_.axis(axes::head, evolution::indices(heads));
  if (normalised) archive_.write(evolution::analysis, attention::variables::attention_entropy, found.entropy);
  if (!store) return;
  archive_.axis(evolution::depth_cell, evolution::indices(cells));
  archive_.axis(axes::query, evolution::indices(n));
  archive_.axis(axes::key, evolution::indices(n));
  archive_.write(evolution::attention, attention::variables::weights, found.weights);
}

void EvolveRecord::write_logits(Vec u) {
  const auto& parameters = *problem_.parameters;
  const auto& context = problem_.slab;
  const auto& spec = parameters.spec;
  const auto& line = mesh_.token_line();
  const bool last = mesh_.cells() > 0 && mesh_.first_cell() + mesh_.cells() - 1 == mesh_.total_cells();
  const ReadArray state(u);
  const double* const slab = last ? state.values + mesh_.slab_size() * (mesh_.cells() - 1) : nullptr;
  const auto samples = static_cast<std::size_t>(context.samples);
  if (spec.classes > 0) {
    std::vector<double> logits(samples * static_cast<std::size_t>(spec.classes), 0.0);
    if (last) {
      ReadoutTape tape;
      Readout(parameters, context).logits(slab, logits.data(), tape);
      if (line.rank() != 0) std::fill(logits.begin(), logits.end(), 0.0);
    }
    sum_over_ranks(logits, mesh_.comm());
    archive_.axis(evolution::class_index, evolution::indices(static_cast<std::size_t>(spec.classes)));
    archive_.write(evolution::prediction, evolution::class_logits, logits);
  }
  if (!spec.word_head.present) return;
  const auto words = static_cast<std::size_t>(spec.vocabulary), row = samples * words;
  std::vector<double> logits(row * static_cast<std::size_t>(line.tokens()), 0.0);  // [token][sample][word]
  if (last) {
    std::vector<double> mine(static_cast<std::size_t>(context.rows()) * words);
    WordLogits(parameters, Precision::float64)(context.rows(), slab, mine.data());
    for (int local = 0; local < line.block().count(); ++local)
      std::copy_n(
          mine.begin() + static_cast<std::ptrdiff_t>(row * static_cast<std::size_t>(local)), row,
          logits.begin() + static_cast<std::ptrdiff_t>(
                               row * static_cast<std::size_t>(line.global_index(line.rank(), local))));
  }
  sum_over_ranks(logits, mesh_.comm());
  archive_.axis(evolution::word_index, evolution::indices(words));
  archive_.write(evolution::prediction, evolution::word_logits, logits);
}

std::string EvolveRecord::finish(const std::string& status, const std::string& message, Vec u,
                                 const std::vector<double>& inflow_slab,
                                 const std::vector<std::pair<std::string, double>>& seconds) {
  if (measurement_.has_reference())
    archive_.write(evolution::analysis, evolution::arrival_time, arrival_.times());
  if (status == names::done) write_attention(u, inflow_slab);
  if (status == names::done && output_.logits) write_logits(u);
  for (const auto& [phase, time] : seconds) archive_.timing(phase, time);
  if (!message.empty()) archive_.attribute(names::message, message);
  return archive_.finish(status);
}

}  // namespace fluxformer
