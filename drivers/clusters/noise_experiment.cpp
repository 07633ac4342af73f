// `clusters_noise`: tokens on the circle that attention gathers and noise spreads, while noise rises and falls again.

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <functional>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "analysis/clusters/circle.hpp"
#include "analysis/clusters/cluster_variables.hpp"
#include "analysis/clusters/growth_rates.hpp"
#include "analysis/clusters/noise.hpp"
#include "base/error.hpp"
#include "base/memory.hpp"
#include "base/mpi.hpp"
#include "base/random.hpp"
#include "base/statistics.hpp"
#include "data/dataset.hpp"
#include "drivers/clusters/circle_tokens.hpp"
#include "drivers/clusters/gathering.hpp"
#include "drivers/clusters/normalisation.hpp"
#include "drivers/common/run_frame.hpp"
#include "drivers/registry.hpp"
#include "drivers/study/study.hpp"
#include "io/axes.hpp"
#include "io/layout.hpp"

namespace fluxformer {
namespace {

namespace noisy = clusters::variables::with_noise;
constexpr long blocks_of_time = 16;     // for standard errors
constexpr double largest_spread = 0.1;  // kappa_s h; longer steps are no diffusion
constexpr long most_measurements = 1000000;
/// A measurement.
enum Taken : Index { order_taken, number_2_taken, numbers_taken };

constexpr io::NumbersItem noisy_angles{"angles"}, measured_so_far{.name = "measured", .least = 0};

void declare_noise(Options& options) {
  declare_normalisation(options);
  options.declare("clusters.tokens", 10000L, "number of tokens, at one point at the beginning",
                  {.minimum = 2, .maximum = 2e9});
  options.declare("clusters.beta", 5.0, "inverse temperature of the attention",
                  {.minimum = 1e-6, .maximum = 100});
  options.declare("clusters.noises", std::vector<double>{0.5, 0.7, 0.8, 0.9, 1, 1.1, 1.2},
                  "noises kappa_s, ascending, over that at which an even cloud gathers: they rise, then fall",
                  {.minimum = 0.01, .maximum = 10, .not_empty = true});
  options.declare("clusters.seeds", std::vector<long>{1}, "seeds of the noise",
                  {.minimum = 0, .not_empty = true});
  options.declare("clusters.step", 0.05,
                  "length h of a step; moves the onset by 3/2 h kappa_s, and kappa_s h is at most 0.1",
                  {.unit = "time", .minimum = 0, .maximum = 1, .above_minimum = true});
  options.declare("clusters.every", 1.0, "time between two measurements, a multiple of clusters.step",
                  {.unit = "time", .minimum = 0, .above_minimum = true});
  options.declare("clusters.settle", 100.0,
                  "time at each noise before the first measurement, a multiple of clusters.every",
                  {.unit = "time", .minimum = 0});
  options.declare("clusters.time", 100.0,
                  "time at each noise over which measurements are averaged, a multiple of clusters.every, "
                  "with 16 of them at least",
                  {.unit = "time", .minimum = 0, .above_minimum = true});
  declare_study_run(options, "clusters.h5");
}

/// How often the time of the key `part` goes into that of another one. Throws BadInput.
long intervals_in(const Settings& settings, const std::string& key, const std::string& part) {
  const double ratio = settings.real(key) / settings.real(part);
  if (std::abs(ratio - std::round(ratio)) > 1e-9 * ratio || ratio > most_measurements)
    throw BadInput(key + " = " + std::to_string(settings.real(key)) + ": must be a multiple of " + part +
                   " = " + std::to_string(settings.real(part)) + ", up to the millionth");
  return std::lround(ratio);
}

/// The keys as numbers. Tokens stay at each noise, on the way up and on the way down, for some intervals with a measurement at the end of each.
struct NoisePlan {
  clusters::Weights normalisation;
  Index tokens;
  double beta, critical;
  std::vector<double> ratios;
  std::vector<long> seeds;
  double step;
  long steps;            // of an interval
  long settling, taken;  // intervals at each noise, of which the last ones count

  long intervals_of_stay() const { return settling + taken; }
  long stays() const { return 2 * std::ssize(ratios); }
  long intervals() const { return stays() * intervals_of_stay(); }
  /// The place in `ratios` of the noise of an interval.
  long noise_of(long interval) const {
    const long here = interval / intervals_of_stay();
    return std::min(here, stays() - 1 - here);
  }
};

NoisePlan plan_of_noise(const Settings& settings) {
  NoisePlan plan{.normalisation = normalisation_of(settings),
                 .tokens = settings.integer("clusters.tokens"),
                 .beta = settings.real("clusters.beta"),
                 .critical = 0,
                 .ratios = settings.reals("clusters.noises"),
                 .seeds = settings.integers("clusters.seeds"),
                 .step = settings.real("clusters.step"),
                 .steps = intervals_in(settings, "clusters.every", "clusters.step"),
                 .settling = intervals_in(settings, "clusters.settle", "clusters.every"),
                 .taken = intervals_in(settings, "clusters.time", "clusters.every")};
  plan.critical = clusters::critical_noise({.beta = plan.beta, .weights = plan.normalisation});
  if (std::ranges::adjacent_find(plan.ratios, std::greater_equal()) != plan.ratios.end())
    throw BadInput("clusters.noises: must ascend");
  if (plan.taken < blocks_of_time)
    throw BadInput("clusters.time = " + std::to_string(settings.real("clusters.time")) + ": must be " +
                   std::to_string(blocks_of_time) + " times clusters.every or more");
  const double spread = plan.critical * plan.ratios.back() * plan.step;
  if (spread > largest_spread)
    throw BadInput("clusters.step = " + std::to_string(plan.step) + ": the largest noise times the step is " +
                   std::to_string(spread) + ", above 0.1");
  if (plan.intervals() > most_measurements) throw BadInput("clusters.every: more than 1000000 measurements");
  return plan;
}

class NoiseStudy final : public Study {
 public:
  NoiseStudy(const Settings& settings, MPI_Comm comm);
  std::string describe() const override;
  static study::Contents contents();
  std::vector<Place> places() const override;
  std::string unit() const override { return "seeds"; }
  int ranks_of_place() const override { return all_ranks; }
  void begin(StudyRecord& record) override;
  void measure(const Place& place, Results& to) override;
  bool half_way() const override { return begun_.has_value(); }
  void save(io::CheckpointWriter& file) const override;
  void load(const Place& place, const io::CheckpointReader& file) override;
  std::string summary(const Findings& found) const override;

 private:
  /// A seed on its way: the angles of this rank's tokens, and all measurements so far.
  struct Begun {
    std::vector<double> angles, measured;
    long intervals() const { return std::ssize(measured) / numbers_taken; }
  };
  /// The angles of a seed's tokens at the beginning.
  std::vector<double> point() const {
    return std::vector<double>(data::balanced_shard(plan_.tokens, mpi::rank(comm_), mpi::size(comm_)).count);
  }
  /// Moves the tokens by an interval, and measures them: |M_1|. Collective.
  double advance(const clusters::CircleAttention& attention, const RandomStream& random);
  /// The mean of a number over the time that counts of a stay, the first of which is at the least noise on the way up.
  Estimate mean_of(Taken number, long stay) const;
  void put_means(const Place& place, Results& to) const;

  MPI_Comm comm_;
  NoisePlan plan_;
  clusters::NoisyCluster cluster_;
  std::optional<Begun> begun_;
  std::vector<double> order_up_, order_down_, branch_;  // by theory
};

NoiseStudy::NoiseStudy(const Settings& settings, MPI_Comm comm)
    : comm_(comm), plan_(plan_of_noise(settings)), cluster_(plan_.beta, plan_.normalisation) {
  // Angles, weights, velocities, and what attention takes for a while.
  require_memory(comm, 8.0 * sizeof(double) * static_cast<double>(plan_.tokens) / mpi::size(comm),
                 "clusters.tokens = " + std::to_string(plan_.tokens));
}

std::string NoiseStudy::describe() const {
  std::ostringstream text;
  text << plan_.tokens << " tokens on the circle, " << group_of(plan_.normalisation) << " attention, beta "
       << plan_.beta << "; " << plan_.ratios.size() << " noise(s) from " << plan_.ratios.front() << " to "
       << plan_.ratios.back() << " of the critical one, " << cluster_.critical() << ", and back; "
       << plan_.seeds.size() << " seed(s), " << plan_.intervals() * plan_.steps << " steps of " << plan_.step
       << " each\nby theory clusters live up to " << cluster_.survival() / cluster_.critical()
       << ", and an even cloud down to 1; for steps of this length to "
       << clusters::critical_noise_of_steps(cluster_.critical(), plan_.step) / cluster_.critical();
  return text.str();
}

study::Contents NoiseStudy::contents() {
  using namespace clusters::variables;
  return {{noisy::ratio, noisy::branch_order},
          {tokens, temperature, noisy::critical_noise, noisy::critical_ratio_of_steps, noisy::survival_ratio,
           noisy::equal_ratio, noisy::beta_of_jump, noisy::step, noisy::settle, noisy::averaged},
          {},
          {noisy::order_up, noisy::order_up_error, noisy::order_down, noisy::order_down_error,
           noisy::number_2_up, noisy::number_2_down, noisy::order_up_theory, noisy::order_down_theory,
           noisy::fastest_wave, noisy::branch_ratio},
          names::in(names::analysis, group)};
}

std::vector<Place> NoiseStudy::places() const {
  return places_of_seeds(plan_.seeds, plan_.normalisation);
}

void NoiseStudy::begin(StudyRecord& record) {
  const double critical = cluster_.critical(), interval = plan_.step * static_cast<double>(plan_.steps);
  order_up_.clear(), order_down_.clear(), branch_.clear();
  for (const double ratio : plan_.ratios) {
    order_up_.push_back(cluster_.order(ratio * critical));
    order_down_.push_back(ratio < 1 ? order_up_.back() : 0);
  }
  std::vector<double> orders;
  for (int k = 1; k < 100; ++k) {
    orders.push_back(k / 100.0);
    branch_.push_back(cluster_.at(orders.back()).noise / critical);
  }
  record.seeds(plan_.seeds);
  record.axis(noisy::ratio, plan_.ratios);
  record.axis(noisy::branch_order, orders);
  record.note("", clusters::variables::tokens, static_cast<long>(plan_.tokens));
  record.note("", clusters::variables::temperature, plan_.beta);
  record.note("", noisy::critical_noise, critical);
  record.note("", noisy::critical_ratio_of_steps,
              clusters::critical_noise_of_steps(critical, plan_.step) / critical);
  record.note("", noisy::survival_ratio, cluster_.survival() / critical);
  record.note("", noisy::equal_ratio, cluster_.equal_free_energy() / critical);
  record.note("", noisy::beta_of_jump, clusters::beta_of_jump(2));
  record.note("", noisy::step, plan_.step);
  record.note("", noisy::settle, interval * static_cast<double>(plan_.settling));
  record.note("", noisy::averaged, interval * static_cast<double>(plan_.taken));
}

void NoiseStudy::save(io::CheckpointWriter& file) const {
  file.put(noisy_angles, evenly_shared(plan_.tokens, comm_), begun_->angles.data());
  file.put(measured_so_far, begun_->measured);
}

void NoiseStudy::load(const Place&, const io::CheckpointReader& file) {
  begun_.emplace(Begun{point(), file.rows(measured_so_far, numbers_taken)});
  file.part(noisy_angles, evenly_shared(plan_.tokens, comm_), begun_->angles.data());
  if (begun_->intervals() < 1 || begun_->intervals() >= plan_.intervals())
    throw BadInput(file.called() + ": has measurements of " + std::to_string(begun_->intervals()) + " of " +
                   std::to_string(plan_.intervals()) + " intervals");
}

double NoiseStudy::advance(const clusters::CircleAttention& attention, const RandomStream& random) {
  auto& angles = begun_->angles;
  const long interval = begun_->intervals();
  const auto first = data::balanced_shard(plan_.tokens, mpi::rank(comm_), mpi::size(comm_)).first;
  const double noise = plan_.critical * plan_.ratios[plan_.noise_of(interval)];
  std::vector<double> velocity(angles.size());
  for (long k = 0; k < plan_.steps; ++k) {
    attention.velocity(angles, velocity);
    clusters::take_noisy_step(angles, velocity, {plan_.step, noise}, random.item(interval * plan_.steps + k),
                              first);
  }
  const double order = std::abs(attention.moments(angles, 1).front());
  begun_->measured.insert(begun_->measured.end(), {order, attention.sums(angles).number_2});  // as in Taken
  return order;
}

void NoiseStudy::measure(const Place& place, Results& to) {
  if (!begun_) begun_.emplace(Begun{point(), {}});
  const RandomStream random(static_cast<std::uint64_t>(plan_.seeds[place.along(axes::seed)]),
                            "noise on the circle");
  const clusters::CircleAttention attention(std::vector<double>(begun_->angles.size(), 1.0), plan_.beta, 1,
                                            comm_, plan_.normalisation);
  while (begun_->intervals() < plan_.intervals()) {
    const double ratio = plan_.ratios[plan_.noise_of(begun_->intervals())],
                 order = advance(attention, random);
    if (begun_->intervals() == plan_.intervals()) break;
    std::ostringstream note;
    note << "noise " << ratio << ", |M_1| = " << order;
    const auto done = static_cast<double>(begun_->intervals()) / static_cast<double>(plan_.intervals());
    if (!to.go_on(done, note.str())) return;
  }
  put_means(place, to);
  begun_.reset();
}

Estimate NoiseStudy::mean_of(Taken number, long stay) const {
  std::vector<double> series;
  const long next = (stay + 1) * plan_.intervals_of_stay();
  for (long interval = next - plan_.taken; interval < next; ++interval)
    series.push_back(begun_->measured[interval * numbers_taken + number]);
  return blocked_estimate(series, blocks_of_time);
}

void NoiseStudy::put_means(const Place& place, Results& to) const {
  const Index noises = std::ssize(plan_.ratios);
  std::vector<double> up, up_error, down, down_error, number_up, number_down, fastest;
  for (Index k = 0; k < noises; ++k) {
    const auto rising = mean_of(order_taken, k), falling = mean_of(order_taken, plan_.stays() - 1 - k);
    up.push_back(rising.mean);
    up_error.push_back(rising.standard_error);
    down.push_back(falling.mean);
    down_error.push_back(falling.standard_error);
    number_up.push_back(mean_of(number_2_taken, k).mean);
    number_down.push_back(mean_of(number_2_taken, plan_.stays() - 1 - k).mean);
    fastest.push_back(clusters::fastest_degree(
        {.beta = plan_.beta, .noise = plan_.critical * plan_.ratios[k], .weights = plan_.normalisation}));
  }
  to.put(noisy::order_up, up);
  to.put(noisy::order_up_error, up_error);
  to.put(noisy::order_down, down);
  to.put(noisy::order_down_error, down_error);
  to.put(noisy::number_2_up, number_up);
  to.put(noisy::number_2_down, number_down);
  to.put(noisy::order_up_theory, order_up_);
  to.put(noisy::order_down_theory, order_down_);
  to.put(noisy::fastest_wave, fastest);
  to.put(noisy::branch_ratio, branch_);
  Index widest = 0;
  for (Index k = 1; k < noises; ++k)
    if (up[k] - down[k] > up[widest] - down[widest]) widest = k;
  std::ostringstream words;
  words << place.name << ": the ways up and down differ most at a noise of " << plan_.ratios[widest]
        << ", |M_1| = " << up[widest] << " and " << down[widest];
  to.say(words.str());
}

std::string NoiseStudy::summary(const Findings& found) const {
  std::ostringstream text;
  text << Study::summary(found) << "; by theory clusters live up to "
       << cluster_.survival() / cluster_.critical() << " of the critical noise " << cluster_.critical();
  return text.str();
}

}  // namespace

ExperimentEntry clusters_noise_experiment() {
  return study_entry<NoiseStudy>(
      {.name = "clusters_noise",
       .family = "clusters",
       .sentence =
           "lets noise on tokens on the circle rise and fall, and tells where their cluster melts and "
           "forms",
       .cites = "docs/model.md; arXiv 2312.10794; arXiv 2510.20094",
       .declare = declare_noise});
}

}  // namespace fluxformer
