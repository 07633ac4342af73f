// `clusters_sphere`: tokens on a sphere of any dimension gather in clusters: attention between all pairs.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <numbers>
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
#include "drivers/common/run_frame.hpp"
#include "drivers/registry.hpp"
#include "drivers/study/study.hpp"
#include "io/axes.hpp"
#include "io/layout.hpp"
#include "operators/layer_norm.hpp"
#include "solvers/flow/flow.hpp"

namespace fluxformer {
namespace {

namespace stored = clusters::variables;
constexpr const char* random_start = "random";

void declare_sphere(Options& options) {
  std::vector<std::string> starts{random_start};
  starts.insert(starts.end(), std::begin(clusters::designs), std::end(clusters::designs));
  options.declare("clusters.start", random_start,
                  "tokens at t = 0: random, or the vertices of an icosahedron (12 tokens, d = 3), of a "
                  "600-cell (120, d = 4), the roots of E8 (240, d = 8), displaced by a harmonic",
                  {.choices = starts});
  options.declare("clusters.tokens", 4096L, "number of random tokens",
                  {.minimum = 1, .maximum = 1e8, .when = When{"clusters.start", random_start}});
  options.declare("clusters.dimension", 3L,
                  "d of the space of the unit sphere of random tokens; on the circle, 2, clusters_circle is "
                  "faster",
                  {.minimum = 2, .maximum = 1024, .when = When{"clusters.start", random_start}});
  options.declare("clusters.degree", 1L,
                  "degree of the harmonic that displaces the vertices, in a random direction",
                  {.minimum = 1, .maximum = 1000, .when = When{"clusters.start", Not{random_start}}});
  options.declare(
      "clusters.amplitude", 1e-3,
      "factor of the harmonic's gradient, 1 at most for degree 1, that displaces the vertices",
      {.unit = "radians", .minimum = -1, .maximum = 1, .when = When{"clusters.start", Not{random_start}}});
  declare_gathering(options, 20);
  options.declare(
      "clusters.leaders", 4096L,
      "tokens that may stand for all others when clusters are counted; a cloud that needs more is "
      "not counted",
      {.minimum = 1, .maximum = 1e5});
  options.declare("clusters.shown", 256L, "tokens whose places are stored", {.minimum = 1, .maximum = 1e6});
  declare_study_run(options, "clusters.h5");
}

class SphereStudy final : public Study {
 public:
  SphereStudy(const Settings& settings, MPI_Comm comm);
  std::string describe() const override;
  static study::Contents contents();
  std::vector<Place> places() const override { return places_of_seeds(gathering_.seeds); }
  std::string unit() const override { return "seeds"; }
  int ranks_of_place() const override { return all_ranks; }
  void begin(StudyRecord& record) override;
  void measure(const Place& place, Results& to) override;
  std::string summary(const Findings& found) const override;

 private:
  /// The tokens at t = 0, `count` of them from `first` on.
  clusters::Tokens start(long seed, Index first, Index count) const;
  /// Measures tokens, `first` the first of this rank's, whose states are `u`. Collective.
  void look(double time, const std::vector<double>& u, Index first, Course& to) const;
  /// The places of the tokens that are shown. Collective.
  std::vector<double> shown_of(const clusters::Tokens& tokens, Index first) const;
  /// The time in which random tokens gather, by linear theory; NaN for others.
  double formation() const { return start_ == random_start ? formation_time(tokens_, rate_) : missing_value; }
  /// The beginning of clusters by linear theory, in words.
  std::string theory() const;

  MPI_Comm comm_;
  std::string start_;
  Gathering gathering_;
  Index tokens_, leaders_, shown_;
  int dimension_, degree_;
  double amplitude_;
  int fastest_;
  double rate_;
};

SphereStudy::SphereStudy(const Settings& settings, MPI_Comm comm)
    : comm_(comm),
      start_(settings.word("clusters.start")),
      gathering_(plan_of_gathering(settings)),
      tokens_(settings.integer("clusters.tokens")),
      leaders_(settings.integer("clusters.leaders")),
      dimension_(settings.count("clusters.dimension")),
      degree_(settings.count("clusters.degree")),
      amplitude_(settings.real("clusters.amplitude")) {
  if (start_ != random_start) {
    const auto vertices = clusters::design(start_);
    tokens_ = vertices.count();
    dimension_ = vertices.dimension;
  }
  // Components are called compact within 3/2 delta of a token, which must not be the whole sphere.
  if (gathering_.delta >= 2 * std::numbers::pi / 3)
    throw BadInput("clusters.delta = " + std::to_string(gathering_.delta) +
                   ": must be below 2 pi / 3 on the sphere");
  shown_ = std::min<Index>(tokens_, settings.integer("clusters.shown"));
  const clusters::UniformTokens uniform{.dimension = dimension_, .beta = gathering_.beta};
  fastest_ = clusters::fastest_degree(uniform);
  rate_ = growth_rate(uniform, fastest_);
  // The stages and vectors of the integrator and of attention; the leaders; what is shown.
  const double mine = 24.0 * static_cast<double>(tokens_) / mpi::size(comm),
               all = 2.0 * static_cast<double>(std::min(leaders_, tokens_)) +
                     2.0 * static_cast<double>(gathering_.times().size()) * static_cast<double>(shown_);
  require_memory(comm, (mine + all) * dimension_ * sizeof(double),
                 "clusters.tokens = " + std::to_string(tokens_));
}

std::string SphereStudy::theory() const {
  std::ostringstream text;
  text << "degree " << fastest_ << " grows fastest, rate " << rate_;
  if (start_ == random_start) text << ", to order one at about t = " << formation();
  return text.str();
}

std::string SphereStudy::describe() const {
  std::ostringstream text;
  text << tokens_ << " tokens (" << start_ << ") on the sphere, d = " << dimension_ << ", beta "
       << gathering_.beta << ", all pairs; " << gathering_.seeds.size()
       << " seed(s), to t = " << gathering_.end << "\nby theory of an even cloud " << theory();
  return text.str();
}

study::Contents SphereStudy::contents() {
  using namespace clusters::variables;
  return {{time, place, power_degree, shown, axes::channel},
          {clusters::variables::start, tokens, dimension, temperature, delta, fastest_harmonic,
           harmonic_rate_theory, formation_theory},
          {},
          {number, components_low, components_high, compact_share, number_2, number_1, energy, dissipation,
           degree_power, length_error, position, mass, formed, evaluations, evaluation_seconds},
          names::in(names::analysis, group)};
}

void SphereStudy::begin(StudyRecord& record) {
  gathering_.begin(record, tokens_);
  record.axis(stored::power_degree, 1, 2);
  record.axis(stored::shown, 0, shown_ - 1);
  record.axis(axes::channel, 0, dimension_ - 1);
  record.note("", stored::start, start_);
  record.note("", stored::dimension, static_cast<long>(dimension_));
  record.note("", stored::fastest_harmonic, static_cast<long>(fastest_));
  record.note("", stored::harmonic_rate_theory, rate_);
  record.note("", stored::formation_theory, formation());
}

clusters::Tokens SphereStudy::start(long seed, Index first, Index count) const {
  const auto key = static_cast<std::uint64_t>(seed);
  if (start_ == random_start) return clusters::random_tokens(first, count, dimension_, key);
  const auto even = clusters::design(start_);
  const auto all = moved(even, clusters::zonal_displacement(even, degree_, key), amplitude_);
  return {dimension_, {all[first], all[first] + count * dimension_}};
}

std::vector<double> SphereStudy::shown_of(const clusters::Tokens& tokens, Index first) const {
  std::vector<double> found(shown_ * dimension_, 0.0);
  const Index mine = std::clamp<Index>(shown_ - first, 0, tokens.count());
  if (mine > 0) std::copy_n(tokens[0], mine * dimension_, found.begin() + first * dimension_);
  sum_over_ranks(found, comm_);
  return found;
}

void SphereStudy::look(double time, const std::vector<double>& u, Index first, Course& to) const {
  clusters::Tokens tokens{dimension_, u};
  project_to_sphere(tokens.x.data(), tokens.count(), dimension_);
  double error = 0;
  for (Index i = 0; i < tokens.count(); ++i) {
    const Index at = i * dimension_;
    double length = 0;  // <u, x> = |u|
    for (Index c = at; c < at + dimension_; ++c) length += u[c] * tokens.x[c];
    error = std::max(error, std::abs(length - 1));
  }
  largest_over_ranks({&error, 1}, comm_);
  const auto found = clusters::clusters_on_sphere(tokens, gathering_.delta, leaders_, comm_);
  const auto known = [](Index count) { return count > 0 ? static_cast<double>(count) : missing_value; };
  const bool counted = found.fewest == found.most && found.compact_share >= gathering_.share;
  to.add_clusters(time, counted ? known(found.most) : missing_value, found.masses);
  to.add(stored::components_low, known(found.fewest));
  to.add(stored::components_high, known(found.most));
  to.add(stored::compact_share, found.compact_share);
  const auto powers = clusters::degree_powers(tokens, comm_);
  to.add(stored::degree_power, {powers[0], powers[1]});
  to.add(stored::length_error, error);
  to.add(stored::position, shown_of(tokens, first));
}

void SphereStudy::measure(const Place& place, Results& to) {
  const long seed = gathering_.seeds[place.along(axes::seed)];
  clusters::SphereAttention attention(tokens_, dimension_, gathering_.beta, comm_);
  double seconds = 0;
  Flow flow(comm_, start(seed, attention.first(), attention.count()).x,
            [&](std::span<const double> u, std::span<double> rate) {
              const Stopwatch watch;
              attention.velocity(u, rate);
              seconds += watch.seconds();
            },
            gathering_.tolerance, {0, 0.1 / (1 + gathering_.beta)});
  Course course;
  for (const double time : gathering_.times()) {
    if (time > 0) flow.advance(time);
    const auto u = flow.state();
    look(time, u, attention.first(), course);
    const auto sums = attention.sums(u);
    course.add(stored::number_2, sums.number_2);
    course.add(stored::number_1, sums.number_1);
    course.add(stored::energy, sums.energy);
    course.add(stored::dissipation, sums.dissipation);
    if (time == gathering_.end) break;
    std::ostringstream note;
    note << "t = " << time << ", N_2 = " << sums.number_2;
    if (!to.go_on(time / gathering_.end, note.str())) return;
  }
  course.put(to);
  to.put(stored::evaluations, {static_cast<double>(flow.evaluations())});
  to.put(stored::evaluation_seconds, {seconds / static_cast<double>(flow.evaluations())});
  to.say(place.name + ": " + course.words());
}

std::string SphereStudy::summary(const Findings& found) const {
  std::ostringstream text;
  for (std::size_t k = 0; k < found.count(); ++k) text << (k > 0 ? "; " : "") << found.of(k).words;
  text << "; by theory " << theory();
  return text.str();
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
