// `clusters_circle`: tokens on the circle gather in clusters, millions of them, or a density of infinitely many tokens.

#include <algorithm>
#include <cmath>
#include <memory>
#include <numbers>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "analysis/clusters/circle.hpp"
#include "analysis/clusters/cluster_variables.hpp"
#include "analysis/clusters/growth_rates.hpp"
#include "analysis/clusters/leaders.hpp"
#include "base/error.hpp"
#include "base/memory.hpp"
#include "base/mpi.hpp"
#include "base/random.hpp"
#include "data/dataset.hpp"
#include "drivers/clusters/circle_tokens.hpp"
#include "drivers/clusters/gathering.hpp"
#include "drivers/clusters/moving_density.hpp"
#include "drivers/clusters/normalisation.hpp"
#include "drivers/registry.hpp"
#include "io/layout.hpp"

namespace fluxformer {
namespace {

namespace stored = clusters::variables;
constexpr double turn = 2 * std::numbers::pi;
constexpr int bins_of_angles = 180;  // of angles

void declare_tokens(Options& options) {
  options.declare("clusters.tokens", 100000L, "number of tokens",
                  {.minimum = 1, .maximum = 2e9, .when = When{"clusters.start", Not{file_start}}});
  options.declare(
      "clusters.reduce", false,
      "go on with one weighted token for each cluster as soon as all of them are points, of diameters "
      "up to 1e-9: exact, since equal tokens stay equal, and for times far beyond those of all tokens");
  declare_steps_and_counts(options);
}

void declare_circle(Options& options) {
  options.declare(
      "clusters.solver", "particles",
      "what moves: so many tokens, or the density of infinitely many tokens, by Fourier coefficients",
      {.choices = {"particles", "density"}});
  options.declare(
      "clusters.start", "random",
      "tokens at t = 0: independent, or a ring, the quantiles of the density 1 + amplitude cos(waves "
      "theta), from which a density starts, too, or those of a file",
      {.choices = {"random", "ring", file_start}});
  declare_file_start(options);
  options.declare_when(When{"clusters.solver", "particles"}, declare_tokens);
  options.declare("clusters.coefficients", 512L,
                  "Fourier coefficients of the density, an even number: waves below half of it",
                  {.minimum = 16, .maximum = 65536, .when = When{"clusters.solver", "density"}});
  options.declare("clusters.waves", 3L, "waves of the ring",
                  {.minimum = 1, .maximum = 1000, .when = When{"clusters.start", "ring"}});
  options.declare(
      "clusters.amplitude", 0.05, "amplitude of the waves of the ring",
      {.minimum = 0, .maximum = 0.9, .above_minimum = true, .when = When{"clusters.start", "ring"}});
  declare_gathering(options, 40, When{"clusters.start", "random"});
  declare_study_run(options, "clusters.h5");
}

/// All keys as numbers.
struct CirclePlan {
  Gathering gathering;
  std::optional<TokensOfFile> from_file;
  bool density, ring;
  Index tokens;
  CircleTokens::Law law;
  MovingDensity::Plan wave;  // of the density, or of the ring
  int fastest;               // waves, by theory

  /// The waves that are followed, and those of which moments are stored.
  int followed() const { return ring ? wave.waves : fastest; }
  int modes() const { return std::max(2 * fastest + 2, followed()); }
};

void require_what_can_be(const CirclePlan& plan) {
  const double width = clusters::width_of_kernel(plan.gathering.beta);
  if (plan.law.reduce && plan.law.delta > width)
    throw BadInput(
        "clusters.reduce = true: only tokens that are closer than the kernel is wide draw together, and "
        "clusters.delta = " +
        std::to_string(plan.law.delta) + " is above " + std::to_string(width));
  if (plan.ring && !plan.density && plan.wave.waves % plan.tokens == 0)
    throw BadInput("clusters.waves = " + std::to_string(plan.wave.waves) + ": no displacement of a ring of " +
                   std::to_string(plan.tokens) + " tokens (clusters.tokens)");
  if (plan.density && !plan.ring)
    throw BadInput("clusters.start = " + plan.gathering.start +
                   ": clusters.solver = density starts from a ring, single tokens have no smooth density");
  if (plan.density && (plan.wave.coefficients % 2 != 0 || plan.modes() >= plan.wave.coefficients / 2))
    throw BadInput("clusters.coefficients = " + std::to_string(plan.wave.coefficients) +
                   ": must be even, and more than twice the " + std::to_string(plan.modes()) +
                   " waves that are stored");
  if (plan.from_file && plan.from_file->tokens.dimension != 2)
    throw BadInput(plan.from_file->source.called + ": tokens on the circle have 2 features, not " +
                   std::to_string(plan.from_file->tokens.dimension) + " (clusters_sphere takes any number)");
}

CirclePlan plan_of_circle(const Settings& settings, MPI_Comm comm) {
  const auto gathering = plan_of_gathering(settings);
  const auto from_file = tokens_of_file(settings, comm);
  CirclePlan plan{
      .gathering = gathering,
      .from_file = from_file,
      .density = settings.word("clusters.solver") == "density",
      .ring = gathering.start == "ring",
      .tokens = from_file ? from_file->tokens.count() : settings.integer("clusters.tokens"),
      .law = {.beta = gathering.beta,
              .tolerance = gathering.tolerance,
              .delta = gathering.delta,
              .reduce = settings.flag("clusters.reduce"),
              .normalisation = gathering.normalisation},
      .wave = {.coefficients = settings.count("clusters.coefficients"),
               .beta = gathering.beta,
               .normalisation = gathering.normalisation,
               .waves = settings.count("clusters.waves"),
               .amplitude = settings.real("clusters.amplitude")},
      .fastest = clusters::fastest_degree({.beta = gathering.beta, .weights = gathering.normalisation})};
  require_what_can_be(plan);
  return plan;
}

std::vector<Course::Column> columns_of(const CirclePlan& plan) {
  std::vector<Course::Column> all{{stored::number_2},
                                  {stored::number_1},
                                  {stored::energy},
                                  {stored::dissipation},
                                  {stored::moment, plan.modes()},
                                  {stored::density, bins_of_angles}};
  if (!plan.density)
    all.insert(all.end(), {{stored::number},
                           {stored::components},
                           {stored::compact_share},
                           {stored::moving},
                           {stored::mass, listed_clusters}});
  return all;
}

class CircleStudy final : public GatheringStudy {
 public:
  CircleStudy(const Settings& settings, MPI_Comm comm) : CircleStudy(plan_of_circle(settings, comm), comm) {}
  std::string describe() const override;
  static study::Contents contents();
  void begin(StudyRecord& record) override;

 protected:
  std::unique_ptr<Moving> start(long seed) const override;
  std::unique_ptr<Moving> restart(const io::CheckpointReader& file) const override;
  Course::Row look(Moving& moving) const override;
  std::string conclude_seed(const Course& course, const Moving& moving, Results& to) const override;
  std::string theory() const override;

 private:
  CircleStudy(const CirclePlan& circle, MPI_Comm comm);
  /// The row of tokens. Collective.
  Course::Row look_at(const CircleTokens& tokens) const;
  /// Share of the tokens in each bin of angles. Collective.
  std::vector<double> shares(const CircleTokens& tokens, const std::vector<double>& angles) const;

  /// The rate of the waves that are followed, and the time in which they grow to order one, by theory.
  double rate() const;
  double formation() const;

  MPI_Comm comm_;
  CirclePlan circle_;
};

CircleStudy::CircleStudy(const CirclePlan& circle, MPI_Comm comm)
    : GatheringStudy(circle.gathering, circle.from_file, columns_of(circle)), comm_(comm), circle_(circle) {
  // The stages and vectors of the integrator, the weights and densities of the tokens.
  const double tokens =
      circle_.density ? 0 : 18.0 * sizeof(double) * static_cast<double>(circle_.tokens) / mpi::size(comm);
  require_memory(comm, tokens + bytes_of_course(),
                 circle_.density ? "clusters.every" : "clusters.tokens = " + std::to_string(circle_.tokens));
}

double CircleStudy::rate() const {
  const double beta = plan().beta;
  // Waves that the kernel mixes on a ring of few tokens.
  if (!circle_.density && circle_.ring &&
      circle_.tokens <= circle_.followed() + clusters::CircleKernel(beta).order())
    return growth_rate(clusters::Ring{static_cast<int>(circle_.tokens), beta, plan().normalisation},
                       circle_.followed());
  return growth_rate(clusters::UniformTokens{.beta = beta, .weights = plan().normalisation},
                     circle_.followed());
}

double CircleStudy::formation() const {
  if (circle_.from_file || rate() <= 0) return missing_value;
  return circle_.ring ? std::log(2 / circle_.wave.amplitude) / rate()
                      : formation_time(circle_.tokens, rate());
}

std::string CircleStudy::theory() const {
  std::ostringstream text;
  text << circle_.fastest << " wave(s) grow fastest; followed: " << circle_.followed() << ", rate " << rate();
  if (!std::isnan(formation())) text << ", to order one at about t = " << formation();
  return text.str();
}

std::string CircleStudy::describe() const {
  std::ostringstream text;
  if (circle_.density)
    text << "a density of " << circle_.wave.coefficients << " coefficients";
  else
    text << circle_.tokens << (circle_.ring || circle_.from_file ? "" : " random") << " tokens";
  text << " on the circle, " << group_of(plan().normalisation) << " attention, beta " << plan().beta
       << ", moments up to " << clusters::CircleKernel(plan().beta).order() << "; ";
  if (circle_.ring)
    text << "a ring with " << circle_.wave.waves << " wave(s) of " << circle_.wave.amplitude;
  else if (circle_.from_file)
    text << circle_.from_file->source.called;
  else
    text << plan().seeds.size() << " seed(s)";
  text << ", to t = " << plan().end() << "\nby theory " << theory();
  if (!circle_.density && !circle_.ring &&
      static_cast<double>(circle_.tokens) * circle_.law.delta < 10 * turn)
    text << "\nfew tokens for clusters.delta: single ones count as clusters where they are alone";
  return text.str();
}

study::Contents CircleStudy::contents() {
  using namespace clusters::variables;
  return {{time, mode, angle, place, count},
          {tokens, temperature, delta, fastest_wave, followed_wave, wave_rate_theory, formation_theory},
          {},
          {number, components, compact_share, moving, number_2, number_1, energy, dissipation, moment,
           density, mass, clusters::variables::formed, merged_after, merged_by, ring_lifetime,
           clusters::variables::wave_rate, unresolved, evaluations, evaluation_seconds},
          names::in(names::analysis, group)};
}

void CircleStudy::begin(StudyRecord& record) {
  GatheringStudy::begin(record);
  record.axis(stored::mode, 1, circle_.modes());
  std::vector<double> middles(bins_of_angles);
  for (int k = 0; k < bins_of_angles; ++k) middles[k] = (k + 0.5) / bins_of_angles;
  record.axis(stored::angle, middles);
  if (!circle_.density) {
    record.note("", stored::tokens, static_cast<long>(circle_.tokens));
    record.note("", stored::delta, plan().delta);
  }
  record.note("", stored::fastest_wave, static_cast<long>(circle_.fastest));
  record.note("", stored::followed_wave, static_cast<long>(circle_.followed()));
  record.note("", stored::wave_rate_theory, rate());
  record.note("", stored::formation_theory, formation());
}

std::unique_ptr<Moving> CircleStudy::start(long seed) const {
  if (circle_.density) return std::make_unique<MovingDensity>(circle_.wave, plan().first_step(), comm_);
  const RandomStream random(static_cast<std::uint64_t>(seed), "tokens on the circle");
  const auto own = data::balanced_shard(circle_.tokens, mpi::rank(comm_), mpi::size(comm_));
  Moving::State at{.numbers = std::vector<double>(own.count), .clock = {0, plan().first_step()}};
  for (std::size_t j = 0; j < own.count; ++j) {
    const std::size_t token = own.first + j;
    if (circle_.from_file) {
      const double* x = circle_.from_file->tokens[static_cast<Index>(token)];
      at.numbers[j] = std::atan2(x[1], x[0]);
      continue;
    }
    const double share = (static_cast<double>(token) + 0.5) / static_cast<double>(circle_.tokens);
    at.numbers[j] = circle_.ring ? clusters::wave_quantile(share, circle_.wave.waves, circle_.wave.amplitude)
                                 : turn * random.uniform(token);
  }
  return std::make_unique<CircleTokens>(circle_.law, at, std::vector<double>(own.count, 1.0), comm_);
}

std::unique_ptr<Moving> CircleStudy::restart(const io::CheckpointReader& file) const {
  if (circle_.density) return std::make_unique<MovingDensity>(circle_.wave, file, comm_);
  return CircleTokens::load(circle_.law, file, circle_.tokens, comm_);
}

std::vector<double> CircleStudy::shares(const CircleTokens& tokens, const std::vector<double>& angles) const {
  std::vector<double> found(bins_of_angles, 0.0);
  const auto& attention = tokens.attention();
  for (std::size_t j = 0; j < angles.size(); ++j) {
    const double place = angles[j] / turn - std::floor(angles[j] / turn);
    found[std::min(bins_of_angles - 1, static_cast<int>(place * bins_of_angles))] += attention.weights()[j];
  }
  sum_over_ranks(found, comm_);
  for (double& one : found) one /= attention.weight();
  return found;
}

Course::Row row_of(const clusters::SoftNumbers& sums, std::vector<double> moments,
                   std::vector<double> shares) {
  return {{stored::number_2, {sums.number_2}},  {stored::number_1, {sums.number_1}},
          {stored::energy, {sums.energy}},      {stored::dissipation, {sums.dissipation}},
          {stored::moment, std::move(moments)}, {stored::density, std::move(shares)}};
}

Course::Row CircleStudy::look_at(const CircleTokens& tokens) const {
  const auto angles = tokens.numbers();
  const auto& attention = tokens.attention();
  std::vector<double> moments, masses;
  for (const auto& one : attention.moments(angles, circle_.modes())) moments.push_back(std::abs(one));
  auto row = row_of(attention.sums(angles), std::move(moments), shares(tokens, angles));
  const auto found = tokens.components();
  for (const auto& one : found.each) masses.push_back(one.weight / attention.weight());
  const auto components = static_cast<double>(found.number());
  const double number = plan().number(components, found.compact_share);
  row.insert(row.end(), {{stored::number, {number}},
                         {stored::components, {components}},
                         {stored::compact_share, {found.compact_share}},
                         {stored::moving, {static_cast<double>(attention.tokens())}},
                         {stored::mass, listed_masses(number, std::move(masses))}});
  return row;
}

Course::Row CircleStudy::look(Moving& moving) const {
  if (!circle_.density) return look_at(dynamic_cast<const CircleTokens&>(moving));
  auto found = dynamic_cast<MovingDensity&>(moving).look(circle_.modes(), bins_of_angles);
  return row_of(found.sums, std::move(found.moments), std::move(found.shares));
}

std::string CircleStudy::conclude_seed(const Course& course, const Moving& moving, Results& to) const {
  const auto& times = plan().times;
  std::vector<double> size;
  const auto moments = course.of(stored::moment);
  for (Index t = 0; t < course.count(); ++t)
    size.push_back(moments[t * circle_.modes() + circle_.followed() - 1]);
  const double noise =
      circle_.ring || circle_.from_file ? 0 : 3 / std::sqrt(static_cast<double>(circle_.tokens));
  to.put(stored::wave_rate, {rate_of_growth(times, size, noise, 0.03)});
  std::vector<double> lifetimes{missing_value};
  for (int k = 2; k <= listed_clusters; ++k)
    lifetimes.push_back(clusters::lifetime({k, plan().beta, plan().normalisation}));
  to.put(stored::ring_lifetime, lifetimes);
  if (!circle_.density) return put_clusters(course, to);
  to.put(stored::unresolved, {moving.over() ? moving.time() : missing_value});
  std::ostringstream words;
  words << "the density is ";
  if (moving.over())
    words << "unresolved from t = " << moving.time()
          << " on: points need more clusters.coefficients, for a little longer";
  else
    words << "resolved up to t = " << times.back();
  return words.str();
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
