// `clusters_sphere`: tokens on a sphere of any dimension gather in clusters: attention between all pairs.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <memory>
#include <numbers>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "analysis/clusters/cluster_variables.hpp"
#include "analysis/clusters/evenly_spread.hpp"
#include "analysis/clusters/growth_rates.hpp"
#include "analysis/clusters/leaders.hpp"
#include "analysis/clusters/sphere.hpp"
#include "base/error.hpp"
#include "base/memory.hpp"
#include "base/mpi.hpp"
#include "base/statistics.hpp"
#include "drivers/clusters/gathering.hpp"
#include "drivers/clusters/normalisation.hpp"
#include "drivers/registry.hpp"
#include "drivers/study/study.hpp"
#include "io/axes.hpp"
#include "io/layout.hpp"
#include "operators/layer_norm.hpp"

namespace fluxformer {
namespace {

namespace stored = clusters::variables;
constexpr const char* random_start = "random";

void declare_sphere(Options& options) {
  std::vector<std::string> starts{random_start, file_start};
  starts.insert(starts.end(), std::begin(clusters::designs), std::end(clusters::designs));
  const Condition random = When{"clusters.start", random_start},
                  displaced =
                      When{"clusters.start", Not{random_start}} && When{"clusters.start", Not{file_start}};
  options.declare("clusters.start", random_start,
                  "tokens at t = 0: random, those of a file, or the vertices of an icosahedron (12 tokens, d "
                  "= 3), of a 600-cell (120, d = 4), the roots of E8 (240, d = 8), displaced by a harmonic",
                  {.choices = starts});
  options.declare("clusters.tokens", 4096L, "number of random tokens",
                  {.minimum = 1, .maximum = 1e8, .when = random});
  options.declare("clusters.dimension", 3L,
                  "d of the space of the unit sphere of random tokens; on the circle, 2, clusters_circle is "
                  "faster",
                  {.minimum = 2, .maximum = clusters::most_dimensions, .when = random});
  declare_file_start(options);
  options.declare("clusters.degree", 1L,
                  "degree of the harmonic that displaces the vertices, in a random direction",
                  {.minimum = 1, .maximum = 1000, .when = displaced});
  options.declare("clusters.amplitude", 1e-3,
                  "factor of the harmonic's gradient, 1 at most for degree 1, that displaces the vertices",
                  {.unit = "radians", .minimum = -1, .maximum = 1, .when = displaced});
  declare_gathering(options, 20, When{"clusters.start", Not{file_start}});
  declare_steps_and_counts(options);
  options.declare(
      "clusters.leaders", 4096L,
      "tokens that may stand for all others when clusters are counted; a cloud that needs more is "
      "not counted",
      {.minimum = 1, .maximum = 1e5});
  options.declare("clusters.shown", 256L, "tokens whose places are stored", {.minimum = 1, .maximum = 1e6});
  declare_study_run(options, "clusters.h5");
}

/// Tokens on the sphere on their way, which the ranks share evenly; their numbers are states u with the directions u / |u|.
class SphereTokens final : public Moving {
 public:
  /// Tokens without places yet. Collective.
  SphereTokens(Index tokens, int dimension, const Gathering& plan, MPI_Comm comm)
      : Moving(comm, plan.tolerance),
        attention_(tokens, dimension, plan.beta, comm, plan.normalisation),
        own_(part_of(tokens * dimension, attention_.first() * dimension, attention_.count() * dimension)) {}
  /// This rank's part of all numbers.
  const io::FlatPart& own() const { return own_; }
  /// Begins from a state. Collective.
  void begin_with(const State& at) {
    begin(at, own_,
          [this](std::span<const double> u, std::span<double> rate) { attention_.velocity(u, rate); });
  }
  clusters::SphereAttention& attention() { return attention_; }

 private:
  clusters::SphereAttention attention_;
  io::FlatPart own_;
};

/// All keys as numbers.
struct SpherePlan {
  Gathering gathering;
  std::optional<TokensOfFile> from_file;
  Index tokens;
  int dimension;
  int degree;
  double amplitude;
  Index leaders, shown;

  bool random() const { return gathering.start == random_start; }
};

SpherePlan plan_of_sphere(const Settings& settings, MPI_Comm comm) {
  SpherePlan plan{.gathering = plan_of_gathering(settings),
                  .from_file = tokens_of_file(settings, comm),
                  .tokens = settings.integer("clusters.tokens"),
                  .dimension = settings.count("clusters.dimension"),
                  .degree = settings.count("clusters.degree"),
                  .amplitude = settings.real("clusters.amplitude"),
                  .leaders = settings.integer("clusters.leaders"),
                  .shown = settings.integer("clusters.shown")};
  if (!plan.random()) {
    const auto& start = plan.from_file ? plan.from_file->tokens : clusters::design(plan.gathering.start);
    plan.tokens = start.count();
    plan.dimension = start.dimension;
  }
  plan.shown = std::min(plan.shown, plan.tokens);
  // Components are called compact within 3/2 delta of a token, which must not be the whole sphere.
  if (plan.gathering.delta >= 2 * std::numbers::pi / 3)
    throw BadInput("clusters.delta = " + std::to_string(plan.gathering.delta) +
                   ": must be below 2 pi / 3 on the sphere");
  return plan;
}

std::vector<Course::Column> columns_of(const SpherePlan& plan) {
  return {{stored::number},
          {stored::components_low},
          {stored::components_high},
          {stored::compact_share},
          {stored::number_2},
          {stored::number_1},
          {stored::energy},
          {stored::dissipation},
          {stored::degree_power, 2},
          {stored::length_error},
          {stored::position, plan.shown * plan.dimension},
          {stored::mass, listed_clusters}};
}

class SphereStudy final : public GatheringStudy {
 public:
  SphereStudy(const Settings& settings, MPI_Comm comm) : SphereStudy(plan_of_sphere(settings, comm), comm) {}
  std::string describe() const override;
  static study::Contents contents();
  void begin(StudyRecord& record) override;

 protected:
  std::unique_ptr<Moving> start(long seed) const override;
  std::unique_ptr<Moving> restart(const io::CheckpointReader& file) const override;
  Course::Row look(Moving& moving) const override;
  std::string conclude_seed(const Course& course, const Moving&, Results& to) const override {
    return put_clusters(course, to);
  }
  std::string theory() const override;

 private:
  SphereStudy(const SpherePlan& sphere, MPI_Comm comm);
  std::unique_ptr<SphereTokens> at_rest() const {
    return std::make_unique<SphereTokens>(sphere_.tokens, sphere_.dimension, plan(), comm_);
  }
  /// The tokens at t = 0, `count` of them from `first` on.
  clusters::Tokens tokens_at_start(long seed, Index first, Index count) const;
  /// The places of the tokens that are shown; `first`: the first of this rank's tokens. Collective.
  std::vector<double> shown_of(const clusters::Tokens& tokens, Index first) const;
  /// The time in which random tokens gather, by linear theory; NaN for others.
  double formation() const {
    return sphere_.random() ? formation_time(sphere_.tokens, rate_) : missing_value;
  }

  MPI_Comm comm_;
  SpherePlan sphere_;
  int fastest_;
  double rate_;
};

SphereStudy::SphereStudy(const SpherePlan& sphere, MPI_Comm comm)
    : GatheringStudy(sphere.gathering, sphere.from_file, columns_of(sphere)), comm_(comm), sphere_(sphere) {
  const clusters::UniformTokens uniform{
      .dimension = sphere_.dimension, .beta = plan().beta, .weights = plan().normalisation};
  fastest_ = clusters::fastest_degree(uniform);
  rate_ = growth_rate(uniform, fastest_);
  // The stages and vectors of the integrator and of attention; the leaders, products of channels, tokens of a file.
  const double mine = 24.0 * static_cast<double>(sphere_.tokens) / mpi::size(comm),
               all = 2.0 * static_cast<double>(std::min(sphere_.leaders, sphere_.tokens)) +
                     sphere_.dimension + (sphere_.from_file ? static_cast<double>(sphere_.tokens) : 0);
  require_memory(comm, (mine + all) * sphere_.dimension * sizeof(double) + bytes_of_course(),
                 "clusters.tokens = " + std::to_string(sphere_.tokens));
}

std::string SphereStudy::theory() const {
  std::ostringstream text;
  text << "degree " << fastest_ << " grows fastest, rate " << rate_;
  if (sphere_.random()) text << ", to order one at about t = " << formation();
  return text.str();
}

std::string SphereStudy::describe() const {
  std::ostringstream text;
  text << sphere_.tokens << " tokens (" << plan().start << ") on the sphere, d = " << sphere_.dimension
       << ", " << group_of(plan().normalisation) << " attention, beta " << plan().beta << ", all pairs; "
       << places().size() << " start(s), to t = " << plan().end() << "\nby theory of an even cloud "
       << theory();
  return text.str();
}

study::Contents SphereStudy::contents() {
  using namespace clusters::variables;
  return {{time, place, count, power_degree, shown, axes::channel},
          {clusters::variables::start, tokens, dimension, temperature, delta, fastest_harmonic,
           harmonic_rate_theory, formation_theory},
          {},
          {number, components_low, components_high, compact_share, number_2, number_1, energy, dissipation,
           degree_power, length_error, position, mass, clusters::variables::formed, merged_after, merged_by,
           evaluations, evaluation_seconds},
          names::in(names::analysis, group)};
}

void SphereStudy::begin(StudyRecord& record) {
  GatheringStudy::begin(record);
  record.axis(stored::power_degree, 1, 2);
  record.axis(stored::shown, 0, sphere_.shown - 1);
  record.axis(axes::channel, 0, sphere_.dimension - 1);
  record.note("", stored::start, plan().start);
  record.note("", stored::tokens, static_cast<long>(sphere_.tokens));
  record.note("", stored::dimension, static_cast<long>(sphere_.dimension));
  record.note("", stored::delta, plan().delta);
  record.note("", stored::fastest_harmonic, static_cast<long>(fastest_));
  record.note("", stored::harmonic_rate_theory, rate_);
  record.note("", stored::formation_theory, formation());
}

clusters::Tokens SphereStudy::tokens_at_start(long seed, Index first, Index count) const {
  const auto key = static_cast<std::uint64_t>(seed);
  if (sphere_.random()) return clusters::random_tokens(first, count, sphere_.dimension, key);
  const auto part = [&](const clusters::Tokens& all) {
    return clusters::Tokens{all.dimension, {all[first], all[first] + count * all.dimension}};
  };
  if (sphere_.from_file) return part(sphere_.from_file->tokens);
  const auto even = clusters::design(plan().start);
  return part(moved(even, clusters::zonal_displacement(even, sphere_.degree, key), sphere_.amplitude));
}

std::unique_ptr<Moving> SphereStudy::start(long seed) const {
  auto moving = at_rest();
  const auto& attention = moving->attention();
  moving->begin_with({.numbers = tokens_at_start(seed, attention.first(), attention.count()).x,
                      .clock = {0, plan().first_step()}});
  return moving;
}

std::unique_ptr<Moving> SphereStudy::restart(const io::CheckpointReader& file) const {
  auto moving = at_rest();
  moving->begin_with(Moving::load(file, moving->own()));
  return moving;
}

std::vector<double> SphereStudy::shown_of(const clusters::Tokens& tokens, Index first) const {
  const Index dimension = sphere_.dimension;
  std::vector<double> found(sphere_.shown * dimension, 0.0);
  const Index mine = std::clamp<Index>(sphere_.shown - first, 0, tokens.count());
  if (mine > 0) std::copy_n(tokens[0], mine * dimension, found.begin() + first * dimension);
  sum_over_ranks(found, comm_);
  return found;
}

Course::Row SphereStudy::look(Moving& moving) const {
  auto& attention = dynamic_cast<SphereTokens&>(moving).attention();
  const auto u = moving.numbers();
  clusters::Tokens tokens{sphere_.dimension, u};
  project_to_sphere(tokens.x.data(), tokens.count(), sphere_.dimension);
  double error = 0;
  for (Index i = 0; i < tokens.count(); ++i) {
    const Index at = i * sphere_.dimension;
    double length = 0;  // <u, x> = |u|
    for (Index c = at; c < at + sphere_.dimension; ++c) length += u[c] * tokens.x[c];
    error = std::max(error, std::abs(length - 1));
  }
  largest_over_ranks({&error, 1}, comm_);
  const auto found = clusters::clusters_on_sphere(tokens, plan().delta, sphere_.leaders, comm_);
  const double number = found.fewest == found.most
                            ? plan().number(clusters::known_count(found.most), found.compact_share)
                            : missing_value;
  const auto powers = clusters::degree_powers(tokens, comm_);
  const auto sums = attention.sums(u);
  return {{stored::number, {number}},
          {stored::components_low, {clusters::known_count(found.fewest)}},
          {stored::components_high, {clusters::known_count(found.most)}},
          {stored::compact_share, {found.compact_share}},
          {stored::number_2, {sums.number_2}},
          {stored::number_1, {sums.number_1}},
          {stored::energy, {sums.energy}},
          {stored::dissipation, {sums.dissipation}},
          {stored::degree_power, {powers[0], powers[1]}},
          {stored::length_error, {error}},
          {stored::position, shown_of(tokens, attention.first())},
          {stored::mass, listed_masses(number, found.masses)}};
}

}  // namespace

ExperimentEntry clusters_sphere_experiment() {
  return study_entry<SphereStudy>(
      {.name = "clusters_sphere",
       .family = "clusters",
       .sentence = "lets tokens on a sphere of any dimension gather in clusters, and counts them in time",
       .cites = "docs/model.md; arXiv 2312.10794; arXiv 2410.23228",
       .declare = declare_sphere});
}

}  // namespace fluxformer
