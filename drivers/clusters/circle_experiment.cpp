// `clusters_circle`: tokens on the circle gather in clusters, millions of them, or a density of tokens without number.

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "analysis/clusters/circle.hpp"
#include "analysis/clusters/circle_density.hpp"
#include "analysis/clusters/cluster_variables.hpp"
#include "analysis/clusters/growth_rates.hpp"
#include "base/error.hpp"
#include "base/memory.hpp"
#include "base/mpi.hpp"
#include "base/random.hpp"
#include "base/statistics.hpp"
#include "data/dataset.hpp"
#include "drivers/clusters/circle_course.hpp"
#include "drivers/clusters/circle_tokens.hpp"
#include "drivers/clusters/gathering.hpp"
#include "drivers/common/run_frame.hpp"
#include "drivers/registry.hpp"
#include "drivers/study/study.hpp"
#include "io/axes.hpp"
#include "io/layout.hpp"
#include "solvers/flow/flow.hpp"

namespace fluxformer {
namespace {

namespace stored = clusters::variables;
constexpr double turn = 2 * std::numbers::pi;
// Of the steps of a density: in the last coefficients they make a noise that has to stay far below the size at which it is unresolved.
constexpr double tolerance_of_density = 1e-13;
constexpr io::NumbersItem course_so_far{.name = "course", .can_be_nan = true};

void declare_tokens(Options& options) {
  options.declare("clusters.tokens", 100000L, "number of tokens", {.minimum = 1, .maximum = 2e9});
  options.declare(
      "clusters.reduce", false,
      "go on with one weighted token for each cluster as soon as all of them are points, of diameters "
      "up to 1e-9: exact, since equal tokens stay equal, and for times far beyond those of all tokens");
  declare_steps_and_counts(options);
}

void declare_circle(Options& options) {
  options.declare(
      "clusters.solver", "particles",
      "what moves: so many tokens, or the density of tokens without number, by Fourier coefficients",
      {.choices = {"particles", "density"}});
  options.declare(
      "clusters.start", "random",
      "tokens at t = 0: independent, or a ring, the quantiles of the density 1 + amplitude cos(waves "
      "theta), from which a density starts, too",
      {.choices = {"random", "ring"}});
  options.declare_when(When{"clusters.solver", "particles"}, declare_tokens);
  options.declare("clusters.coefficients", 512L,
                  "Fourier coefficients of the density, an even number: waves below half of it",
                  {.minimum = 16, .maximum = 65536, .when = When{"clusters.solver", "density"}});
  options.declare("clusters.beta", 9.0, "inverse temperature of the attention",
                  {.minimum = 0, .maximum = 1e5, .above_minimum = true});
  options.declare("clusters.seeds", std::vector<long>{1}, "seeds of the random tokens at t = 0",
                  {.minimum = 0, .not_empty = true, .when = When{"clusters.start", "random"}});
  options.declare("clusters.waves", 3L, "waves of the ring",
                  {.minimum = 1, .maximum = 1000, .when = When{"clusters.start", "ring"}});
  options.declare(
      "clusters.amplitude", 0.05, "amplitude of the waves of the ring",
      {.minimum = 0, .maximum = 0.9, .above_minimum = true, .when = When{"clusters.start", "ring"}});
  options.declare("clusters.time", 40.0, "end time", {.unit = "time", .minimum = 0, .above_minimum = true});
  options.declare("clusters.every", 0.5,
                  "time between two stored times, the first two if clusters.stretch is not 1",
                  {.unit = "time", .minimum = 0, .above_minimum = true});
  options.declare("clusters.stretch", 1.0,
                  "factor by which each interval between stored times is longer than the one before",
                  {.minimum = 1, .maximum = 2});
  declare_study_run(options, "clusters.h5");
}

/// The keys as numbers.
struct CirclePlan {
  bool density, ring;
  Index tokens;
  int coefficients;
  double beta;
  std::vector<long> seeds;
  int waves;
  double amplitude;
  std::vector<double> times;
  CircleTokens::Law law;
  double share;
};

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

CirclePlan plan_of_circle(const Settings& settings) {
  CirclePlan plan{.density = settings.word("clusters.solver") == "density",
                  .ring = settings.word("clusters.start") == "ring",
                  .tokens = settings.integer("clusters.tokens"),
                  .coefficients = settings.count("clusters.coefficients"),
                  .beta = settings.real("clusters.beta"),
                  .seeds = settings.integers("clusters.seeds"),
                  .waves = settings.count("clusters.waves"),
                  .amplitude = settings.real("clusters.amplitude"),
                  .times = stored_times(settings),
                  .law = {.beta = settings.real("clusters.beta"),
                          .tolerance = settings.real("clusters.tolerance"),
                          .delta = settings.real("clusters.delta"),
                          .reduce = settings.flag("clusters.reduce")},
                  .share = settings.real("clusters.share")};
  plan.law.delta = cluster_width(settings);
  if (plan.law.reduce && plan.law.delta > width_of_kernel(plan.beta))
    throw BadInput(
        "clusters.reduce = true: only tokens that are closer than the kernel is wide draw together, and "
        "clusters.delta = " +
        std::to_string(plan.law.delta) + " is above " + std::to_string(width_of_kernel(plan.beta)));
  if (plan.ring && !plan.density && plan.waves % plan.tokens == 0)
    throw BadInput("clusters.waves = " + std::to_string(plan.waves) + ": no displacement of a ring of " +
                   std::to_string(plan.tokens) + " tokens (clusters.tokens)");
  if (plan.density && !plan.ring)
    throw BadInput(
        "clusters.start = random: clusters.solver = density starts from a ring, random tokens have no "
        "smooth density");
  return plan;
}

class CircleStudy final : public Study {
 public:
  CircleStudy(const Settings& settings, MPI_Comm comm);
  std::string describe() const override;
  static study::Contents contents();
  std::vector<Place> places() const override;
  std::string unit() const override { return "seeds"; }
  int ranks_of_place() const override { return plan_.density ? 1 : all_ranks; }
  void begin(StudyRecord& record) override;
  void measure(const Place& place, Results& to) override;
  bool half_way() const override { return moving_.has_value(); }
  void save(io::CheckpointWriter& file) const override;
  void load(const Place& place, const io::CheckpointReader& file) override;
  std::string summary(const Findings& found) const override;

 private:
  /// This rank's share of the tokens at t = 0.
  CircleTokens::State start(long seed) const;
  double first_step() const { return 0.1 / (1 + plan_.beta); }
  /// The numbers that are stored of the tokens where they are. Collective.
  CircleRow row() const;
  /// Share of the tokens in each bin of angles. Collective.
  std::vector<double> shares(const std::vector<double>& angles) const;
  /// Follows the density, and ends where it is not resolved. On this rank.
  void measure_density(Results& to) const;
  /// Puts the results that tokens and densities have in common.
  void put_course(const CircleCourse& course, Results& to) const;

  /// The waves that are followed, their rate, and the time in which they grow to order one, by theory.
  int followed() const { return plan_.ring ? plan_.waves : fastest_; }
  double rate() const;
  double formation() const;
  /// Waves of which moments are stored.
  int modes() const { return std::max(2 * fastest_ + 2, followed()); }

  MPI_Comm comm_;
  CirclePlan plan_;
  int fastest_;
  // The present seed, if it has begun.
  std::optional<CircleTokens> moving_;
  CircleCourse course_;
};

CircleStudy::CircleStudy(const Settings& settings, MPI_Comm comm)
    : comm_(comm),
      plan_(plan_of_circle(settings)),
      fastest_(clusters::fastest_degree({2, plan_.beta})),
      course_(modes()) {
  const double rows = sizeof(double) * static_cast<double>(course_.width() * std::ssize(plan_.times));
  if (plan_.density) {
    if (plan_.coefficients % 2 != 0 || modes() >= plan_.coefficients / 2)
      throw BadInput("clusters.coefficients = " + std::to_string(plan_.coefficients) +
                     ": must be even, and more than twice the " + std::to_string(modes()) +
                     " waves that are stored");
    require_memory(comm, 3 * rows, "clusters.every");
    return;
  }
  // The stages and vectors of the integrator, the weights and densities of the tokens.
  const double tokens = 18.0 * sizeof(double) * static_cast<double>(plan_.tokens) / mpi::size(comm);
  require_memory(comm, tokens + 3 * rows, "clusters.tokens = " + std::to_string(plan_.tokens));
}

double CircleStudy::rate() const {
  const clusters::CircleKernel kernel(plan_.beta);
  // Waves that the kernel mixes on a ring of few tokens.
  if (!plan_.density && plan_.ring && plan_.tokens <= followed() + kernel.order())
    return growth_rate(clusters::Ring{static_cast<int>(plan_.tokens), plan_.beta}, followed());
  return growth_rate(clusters::UniformTokens{2, plan_.beta}, followed());
}

double CircleStudy::formation() const {
  const double growth =
      plan_.ring ? std::log(2 / plan_.amplitude) : std::log(static_cast<double>(plan_.tokens)) / 2;
  return rate() > 0 ? growth / rate() : missing_value;
}

std::string CircleStudy::describe() const {
  std::ostringstream text;
  if (plan_.density)
    text << "a density of " << plan_.coefficients << " coefficients";
  else
    text << plan_.tokens << (plan_.ring ? "" : " random") << " tokens";
  text << " on the circle, beta " << plan_.beta << ", moments up to "
       << clusters::CircleKernel(plan_.beta).order() << "; ";
  if (plan_.ring)
    text << "a ring with " << plan_.waves << " wave(s) of " << plan_.amplitude;
  else
    text << plan_.seeds.size() << " seed(s)";
  text << ", to t = " << plan_.times.back() << "\nfastest by theory: " << fastest_
       << " wave(s); followed: " << followed() << ", rate " << rate()
       << ", order one at about t = " << formation();
  if (!plan_.density && !plan_.ring && static_cast<double>(plan_.tokens) * plan_.law.delta < 10 * turn)
    text << "\nfew tokens for clusters.delta: single ones count as clusters where they are alone";
  return text.str();
}

study::Contents CircleStudy::contents() {
  using namespace clusters::variables;
  return {{time, mode, angle, place, count},
          {tokens, temperature, delta, fastest_wave, followed_wave, wave_rate_theory, formation_theory},
          {},
          {number, components, compact_share, moving, number_2, number_1, energy, dissipation, moment,
           density, mass, formed, merged_after, merged_by, ring_lifetime, clusters::variables::wave_rate,
           unresolved, evaluations, evaluation_seconds},
          names::in(names::analysis, group)};
}

std::vector<Place> CircleStudy::places() const {
  if (plan_.ring) return {{.group = stored::softmax, .name = "ring", .index = {{axes::seed.name, 0}}}};
  return places_of_seeds(plan_.seeds);
}

void CircleStudy::begin(StudyRecord& record) {
  record.seeds(plan_.seeds);
  record.axis(stored::time, plan_.times);
  record.axis(stored::mode, 1, modes());
  std::vector<double> middles;
  for (Index k = 0; k < CircleCourse::bins; ++k)
    middles.push_back((static_cast<double>(k) + 0.5) / CircleCourse::bins);
  record.axis(stored::angle, middles);
  record.axis(stored::place, 1, CircleCourse::listed);
  record.axis(stored::count, 1, CircleCourse::listed);
  if (!plan_.density) {
    record.note("", stored::tokens, static_cast<long>(plan_.tokens));
    record.note("", stored::delta, plan_.law.delta);
  }
  record.note("", stored::temperature, plan_.beta);
  record.note("", stored::fastest_wave, static_cast<long>(fastest_));
  record.note("", stored::followed_wave, static_cast<long>(followed()));
  record.note("", stored::wave_rate_theory, rate());
  record.note("", stored::formation_theory, formation());
}

CircleTokens::State CircleStudy::start(long seed) const {
  const RandomStream random(static_cast<std::uint64_t>(seed), "tokens on the circle");
  const auto own = data::balanced_shard(plan_.tokens, mpi::rank(comm_), mpi::size(comm_));
  CircleTokens::State at{.angles = std::vector<double>(own.count),
                         .weights = std::vector<double>(own.count, 1.0),
                         .clock = {0, first_step()}};
  for (std::size_t j = 0; j < own.count; ++j) {
    const std::size_t token = own.first + j;
    const double share = (static_cast<double>(token) + 0.5) / static_cast<double>(plan_.tokens);
    at.angles[j] = plan_.ring ? clusters::wave_quantile(share, plan_.waves, plan_.amplitude)
                              : turn * random.uniform(token);
  }
  return at;
}

std::vector<double> CircleStudy::shares(const std::vector<double>& angles) const {
  std::vector<double> found(CircleCourse::bins, 0.0);
  const auto& weights = moving_->attention().weights();
  for (std::size_t j = 0; j < angles.size(); ++j) {
    const double place = angles[j] / turn - std::floor(angles[j] / turn);
    found[std::min(CircleCourse::bins - 1, static_cast<Index>(place * CircleCourse::bins))] += weights[j];
  }
  sum_over_ranks(found, comm_);
  for (double& one : found) one /= moving_->attention().weight();
  return found;
}

CircleRow CircleStudy::row() const {
  const auto angles = moving_->angles();
  const auto& attention = moving_->attention();
  const auto found = moving_->components();
  CircleRow row{.sums = attention.sums(angles),
                .shares = shares(angles),
                .moving = static_cast<double>(attention.tokens()),
                .components = static_cast<double>(found.number()),
                .compact_share = found.compact_share};
  for (const auto& one : attention.moments(angles, modes())) row.moments.push_back(std::abs(one));
  if (found.compact_share >= plan_.share) {
    row.number = row.components;
    for (const auto& one : found.each) row.masses.push_back(one.weight / attention.weight());
  }
  return row;
}

void CircleStudy::save(io::CheckpointWriter& file) const {
  moving_->save(file);
  file.put(course_so_far, course_.rows());
}

void CircleStudy::load(const Place&, const io::CheckpointReader& file) {
  moving_.emplace(plan_.law, CircleTokens::load(file, plan_.tokens, comm_), comm_);
  course_.restore(file.rows(course_so_far, course_.width()));
  const auto rows = course_.count();
  if (rows < 1 || rows > std::ssize(plan_.times) || moving_->time() != plan_.times[rows - 1])
    throw BadInput(file.called() + ": its tokens are not at the last of its stored times");
}

void CircleStudy::measure(const Place& place, Results& to) {
  if (plan_.density) return measure_density(to);
  if (!moving_) moving_.emplace(plan_.law, start(plan_.seeds[place.along(axes::seed)]), comm_);
  while (course_.count() < std::ssize(plan_.times)) {
    const double time = plan_.times[course_.count()];
    moving_->advance(time);
    const auto now = row();
    course_.add(now);
    if (course_.count() == std::ssize(plan_.times)) break;
    std::ostringstream note;
    note << "t = " << time << ", N_2 = " << now.sums.number_2;
    const auto done = static_cast<double>(course_.count()) / static_cast<double>(plan_.times.size());
    if (!to.go_on(done, note.str())) return;
  }
  put_course(course_, to);
  const auto number = course_.of(stored::number);
  for (const auto& variable :
       {stored::number, stored::components, stored::compact_share, stored::moving, stored::mass})
    to.put(variable, course_.of(variable));
  const auto first = std::ranges::find_if(number, [](double one) { return !std::isnan(one); });
  to.put(stored::formed, {first == number.end() ? missing_value : plan_.times[first - number.begin()]});
  const auto merged = merges(plan_.times, number);
  to.put(stored::merged_after, merged.after);
  to.put(stored::merged_by, merged.by);
  const auto evaluations = static_cast<double>(moving_->evaluations());
  to.put(stored::evaluations, {evaluations});
  to.put(stored::evaluation_seconds, {moving_->seconds() / evaluations});
  std::ostringstream words;
  words << place.name << ": ";
  if (std::isnan(number.back()))
    words << "no clusters by t = " << plan_.times.back();
  else
    words << number.back() << (number.back() == 1 ? " cluster" : " clusters")
          << " at t = " << plan_.times.back() << ", the first at t = " << plan_.times[first - number.begin()];
  to.say(words.str());
  moving_.reset();
  course_ = CircleCourse(modes());
}

void CircleStudy::measure_density(Results& to) const {
  clusters::CircleDensity density(plan_.coefficients, plan_.beta);
  double seconds = 0;
  Flow flow(MPI_COMM_SELF, density.wave(plan_.waves, plan_.amplitude),
            [&](std::span<const double> state, std::span<double> rate) {
              const Stopwatch watch;
              density.rate(state, rate);
              seconds += watch.seconds();
            },
            tolerance_of_density, {0, first_step()});
  CircleCourse course(modes());
  double unresolved = missing_value;
  const auto resolved = [&](std::span<const double> state) { return density.resolved(state, plan_.waves); };
  for (const double time : plan_.times) {
    if (!resolved(flow.state()) || !flow.advance(time, resolved)) {
      unresolved = flow.clock().time;
      break;
    }
    const auto state = flow.state();
    course.add({.sums = density.sums(state),
                .moments = density.moments(state, modes()),
                .shares = density.shares(state, CircleCourse::bins)});
  }
  std::ostringstream words;
  words << "the density is ";
  if (std::isnan(unresolved))
    words << "resolved up to t = " << plan_.times.back();
  else
    words << "unresolved from t = " << unresolved
          << " on: points need more clusters.coefficients, for a little longer";
  course.fill(std::ssize(plan_.times));
  put_course(course, to);
  to.put(stored::unresolved, {unresolved});
  to.put(stored::evaluations, {static_cast<double>(flow.evaluations())});
  to.put(stored::evaluation_seconds, {seconds / static_cast<double>(flow.evaluations())});
  to.say(words.str());
}

void CircleStudy::put_course(const CircleCourse& course, Results& to) const {
  for (const auto& variable : {stored::number_2, stored::number_1, stored::energy, stored::dissipation,
                               stored::moment, stored::density})
    to.put(variable, course.of(variable));
  std::vector<double> size;
  const auto moments = course.of(stored::moment);
  for (Index t = 0; t < course.count(); ++t) size.push_back(moments[t * modes() + followed() - 1]);
  const double noise = plan_.ring ? 0 : 3 / std::sqrt(static_cast<double>(plan_.tokens));
  to.put(stored::wave_rate, {rate_of_growth(plan_.times, size, noise, 0.03)});
  std::vector<double> lifetimes{missing_value};
  for (int k = 2; k <= CircleCourse::listed; ++k) lifetimes.push_back(clusters::lifetime({k, plan_.beta}));
  to.put(stored::ring_lifetime, lifetimes);
}

std::string CircleStudy::summary(const Findings& found) const {
  std::ostringstream text;
  for (std::size_t k = 0; k < found.count(); ++k) text << (k > 0 ? "; " : "") << found.of(k).words;
  text << "; by theory " << fastest_ << " wave(s) grow fastest, " << followed()
       << " to order one at about t = " << formation();
  return text.str();
}

}  // namespace

ExperimentEntry clusters_circle_experiment() {
  return study_entry<CircleStudy>(
      {.name = "clusters_circle",
       .family = "clusters",
       .sentence = "lets tokens on the circle gather in clusters, and counts them in time",
       .cites = "docs/model.md; arXiv 2312.10794; arXiv 2410.23228",
       .declare = declare_circle});
}

}  // namespace fluxformer
