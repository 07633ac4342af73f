// `clusters_context`: does attention still cluster tokens in long contexts? Tokens of one cosine, of which any number is one number.

#include <cmath>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "analysis/clusters/cluster_variables.hpp"
#include "analysis/clusters/long_contexts.hpp"
#include "base/error.hpp"
#include "base/statistics.hpp"
#include "drivers/clusters/sphere_layer.hpp"
#include "drivers/registry.hpp"
#include "drivers/study/study.hpp"
#include "io/axes.hpp"
#include "io/layout.hpp"
#include "model/initial_state.hpp"

namespace fluxformer {
namespace {

namespace stored = clusters::variables;
constexpr double held_tokens = 128;  // up to which the layer of the program is asked, in as many dimensions

void declare_context(Options& options) {
  options.declare("clusters.contexts", std::vector<double>{64, 1e3, 1e6, 1e9, 1e12},
                  "numbers n of tokens; a layer of the program itself is asked up to 128",
                  {.minimum = 2, .maximum = 1e15, .not_empty = true});
  options.declare("clusters.scalings",
                  std::vector<double>{0.25, 0.5, 0.75, 1, 1.25, 1.5, 1.75, 2, 2.25, 2.5, 2.75, 3, 3.5, 4},
                  "c of the inverse temperature beta = c log n of the attention",
                  {.minimum = 0, .maximum = 100, .not_empty = true});
  options.declare("clusters.cosines", std::vector<double>{0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8},
                  "cosines of each two tokens at the beginning, below clusters.until",
                  {.minimum = 0, .maximum = 1, .not_empty = true});
  options.declare("clusters.until", 0.99, "cosine at which tokens count as gathered",
                  {.minimum = 0, .maximum = 0.999999, .above_minimum = true});
  options.declare("clusters.step", 1.0, "h of the layer with a residual connection",
                  {.unit = "layers", .minimum = 0, .maximum = 1e6});
  options.declare("clusters.dimensions", std::vector<long>{2, 3, 5, 16, 64},
                  "dimensions of random keys, of which those that act are counted",
                  {.minimum = 2, .maximum = 100000, .not_empty = true});
  declare_study_run(options, "clusters.h5");
}

class ContextStudy final : public Study {
 public:
  ContextStudy(const Settings& settings, MPI_Comm comm);
  std::string describe() const override;
  static study::Contents contents();
  std::vector<Place> places() const override;
  std::string unit() const override { return "contexts"; }
  void begin(StudyRecord& record) override;
  void measure(const Place& place, Results& to) override;
  std::string summary(const Findings& found) const override;

 private:
  /// The cosine of two tokens behind a layer of the program.
  double measured(const clusters::Context& context, double cosine, std::optional<double> step) const;

  std::vector<double> contexts_, scalings_, cosines_;
  double until_, step_;
  std::vector<long> dimensions_;
};

ContextStudy::ContextStudy(const Settings& settings, MPI_Comm /*comm*/)
    : contexts_(settings.reals("clusters.contexts")),
      scalings_(settings.reals("clusters.scalings")),
      cosines_(settings.reals("clusters.cosines")),
      until_(settings.real("clusters.until")),
      step_(settings.real("clusters.step")),
      dimensions_(settings.integers("clusters.dimensions")) {
  for (const double n : contexts_)
    if (n != std::floor(n)) throw BadInput("clusters.contexts: " + std::to_string(n) + " is no whole number");
  for (const double cosine : cosines_)
    if (cosine >= until_)
      throw BadInput("clusters.cosines = " + std::to_string(cosine) +
                     ": not below clusters.until = " + std::to_string(until_));
}

std::string ContextStudy::describe() const {
  std::ostringstream text;
  text << "tokens that all have the same cosine: " << contexts_.size() << " number(s) of tokens, "
       << scalings_.size() << " c of beta = c log n, " << cosines_.size() << " cosine(s)";
  return text.str();
}

study::Contents ContextStudy::contents() {
  using namespace clusters::variables;
  return {{context, scaling, cosine, key_dimension},
          {until, layer_step},
          {},
          {gathering_time, layer_cosine, bare_layer_cosine, layer_cosine_tokens, bare_layer_cosine_tokens,
           acting_keys},
          names::in(names::analysis, group)};
}

std::vector<Place> ContextStudy::places() const {
  std::vector<Place> all;
  for (std::size_t k = 0; k < contexts_.size(); ++k) {
    std::ostringstream name;
    name << "n = " << contexts_[k];
    all.push_back({.group = stored::softmax,
                   .name = name.str(),
                   .index = {{axes::seed.name, 0}, {stored::context.name, k}}});
  }
  return all;
}

void ContextStudy::begin(StudyRecord& record) {
  record.seeds({0});
  record.axis(stored::context, contexts_);
  record.axis(stored::scaling, scalings_);
  record.axis(stored::cosine, cosines_);
  record.axis(stored::key_dimension, {dimensions_.begin(), dimensions_.end()});
  record.note("", stored::until, until_);
  record.note("", stored::layer_step, step_);
}

double ContextStudy::measured(const clusters::Context& context, double cosine,
                              std::optional<double> step) const {
  const int n = static_cast<int>(context.tokens);
  const clusters::Tokens tokens{n, equiangular_points(n, n, cosine)};
  SphereLayer layer(tokens, context.beta, 1, step.has_value());
  const auto behind = layer.layer(tokens.x, step.value_or(1));
  double product = 0;
  for (int c = 0; c < n; ++c) product += behind[c] * behind[n + c];
  return product;
}

void ContextStudy::measure(const Place& place, Results& to) {
  const double n = contexts_[place.along(stored::context)];
  std::vector<double> times, layers, bare, layers_of_tokens, bare_of_tokens, acting;
  for (const double c : scalings_) {
    const clusters::Context context{n, c * std::log(n)};
    for (const double cosine : cosines_) {
      const bool held = n <= held_tokens;
      times.push_back(time_between(context, cosine, until_));
      layers.push_back(cosine_behind_layer(context, cosine, step_));
      bare.push_back(cosine_behind_layer(context, cosine, {}));
      layers_of_tokens.push_back(held ? measured(context, cosine, step_) : missing_value);
      bare_of_tokens.push_back(held ? measured(context, cosine, {}) : missing_value);
    }
    for (const long dimension : dimensions_)
      acting.push_back(n * clusters::acting_share(static_cast<int>(dimension), context.beta));
    if (!to.go_on(static_cast<double>(times.size()) / static_cast<double>(scalings_.size() * cosines_.size()),
                  ""))
      return;
  }
  to.put(stored::gathering_time, times);
  to.put(stored::layer_cosine, layers);
  to.put(stored::bare_layer_cosine, bare);
  to.put(stored::layer_cosine_tokens, layers_of_tokens);
  to.put(stored::bare_layer_cosine_tokens, bare_of_tokens);
  to.put(stored::acting_keys, acting);
}

std::string ContextStudy::summary(const Findings& found) const {
  // The first c at which a layer without residual leaves tokens of the middle cosine more than halfway from each other.
  const std::size_t middle = cosines_.size() / 2;
  const double halfway = (1 + cosines_[middle]) / 2;
  std::ostringstream text;
  text << "a layer without residual brings tokens of cosine " << cosines_[middle]
       << " less than halfway together from beta / log n =";
  for (std::size_t k = 0; k < found.count(); ++k) {
    const auto& cosines = found.at(k, stored::bare_layer_cosine);
    text << (k > 0 ? "," : "");
    std::optional<double> first;
    for (std::size_t c = 0; c < scalings_.size(); ++c)
      if (cosines[c * cosines_.size() + middle] < halfway && (!first || scalings_[c] < *first))
        first = scalings_[c];
    if (first)
      text << ' ' << *first;
    else
      text << " none";
    text << " (n = " << contexts_[k] << ")";
  }
  text << "; by theory " << clusters::critical_scaling(cosines_[middle]) << " in long contexts";
  return text.str();
}

}  // namespace

ExperimentEntry clusters_context_experiment() {
  return study_entry<ContextStudy>({.name = "clusters_context",
                                    .family = "clusters",
                                    .sentence = "tells for contexts of any length how attention that "
                                                "sharpens as log n gathers tokens of one cosine",
                                    .cites = "docs/model.md; arXiv 2312.10794; arXiv 2510.05554",
                                    .declare = declare_context});
}

}  // namespace fluxformer
