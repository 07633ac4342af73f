// `clusters_growth`: how fast small displacements of evenly spread tokens grow, the beginning of clusters: attention of the program beside
// closed forms.

#include <algorithm>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include "analysis/clusters/cluster_variables.hpp"
#include "analysis/clusters/evenly_spread.hpp"
#include "analysis/clusters/growth_rates.hpp"
#include "base/error.hpp"
#include "base/statistics.hpp"
#include "drivers/clusters/sphere_layer.hpp"
#include "drivers/common/run_options.hpp"
#include "drivers/registry.hpp"
#include "drivers/study/study.hpp"
#include "io/axes.hpp"
#include "io/layout.hpp"

namespace fluxformer {
namespace {

namespace stored = clusters::variables;

void declare_growth(Options& options) {
  std::vector<std::string> starts{"ring"};
  starts.insert(starts.end(), std::begin(clusters::designs), std::end(clusters::designs));
  options.declare(
      "clusters.start", "ring",
      "how tokens are spread: a ring on the circle, or the vertices of an icosahedron (12 tokens, "
      "d = 3), of a 600-cell (120, d = 4), the roots of E8 (240, d = 8)",
      {.choices = starts});
  options.declare("clusters.tokens", 64L, "tokens of the ring; more than twice clusters.degrees",
                  {.minimum = 3, .maximum = 100000, .when = When{"clusters.start", "ring"}});
  options.declare("clusters.betas", std::vector<double>{1, 2, 3, 5, 7, 9, 12, 20, 40},
                  "inverse temperatures of the attention", {.minimum = 0, .maximum = 1e6, .not_empty = true});
  options.declare("clusters.degrees", 12L,
                  "harmonics of the degrees 1, 2, ... up to this one displace the tokens",
                  {.minimum = 1, .maximum = 1000});
  options.declare("clusters.value", 1.0, "v, the factor of attention; negative: tokens repel each other");
  options.declare(seed_option("seed of the directions of the displacements"));
  declare_study_run(options, "clusters.h5");
}

/// <a, b> / <b, b>
double share_along(const std::vector<double>& a, const std::vector<double>& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0) /
         std::inner_product(b.begin(), b.end(), b.begin(), 0.0);
}

class ClusterGrowth final : public Study {
 public:
  ClusterGrowth(const Settings& settings, MPI_Comm comm);
  std::string describe() const override;
  static study::Contents contents();
  std::vector<Place> places() const override;
  std::string unit() const override { return "values of beta"; }
  void begin(StudyRecord& record) override;
  void measure(const Place& place, Results& to) override;
  std::string summary(const Findings& found) const override;

 private:
  std::string start_;
  clusters::Tokens tokens_;
  std::vector<double> betas_;
  int degrees_;
  double value_;
  std::uint64_t seed_;
};

ClusterGrowth::ClusterGrowth(const Settings& settings, MPI_Comm /*comm*/)
    : start_(settings.word("clusters.start")),
      tokens_(start_ == "ring" ? clusters::ring(settings.count("clusters.tokens"))
                               : clusters::design(start_)),
      betas_(settings.reals("clusters.betas")),
      degrees_(settings.count("clusters.degrees")),
      value_(settings.real("clusters.value")),
      seed_(static_cast<std::uint64_t>(settings.integer("run.seed"))) {
  if (start_ == "ring" && tokens_.count() <= 2 * degrees_)
    throw BadInput("clusters.tokens = " + std::to_string(tokens_.count()) + ": waves of degree " +
                   std::to_string(degrees_) + " (clusters.degrees) need more than " +
                   std::to_string(2 * degrees_) + " tokens");
}

std::string ClusterGrowth::describe() const {
  std::ostringstream text;
  text << tokens_.count() << " tokens, " << (start_ == "ring" ? "a ring" : start_) << " in dimension "
       << tokens_.dimension << "; " << betas_.size() << " value(s) of beta, displacements of degree 1 to "
       << degrees_;
  return text.str();
}

study::Contents ClusterGrowth::contents() {
  using namespace clusters::variables;
  return {{beta, degree},
          {start, tokens, dimension, beta_of_two},
          {},
          {rate, rate_theory, rate_tokens, layer_growth, layer_growth_theory, bare_layer_growth,
           bare_layer_growth_theory, clusters::variables::fastest_degree},
          names::in(names::analysis, group)};
}

std::vector<Place> ClusterGrowth::places() const {
  std::vector<Place> all;
  for (std::size_t k = 0; k < betas_.size(); ++k) {
    std::ostringstream name;
    name << "beta " << betas_[k];
    all.push_back({.group = stored::softmax,
                   .name = name.str(),
                   .index = {{axes::seed.name, 0}, {stored::beta.name, k}}});
  }
  return all;
}

void ClusterGrowth::begin(StudyRecord& record) {
  record.seeds({static_cast<long>(seed_)});
  record.axis(stored::beta, betas_);
  record.axis(stored::degree, 1, degrees_);
  record.note("", stored::start, start_);
  record.note("", stored::tokens, static_cast<long>(tokens_.count()));
  record.note("", stored::dimension, static_cast<long>(tokens_.dimension));
  record.note("", stored::beta_of_two, clusters::beta_of_two(tokens_.dimension));
}

void ClusterGrowth::measure(const Place& place, Results& to) {
  const double beta = betas_[place.along(stored::beta)];
  const clusters::UniformTokens uniform{.dimension = tokens_.dimension, .beta = beta, .value = value_};
  const clusters::Ring ring{.tokens = static_cast<int>(tokens_.count()), .beta = beta};
  SphereLayer layer(tokens_, beta, value_, true), bare(tokens_, beta, value_, false);
  std::vector<double> rates, theory, of_tokens, in_layer, in_layer_theory, in_bare, in_bare_theory;
  for (int degree = 1; degree <= degrees_; ++degree) {
    const auto displacement = clusters::zonal_displacement(tokens_, degree, seed_);
    rates.push_back(share_along(layer.velocity_along(tokens_.x, displacement), displacement));
    in_layer.push_back(share_along(layer.layer_along(tokens_.x, displacement), displacement));
    in_bare.push_back(share_along(bare.layer_along(tokens_.x, displacement), displacement));
    theory.push_back(growth_rate(uniform, degree));
    of_tokens.push_back(start_ == "ring" ? value_ * growth_rate(ring, degree) : missing_value);
    in_layer_theory.push_back(growth_in_layer(uniform, degree, 1));
    in_bare_theory.push_back(growth_without_residual(uniform, degree));
  }
  to.put(stored::rate, rates);
  to.put(stored::rate_theory, theory);
  to.put(stored::rate_tokens, of_tokens);
  to.put(stored::layer_growth, in_layer);
  to.put(stored::layer_growth_theory, in_layer_theory);
  to.put(stored::bare_layer_growth, in_bare);
  to.put(stored::bare_layer_growth_theory, in_bare_theory);
  to.put(stored::fastest_degree, {1.0 * fastest_degree(uniform)});
}

std::string ClusterGrowth::summary(const Findings& found) const {
  std::ostringstream text;
  text << "degree that grows fastest:";
  for (std::size_t k = 0; k < found.count(); ++k) {
    const auto& rates = found.at(k, stored::rate);
    const auto fastest = std::ranges::max_element(rates);
    const double theory = found.at(k, stored::fastest_degree).front();
    text << (k > 0 ? "," : "") << " beta " << betas_[k] << ": "
         << (*fastest > 0 ? fastest - rates.begin() + 1 : 0) << " (theory " << theory
         << (theory > degrees_ ? ", beyond clusters.degrees)" : ")");
  }
  return text.str();
}

}  // namespace

ExperimentEntry clusters_growth_experiment() {
  return study_entry<ClusterGrowth>(
      {.name = "clusters_growth",
       .family = "clusters",
       .sentence =
           "tells how fast small displacements of evenly spread tokens grow, the beginning of clusters",
       .cites = "docs/model.md; arXiv 2312.10794; arXiv 2410.23228",
       .declare = declare_growth});
}

}  // namespace fluxformer
