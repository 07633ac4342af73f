#include "drivers/clusters/gathering.hpp"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "analysis/clusters/cluster_variables.hpp"
#include "base/error.hpp"
#include "io/axes.hpp"

namespace fluxformer {
namespace {

namespace stored = clusters::variables;
constexpr std::size_t listed_clusters = 16;

}  // namespace

void declare_steps_and_counts(Options& options) {
  options.declare("clusters.tolerance", 1e-8,
                  "error of a time step, in radians, root mean square over tokens",
                  {.minimum = 1e-13, .maximum = 0.1});
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
}

void declare_gathering(Options& options, double end) {
  options.declare("clusters.beta", 9.0, "inverse temperature of the attention",
                  {.minimum = 0, .maximum = 1e5, .above_minimum = true});
  options.declare("clusters.seeds", std::vector<long>{1}, "seeds of what is random at t = 0",
                  {.minimum = 0, .not_empty = true});
  options.declare("clusters.time", end, "end time", {.unit = "time", .minimum = 0, .above_minimum = true});
  options.declare("clusters.every", 0.5, "time between two stored times",
                  {.unit = "time", .minimum = 0, .above_minimum = true});
  declare_steps_and_counts(options);
}

Gathering plan_of_gathering(const Settings& settings) {
  Gathering found{.beta = settings.real("clusters.beta"),
                  .seeds = settings.integers("clusters.seeds"),
                  .end = settings.real("clusters.time"),
                  .every = settings.real("clusters.every"),
                  .delta = cluster_width(settings),
                  .share = settings.real("clusters.share"),
                  .tolerance = settings.real("clusters.tolerance")};
  if (found.every > found.end)
    throw BadInput("clusters.every = " + std::to_string(found.every) + ": longer than clusters.time");
  if (found.end / found.every > 1e5) throw BadInput("clusters.every: more than 100000 stored times");
  return found;
}

double width_of_kernel(double beta) {
  return std::min(1.0, 0.3 / std::sqrt(beta));
}

double cluster_width(const Settings& settings) {
  const double delta = settings.real("clusters.delta");
  if (delta == 0) return width_of_kernel(settings.real("clusters.beta"));
  if (delta < 1e-6) throw BadInput("clusters.delta: must be 0 or at least 1e-6");
  return delta;
}

double formation_time(Index tokens, double rate) {
  return std::log(static_cast<double>(tokens)) / (2 * rate);
}

std::vector<double> Gathering::times() const {
  std::vector<double> all;
  for (long k = 0; static_cast<double>(k) * every < end * (1 - 1e-12); ++k)
    all.push_back(static_cast<double>(k) * every);
  all.push_back(end);
  return all;
}

std::vector<Place> places_of_seeds(const std::vector<long>& seeds) {
  std::vector<Place> all;
  for (std::size_t s = 0; s < seeds.size(); ++s)
    all.push_back({.group = stored::softmax,
                   .name = "seed " + std::to_string(seeds[s]),
                   .index = {{axes::seed.name, s}}});
  return all;
}

void Gathering::begin(StudyRecord& record, Index tokens) const {
  record.seeds(seeds);
  record.axis(stored::time, times());
  record.axis(stored::place, 1, listed_clusters);
  record.note("", stored::tokens, static_cast<long>(tokens));
  record.note("", stored::temperature, beta);
  record.note("", stored::delta, delta);
}

void Course::add(const io::Variable& variable, const std::vector<double>& numbers) {
  auto found = std::ranges::find(numbers_, variable.name, [](const auto& one) { return one.first.name; });
  if (found == numbers_.end()) found = numbers_.insert(found, {variable, {}});
  found->second.insert(found->second.end(), numbers.begin(), numbers.end());
}

void Course::add_clusters(double time, double number, const std::vector<double>& masses) {
  add(stored::number, number);
  auto listed = std::isnan(number) ? std::vector<double>{} : masses;
  listed.resize(listed_clusters, 0.0);
  add(stored::mass, listed);
  last_ = time;
  clusters_ = number;
  if (!std::isnan(number) && std::isnan(formed_)) formed_ = time;
}

void Course::put(Results& to) const {
  for (const auto& [variable, numbers] : numbers_) to.put(variable, numbers);
  to.put(stored::formed, {formed_});
}

std::string Course::words() const {
  std::ostringstream text;
  if (std::isnan(clusters_))
    text << "no clusters at t = " << last_;
  else
    text << clusters_ << (clusters_ == 1 ? " cluster" : " clusters") << " at t = " << last_
         << ", the first at t = " << formed_;
  return text.str();
}

}  // namespace fluxformer
