#include "drivers/evolve/evolve_record.hpp"

#include <algorithm>
#include <cmath>

#include "base/vector_arrays.hpp"
#include "drivers/common/run_attributes.hpp"
#include "drivers/evolve/evolve_attention.hpp"
#include "io/archive_reader.hpp"
#include "io/schema.hpp"
#include "model/model_file.hpp"

namespace fluxformer {
namespace {

constexpr std::size_t scalars = 5;  // step, time, step size, Courant number, wall time
constexpr const char* scalar_names[] = {names::history_time, names::step_size, names::cfl, names::wall_time};

/// The measures of a line, in the order they are stored.
std::vector<std::pair<const char*, const std::vector<double>*>> measures(const states::DepthMeasures& m) {
  return {{names::state_norm, &m.norm},
          {names::rate, &m.rate},
          {names::token_variance, &m.token_variance},
          {names::dirichlet_energy, &m.dirichlet_energy},
          {names::flux, &m.flux},
          {names::distance, &m.distance}};
}

std::string history(const char* name) {
  return names::in(names::history, name);
}

}  // namespace

io::FieldPart field_part(const Mesh& mesh) {
  const auto& line = mesh.token_line();
  return {mesh.total_cells(), mesh.first_cell() - 1, mesh.cells(),        line.tokens_x(),
          line.tokens_y(),    line.block(),          mesh.spec().samples, mesh.spec().width};
}

void ArrivalTimes::update(double time, const std::vector<double>& distance) {
  for (std::size_t i = 0; i < distance.size(); ++i) {
    if (!(distance[i] <= threshold_))
      since_[i] = std::numeric_limits<double>::quiet_NaN();
    else if (std::isnan(since_[i]))
      since_[i] = time;
  }
}

EvolveRecord::EvolveRecord(const Settings& settings, bool overwrite, const RunContext& context,
                           const Mesh& mesh, const Equation& equation, const Parameters& parameters,
                           const Inflow& inflow, states::DepthMeter& meter)
    : settings_(settings),
      mesh_(mesh),
      equation_(equation),
      inflow_(inflow),
      meter_(meter),
      part_(field_part(mesh)),
      selection_{io::FieldSelection::every(settings.count("output.depth_stride"), mesh.total_cells()),
                 {},
                 {},
                 io::FieldSelection::every(settings.count("output.channel_stride"), mesh.spec().width)},
      archive_(mesh.comm(), settings.word("output.file"), overwrite),
      arrival_(static_cast<std::size_t>(mesh.total_cells()), settings.real("front.threshold")),
      fields_(settings.word("output.fields") == "u") {
  describe(context);
  define_axes();
  if (settings.flag("output.model")) write_model(archive_, parameters);
}

void EvolveRecord::describe(const RunContext& context) {
  const auto cites = "MODEL: docs/model.md; arXiv 2408.09523; arXiv 1906.02762";
  for (const auto& [name, value] : run_attributes("evolve", cites, settings_, context))
    archive_.attribute(name, value);
}

void EvolveRecord::define_axes() {
  const auto& line = mesh_.token_line();
  const double h = equation_.spec().depth.spacing();
  const int tokens = line.tokens();
  const auto range = [](int count) {
    std::vector<double> list(static_cast<std::size_t>(count));
    for (std::size_t j = 0; j < list.size(); ++j) list[j] = static_cast<double>(j);
    return list;
  };
  const auto axis = [&](const char* name, std::vector<double> values, bool growing = false,
                        bool whole = false) {
    const auto m = meaning_of(names::root(name));
    archive_.axis({name, std::move(values), m.unit, m.long_name, growing, whole});
  };
  std::vector<double> depth, column, row;
  for (int i = 1; i <= mesh_.total_cells(); ++i) depth.push_back(i * h);
  for (int token = 0; token < tokens; ++token) {
    column.push_back(token % line.tokens_x());
    row.push_back(token / line.tokens_x());
  }
  std::vector<double> channels(selection_.channels.begin(), selection_.channels.end());
  std::vector<double> samples;
  for (const auto index : inflow_.indices(0)) samples.push_back(static_cast<double>(index));

  axis(names::depth, depth);
  axis(names::token, range(tokens), false, true);
  archive_.array(names::root(names::token_x), {static_cast<std::size_t>(tokens)}, column.data(),
                 meaning_of(names::root(names::token_x)), {names::token});
  archive_.array(names::root(names::token_y), {static_cast<std::size_t>(tokens)}, row.data(),
                 meaning_of(names::root(names::token_y)), {names::token});
  axis(names::sample, samples, false, true);
  axis(names::channel, channels, false, true);
  axis(names::time, {}, true);
  axis(names::step, {}, true, true);

  if (fields_) {
    std::string depth_axis = names::depth;
    if (selection_.depths.size() != depth.size()) {
      depth_axis = names::stored_depth;
      std::vector<double> stored;
      stored.reserve(selection_.depths.size());
      for (const int i : selection_.depths) stored.push_back(depth[static_cast<std::size_t>(i)]);
      axis(names::stored_depth, stored);
    }
    archive_.field(names::hidden_state,
                   {names::time, depth_axis, names::token, names::sample, names::channel}, part_, selection_,
                   meaning_of(names::in(names::field, names::hidden_state)),
                   settings_.count("output.compression"));
    io::XdmfChoice shown{names::hidden_state, 0, {}};
    for (std::size_t c = 0; c < std::min<std::size_t>(4, channels.size()); ++c) shown.channels.push_back(c);
    archive_.show(shown);
  }
  for (const char* name : scalar_names)
    archive_.series(history(name), {names::step}, meaning_of(history(name)));
  line_size_ = scalars;
  for (const auto& [name, values] : measures(last_)) {
    if (std::string(name) == names::distance && !meter_.has_reference()) continue;
    archive_.series(history(name), {names::step, names::depth}, meaning_of(history(name)));
    line_size_ += static_cast<std::size_t>(mesh_.total_cells());
  }
}

void EvolveRecord::write_fields(double time, Vec u) {
  archive_.append(names::root(names::time), time);
  if (fields_) archive_.write(names::hidden_state, fields_written_, Reading(u).values);
  ++fields_written_;
  last_fields_ = time;
}

void EvolveRecord::write_history(const Step& step, double courant, double wall_time) {
  last_ = meter_.measure(step.u, step.previous, step.clock.step_size);
  if (meter_.has_reference()) arrival_.update(step.clock.time, last_.distance);
  std::vector<double> line{static_cast<double>(step.clock.step), step.clock.time, step.clock.step_size,
                           courant, wall_time};
  for (const auto& [name, values] : measures(last_)) line.insert(line.end(), values->begin(), values->end());
  append_line(line);
}

void EvolveRecord::append_line(const std::vector<double>& line) {
  lines_.insert(lines_.end(), line.begin(), line.end());
  archive_.append(names::root(names::step), line[0]);
  for (std::size_t k = 0; k + 1 < scalars; ++k) archive_.append(history(scalar_names[k]), line[k + 1]);
  std::size_t at = scalars;
  const auto rows = static_cast<std::size_t>(mesh_.total_cells());
  for (const auto& [name, values] : measures(last_)) {
    if (at >= line.size()) break;  // no reference, no distance
    archive_.append(history(name), std::span(line).subspan(at, rows));
    at += rows;
  }
}

void EvolveRecord::save(io::CheckpointWriter& checkpoint) {
  archive_.flush();
  checkpoint.put("history", lines_);
  checkpoint.put("arrival", arrival_.times());
  checkpoint.put("fields", static_cast<long>(fields_written_));
}

void EvolveRecord::load(const io::CheckpointReader& checkpoint) {
  arrival_.restore(checkpoint.numbers("arrival"));
  const auto lines = checkpoint.numbers("history");
  if (lines.size() % line_size_ != 0)
    throw BadInput(checkpoint.path() + ": its history does not fit this deck (front.threshold, mesh.cells)");
  for (std::size_t at = 0; at < lines.size(); at += line_size_)
    append_line({lines.begin() + static_cast<std::ptrdiff_t>(at),
                 lines.begin() + static_cast<std::ptrdiff_t>(at + line_size_)});
}

void EvolveRecord::copy_fields(const io::ArchiveReader& earlier, long count) {
  const auto times = earlier.array(names::root(names::time)).values;
  const auto path = names::in(names::field, names::hidden_state);
  if (fields_ && !earlier.has(path)) return;
  for (std::size_t k = 0; k < std::min(times.size(), static_cast<std::size_t>(count)); ++k) {
    archive_.append(names::root(names::time), times[k]);
    if (fields_)
      archive_.write_packed(names::hidden_state, k, earlier.packed(path, part_, selection_, k).data());
    ++fields_written_;
    last_fields_ = times[k];
  }
}

void EvolveRecord::finish(const std::string& status, const std::string& message, Vec u,
                          const std::vector<double>& inflow_slab,
                          const std::vector<std::pair<std::string, double>>& seconds) {
  if (meter_.has_reference()) {
    const auto path = names::in(names::evolve, names::arrival_time);
    archive_.array(path, {arrival_.times().size()}, arrival_.times().data(), meaning_of(path),
                   {names::depth});
  }
  if (status == names::done)
    write_attention(archive_, mesh_, equation_, u, inflow_slab, settings_.flag("output.attention"));
  for (const auto& [phase, time] : seconds) archive_.timing(phase, time);
  if (!message.empty()) archive_.attribute(names::message, message);
  archive_.finish(status);
}

}  // namespace fluxformer
