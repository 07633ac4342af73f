// `clusters_circle`: random tokens on the circle gather in clusters, millions of them: attention by moments.

#include <algorithm>
#include <cmath>
#include <numbers>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "analysis/clusters/circle.hpp"
#include "analysis/clusters/cluster_variables.hpp"
#include "analysis/clusters/growth_rates.hpp"
#include "base/error.hpp"
#include "base/memory.hpp"
#include "base/mpi.hpp"
#include "base/random.hpp"
#include "base/statistics.hpp"
#include "data/dataset.hpp"
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
constexpr Index bins = 180;         // of angles
constexpr std::size_t listed = 16;  // clusters at the end

void declare_circle(Options& options) {
  options.declare("clusters.tokens", 100000L, "number of tokens", {.minimum = 1, .maximum = 2e9});
  options.declare("clusters.beta", 9.0, "inverse temperature of the attention",
                  {.minimum = 0, .maximum = 1e5, .above_minimum = true});
  options.declare("clusters.seeds", std::vector<long>{1}, "seeds of the random tokens at t = 0",
                  {.minimum = 0, .not_empty = true});
  options.declare("clusters.time", 40.0, "end time", {.unit = "time", .minimum = 0, .above_minimum = true});
  options.declare("clusters.every", 0.5, "time between two stored times",
                  {.unit = "time", .minimum = 0, .above_minimum = true});
  options.declare("clusters.delta", 0.0,
                  "angle up to which two tokens belong to the same cluster, in radians, below pi; 0: 0.3 / "
                  "sqrt(beta), but at "
                  "most 1, the kernel being about 1 / sqrt(beta) wide",
                  {.minimum = 0, .maximum = 3.14});
  options.declare(
      "clusters.share", 0.95,
      "share of tokens in compact components, of a diameter up to 3 delta, from which components count as "
      "clusters: an even cloud is one component, too",
      {.minimum = 0.5, .maximum = 1});
  options.declare("clusters.tolerance", 1e-8, "error of a time step, in radians",
                  {.minimum = 1e-13, .maximum = 0.1});
  declare_study_run(options, "clusters.h5");
}

class CircleStudy final : public Study {
 public:
  CircleStudy(const Settings& settings, MPI_Comm comm);
  std::string describe() const override;
  static study::Contents contents();
  std::vector<Place> places() const override;
  std::string unit() const override { return "seeds"; }
  int ranks_of_place() const override { return all_ranks; }
  void begin(StudyRecord& record) override;
  void measure(const Place& place, Results& to) override;
  std::string summary(const Findings& found) const override;

 private:
  /// This rank's share of random tokens.
  std::vector<double> start(long seed) const;
  /// Share of the tokens in each bin of angles. Collective.
  std::vector<double> shares(const std::vector<double>& angles) const;
  std::vector<double> times() const;
  /// The time in which the fastest wave grows from the noise of the tokens to order one, by theory.
  double formation() const { return std::log(static_cast<double>(tokens_)) / (2 * rate_); }
  /// Waves of which moments are stored.
  int modes() const { return 2 * fastest_ + 2; }
  /// The slope of log |M| of the fastest wave over the stored times at which it has left the noise, and is small; NaN without two.
  /// `moments`: [time][mode].
  double wave_rate(const std::vector<double>& moments) const;

  MPI_Comm comm_;
  Index tokens_;
  double beta_, end_, every_, delta_, share_, tolerance_;
  std::vector<long> seeds_;
  int fastest_;
  double rate_;
};

CircleStudy::CircleStudy(const Settings& settings, MPI_Comm comm)
    : comm_(comm),
      tokens_(settings.integer("clusters.tokens")),
      beta_(settings.real("clusters.beta")),
      end_(settings.real("clusters.time")),
      every_(settings.real("clusters.every")),
      delta_(settings.real("clusters.delta")),
      share_(settings.real("clusters.share")),
      tolerance_(settings.real("clusters.tolerance")),
      seeds_(settings.integers("clusters.seeds")),
      fastest_(clusters::fastest_degree({2, beta_})),
      rate_(growth_rate(clusters::UniformTokens{2, beta_}, fastest_)) {
  if (delta_ == 0) delta_ = std::min(1.0, 0.3 / std::sqrt(beta_));
  if (every_ > end_)
    throw BadInput("clusters.every = " + std::to_string(every_) + ": longer than clusters.time");
  if (end_ / every_ > 1e5) throw BadInput("clusters.every: more than 100000 stored times");
  // The stages and vectors of the integrator, and the densities of the tokens.
  require_memory(comm, 16.0 * sizeof(double) * static_cast<double>(tokens_) / mpi::size(comm),
                 "clusters.tokens = " + std::to_string(tokens_));
}

std::vector<double> CircleStudy::times() const {
  std::vector<double> all;
  for (long k = 0; static_cast<double>(k) * every_ < end_ * (1 - 1e-12); ++k)
    all.push_back(static_cast<double>(k) * every_);
  all.push_back(end_);
  return all;
}

std::string CircleStudy::describe() const {
  std::ostringstream text;
  const clusters::CircleAttention attention(tokens_, beta_, 1, comm_);
  text << tokens_ << " random tokens on the circle, beta " << beta_ << ", moments up to " << attention.order()
       << "; " << seeds_.size() << " seed(s), to t = " << end_ << "\nfastest by theory: " << fastest_
       << " wave(s), rate " << rate_ << ", order one at about t = " << formation();
  if (static_cast<double>(tokens_) * delta_ < 10 * turn)
    text << "\nfew tokens for clusters.delta: single ones count as clusters where they are alone";
  return text.str();
}

study::Contents CircleStudy::contents() {
  using namespace clusters::variables;
  return {{time, mode, angle, place},
          {tokens, temperature, delta, fastest_wave, wave_rate_theory, formation_theory, lifetime},
          {},
          {number, components, compact_share, number_2, number_1, energy, dissipation, moment, density, mass,
           formed, clusters::variables::wave_rate, evaluations, evaluation_seconds},
          names::in(names::analysis, group)};
}

std::vector<Place> CircleStudy::places() const {
  std::vector<Place> all;
  for (std::size_t s = 0; s < seeds_.size(); ++s)
    all.push_back({.group = stored::softmax,
                   .name = "seed " + std::to_string(seeds_[s]),
                   .index = {{axes::seed.name, s}}});
  return all;
}

void CircleStudy::begin(StudyRecord& record) {
  record.seeds(seeds_);
  record.axis(stored::time, times());
  record.axis(stored::mode, 1, modes());
  std::vector<double> middles;
  for (Index k = 0; k < bins; ++k) middles.push_back((static_cast<double>(k) + 0.5) / bins);
  record.axis(stored::angle, middles);
  record.axis(stored::place, 1, listed);
  record.note("", stored::tokens, static_cast<long>(tokens_));
  record.note("", stored::temperature, beta_);
  record.note("", stored::delta, delta_);
  record.note("", stored::fastest_wave, static_cast<long>(fastest_));
  record.note("", stored::wave_rate_theory, rate_);
  record.note("", stored::formation_theory, formation());
  record.note("", stored::lifetime, fastest_ > 1 ? clusters::lifetime({fastest_, beta_}) : missing_value);
}

std::vector<double> CircleStudy::start(long seed) const {
  const RandomStream random(static_cast<std::uint64_t>(seed), "tokens on the circle");
  const auto own = data::balanced_shard(tokens_, mpi::rank(comm_), mpi::size(comm_));
  std::vector<double> angles(own.count);
  for (std::size_t j = 0; j < own.count; ++j) angles[j] = turn * random.uniform(own.first + j);
  return angles;
}

std::vector<double> CircleStudy::shares(const std::vector<double>& angles) const {
  std::vector<double> found(bins, 0.0);
  for (const double angle : angles) {
    const double place = angle / turn - std::floor(angle / turn);
    found[std::min(bins - 1, static_cast<Index>(place * bins))] += 1;
  }
  sum_over_ranks(found, comm_);
  for (double& one : found) one /= static_cast<double>(tokens_);
  return found;
}

double CircleStudy::wave_rate(const std::vector<double>& moments) const {
  const auto all = times();
  const double least = 3 / std::sqrt(static_cast<double>(tokens_)), most = 0.03;
  double times_sum = 0, sum = 0, products = 0, squares = 0;
  int count = 0;
  for (std::size_t k = 0; k < all.size(); ++k) {
    const double size = moments[k * modes() + fastest_ - 1];
    if (size >= most) break;
    if (size > least) {
      const double value = std::log(size);
      times_sum += all[k], sum += value, products += all[k] * value, squares += all[k] * all[k];
      ++count;
    }
  }
  if (count < 2) return missing_value;
  return (count * products - times_sum * sum) / (count * squares - times_sum * times_sum);
}

void CircleStudy::measure(const Place& place, Results& to) {
  const long seed = seeds_[place.along(axes::seed)];
  const clusters::CircleAttention attention(tokens_, beta_, 1, comm_);
  double seconds = 0;
  Flow flow(
      comm_, start(seed),
      [&](std::span<const double> angles, std::span<double> rate) {
        const Stopwatch watch;
        attention.velocity(angles, rate);
        seconds += watch.seconds();
      },
      tolerance_, 0.1 / (1 + beta_));
  const auto all = times();
  std::vector<double> number, components, compact, number_2, number_1, energy, dissipation, moments, density,
      masses;
  double formed = missing_value;
  for (const double time : all) {
    if (time > 0) flow.advance(time);
    const auto angles = flow.state();
    const auto found = clusters::clusters_on_circle(angles, delta_, comm_);
    const auto sums = attention.sums(angles);
    const bool clustered = found.compact_share >= share_;
    number.push_back(clustered ? static_cast<double>(found.number) : missing_value);
    components.push_back(static_cast<double>(found.number));
    compact.push_back(found.compact_share);
    number_2.push_back(sums.number_2);
    number_1.push_back(sums.number_1);
    energy.push_back(sums.energy);
    dissipation.push_back(sums.dissipation);
    for (const auto& one : attention.moments(angles, modes())) moments.push_back(std::abs(one));
    const auto now = shares(angles);
    density.insert(density.end(), now.begin(), now.end());
    masses = clustered ? found.masses : std::vector<double>{};
    if (clustered && std::isnan(formed)) formed = time;
    std::ostringstream note;
    note << "t = " << time << ", N_2 = " << sums.number_2;
    if (!to.go_on(time / end_, note.str())) return;
  }
  masses.resize(listed, 0.0);
  to.put(stored::number, number);
  to.put(stored::components, components);
  to.put(stored::compact_share, compact);
  to.put(stored::number_2, number_2);
  to.put(stored::number_1, number_1);
  to.put(stored::energy, energy);
  to.put(stored::dissipation, dissipation);
  to.put(stored::moment, moments);
  to.put(stored::density, density);
  to.put(stored::mass, masses);
  to.put(stored::formed, {formed});
  to.put(stored::wave_rate, {wave_rate(moments)});
  to.put(stored::evaluations, {static_cast<double>(flow.evaluations())});
  to.put(stored::evaluation_seconds, {seconds / static_cast<double>(flow.evaluations())});
  std::ostringstream words;
  words << place.name << ": ";
  if (std::isnan(number.back()))
    words << "no clusters by t = " << end_;
  else
    words << number.back() << (number.back() == 1 ? " cluster" : " clusters") << " at t = " << end_
          << ", the first at t = " << formed;
  to.say(words.str());
}

std::string CircleStudy::summary(const Findings& found) const {
  std::ostringstream text;
  for (std::size_t k = 0; k < found.count(); ++k) text << (k > 0 ? "; " : "") << found.of(k).words;
  text << "; by theory " << fastest_ << " wave(s) grow fastest, to order one at about t = " << formation();
  return text.str();
}

}  // namespace

ExperimentEntry clusters_circle_experiment() {
  return study_entry<CircleStudy>(
      {.name = "clusters_circle",
       .family = "clusters",
       .sentence = "lets random tokens on the circle gather in clusters, and counts them in time",
       .cites = "docs/model.md; arXiv 2312.10794; arXiv 2410.23228",
       .declare = declare_circle});
}

}  // namespace fluxformer
