#include "drivers/clusters/gathering.hpp"

#include <algorithm>
#include <cmath>
#include <sstream>
#include <utility>

#include "analysis/clusters/cluster_variables.hpp"
#include "analysis/clusters/leaders.hpp"
#include "base/error.hpp"
#include "base/mpi.hpp"
#include "data/make_dataset.hpp"
#include "drivers/clusters/normalisation.hpp"
#include "drivers/common/data_options.hpp"
#include "io/axes.hpp"
#include "io/hdf5/checker.hpp"

namespace fluxformer {
namespace {

namespace stored = clusters::variables;
constexpr io::NumbersItem course_so_far{.name = "course", .can_be_nan = true};

std::vector<double> stored_times(const Settings& settings) {
  const double end = settings.real("clusters.time"), every = settings.real("clusters.every"),
               stretch = settings.real("clusters.stretch");
  if (every > end)
    throw BadInput("clusters.every = " + std::to_string(every) + ": longer than clusters.time");
  std::vector<double> all;
  for (double k = 0;; ++k) {
    const double time = every * (stretch == 1 ? k : std::expm1(k * std::log1p(stretch - 1)) / (stretch - 1));
    if (time >= end * (1 - 1e-12)) break;
    if (all.size() == 100000) throw BadInput("clusters.every: more than 100000 stored times");
    all.push_back(time);
  }
  all.push_back(end);
  return all;
}

/// clusters.delta, or its default, in radians.
double cluster_width(const Settings& settings) {
  const double delta = settings.real("clusters.delta");
  if (delta == 0) return clusters::width_of_kernel(settings.real("clusters.beta"));
  if (delta < 1e-6) throw BadInput("clusters.delta: must be 0 or at least 1e-6");
  return delta;
}

}  // namespace

void declare_steps_and_counts(Options& options) {
  options.declare("clusters.tolerance", 1e-8,
                  "error of a time step, in radians, root mean square over tokens",
                  {.minimum = 1e-13, .maximum = 0.1});
  options.declare(
      "clusters.delta", 0.0,
      "angle up to which two tokens belong to the same cluster, in radians, below pi on the circle "
      "and 2 pi / 3 on the sphere; 0: 0.3 / sqrt(beta), but at most 1, the kernel being about "
      "1 / sqrt(beta) wide",
      {.minimum = 0, .maximum = 3.14});
  options.declare(
      "clusters.share", 0.95,
      "share of tokens in compact components, of a diameter up to 3 delta, on the sphere within 3/2 delta of "
      "their first leader, from which components count as clusters: an even cloud is one component, too",
      {.minimum = 0.5, .maximum = 1});
}

void declare_gathering(Options& options, double end, const Condition& random) {
  options.declare("clusters.beta", 9.0, "inverse temperature of the attention",
                  {.minimum = 0, .maximum = 1e5, .above_minimum = true});
  declare_normalisation(options);
  options.declare("clusters.seeds", std::vector<long>{1}, "seeds of what is random at t = 0",
                  {.minimum = 0, .not_empty = true, .when = random});
  options.declare("clusters.time", end, "end time", {.unit = "time", .minimum = 0, .above_minimum = true});
  options.declare("clusters.every", 0.5,
                  "time between two stored times, the first two if clusters.stretch is not 1",
                  {.unit = "time", .minimum = 0, .above_minimum = true});
  options.declare("clusters.stretch", 1.0,
                  "factor by which each interval between stored times is longer than the one before",
                  {.minimum = 1, .maximum = 2});
}

void declare_file_start(Options& options) {
  const Condition from_file = When{"clusters.start", file_start};
  options.declare("data.file", "",
                  "token file (HDF5) with features: the tokens of one sample, scaled to length 1, move",
                  {.when = from_file, .role = Role::free});
  options.declare("clusters.sample", 0L, "number of the sample in the file, from 0",
                  {.minimum = 0, .when = from_file});
}

Gathering plan_of_gathering(const Settings& settings) {
  Gathering found{.beta = settings.real("clusters.beta"),
                  .normalisation = normalisation_of(settings),
                  .start = settings.word("clusters.start"),
                  .times = stored_times(settings),
                  .delta = cluster_width(settings),
                  .share = settings.real("clusters.share"),
                  .tolerance = settings.real("clusters.tolerance")};
  if (settings.counts("clusters.seeds")) found.seeds = settings.integers("clusters.seeds");
  return found;
}

std::optional<TokensOfFile> tokens_of_file(const Settings& settings, MPI_Comm comm) {
  if (settings.word("clusters.start") != file_start) return {};
  const auto& path = settings.word("data.file");
  const std::string called = "data.file = " + path;
  if (path.empty()) throw BadInput("data.file: clusters.start = file needs a token file");
  const auto sample = static_cast<std::size_t>(settings.integer("clusters.sample"));
  io::read_on_trial_first(comm, path, called);
  TokensOfFile found;
  collectively(comm, [&] {
    const auto data = data::make_dataset({.name = "tokens", .file = path});
    if (data->vocabulary() > 0) throw BadInput(called + ": has words; tokens that move are features");
    if (sample >= data->size())
      throw BadInput("clusters.sample = " + std::to_string(sample) + ": the file has " +
                     std::to_string(data->size()) + " samples, from 0");
    auto& tokens = found.tokens;
    tokens.dimension = data->features();
    if (tokens.dimension < 2 || tokens.dimension > clusters::most_dimensions)
      throw BadInput(called + ": tokens have " + std::to_string(tokens.dimension) +
                     " features; on a sphere they have 2 to " + std::to_string(clusters::most_dimensions));
    tokens.x.resize(Index{data->tokens_x()} * tokens.dimension);
    data->tokens(sample, tokens.x.data());
    tokens.x.resize(Index{data->length(sample)} * tokens.dimension);
    for (Index i = 0; i < tokens.count(); ++i)
      if (!clusters::put_on_sphere(tokens.x.data() + i * tokens.dimension, tokens.dimension))
        throw BadInput(called + ": token " + std::to_string(i) + " is 0, which has no direction");
    found.source = {.called = called, .digest = digest_of_samples(*data, {{sample}})};
  });
  return found;
}

std::vector<Place> places_of_seeds(const std::vector<long>& seeds, clusters::Weights normalisation) {
  std::vector<Place> all;
  for (std::size_t s = 0; s < seeds.size(); ++s)
    all.push_back({.group = group_of(normalisation),
                   .name = "seed " + std::to_string(seeds[s]),
                   .index = {{axes::seed.name, s}}});
  return all;
}

double formation_time(Index tokens, double rate) {
  return std::log(static_cast<double>(tokens)) / (2 * rate);
}

std::vector<double> listed_masses(double number, std::vector<double> masses) {
  if (std::isnan(number)) masses.clear();
  masses.resize(listed_clusters, 0.0);
  return masses;
}

GatheringStudy::GatheringStudy(Gathering plan, const std::optional<TokensOfFile>& from_file,
                               std::vector<Course::Column> columns)
    : plan_(std::move(plan)), course_(std::move(columns)) {
  if (from_file) sources_ = {from_file->source};
}

double GatheringStudy::bytes_of_course() const {
  // One on the way, its copy in a checkpoint and in its results; the results of all seeds, and what is written of them.
  const auto seeds = static_cast<double>(std::max<Index>(1, std::ssize(plan_.seeds)));
  return (3 + 2 * seeds) * sizeof(double) * static_cast<double>(course_.width() * std::ssize(plan_.times));
}

std::vector<Place> GatheringStudy::places() const {
  if (!plan_.seeds.empty()) return places_of_seeds(plan_.seeds, plan_.normalisation);
  return {{.group = group_of(plan_.normalisation), .name = plan_.start, .index = {{axes::seed.name, 0}}}};
}

void GatheringStudy::begin(StudyRecord& record) {
  record.seeds(plan_.seeds.empty() ? std::vector<long>{0} : plan_.seeds);
  record.axis(stored::time, plan_.times);
  record.axis(stored::place, 1, listed_clusters);
  record.axis(stored::count, 1, listed_clusters);
  record.note("", stored::temperature, plan_.beta);
}

void GatheringStudy::save(io::CheckpointWriter& file) const {
  moving_->save(file);
  file.put(course_so_far, course_.rows());
}

void GatheringStudy::load(const Place&, const io::CheckpointReader& file) {
  moving_ = restart(file);
  course_.restore(file.rows(course_so_far, course_.width()));
  const auto rows = course_.count(), all = std::ssize(plan_.times);
  const double time = moving_->time();
  if (rows < 1 || rows > all || time < plan_.times[rows - 1] || (rows < all && time >= plan_.times[rows]) ||
      (rows == all && time > plan_.times.back()))
    throw BadInput(file.called() + ": its tokens are not behind the last of its stored times");
}

void GatheringStudy::measure(const Place& place, Results& to) {
  if (!moving_) moving_ = start(plan_.seeds.empty() ? 0 : plan_.seeds[place.along(axes::seed)]);
  const auto all = std::ssize(plan_.times);
  while (course_.count() < all && !moving_->over()) {
    const double time = plan_.times[course_.count()];
    if (moving_->advance(time)) course_.add(look(*moving_));
    if (course_.count() == all) break;
    std::ostringstream note;
    note << "t = " << moving_->time();
    if (!to.go_on(static_cast<double>(course_.count()) / static_cast<double>(all), note.str())) return;
  }
  course_.fill(all);
  for (const auto& [variable, numbers] : course_.columns()) to.put(variable, course_.of(variable));
  to.put(stored::evaluations, {static_cast<double>(moving_->evaluations())});
  to.put(stored::evaluation_seconds, {moving_->evaluation_seconds()});
  to.say(place.name + ": " + conclude_seed(course_, *moving_, to));
  moving_.reset();
  course_ = Course(course_.columns());
}

std::string GatheringStudy::put_clusters(const Course& course, Results& to) const {
  const auto number = course.of(stored::number);
  to.put(stored::formed, {formed(plan_.times, number)});
  const auto merged = merges(plan_.times, number);
  to.put(stored::merged_after, merged.after);
  to.put(stored::merged_by, merged.by);
  return words_of_clusters(plan_.times, number);
}

std::string GatheringStudy::summary(const Findings& found) const {
  return Study::summary(found) + "; by theory " + theory();
}

}  // namespace fluxformer
