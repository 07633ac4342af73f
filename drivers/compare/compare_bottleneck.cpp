// `bottleneck`: mutual information of hidden states with the input and with the label, by depth and over
// training, with several estimators.

#include <cmath>

#include "analysis/information/estimates.hpp"
#include "analysis/information/information_variables.hpp"
#include "base/error.hpp"
#include "drivers/compare/model_study.hpp"
#include "drivers/registry.hpp"

namespace fluxformer {
namespace {

class Bottleneck final : public ModelStudy {
 public:
  Bottleneck(const Settings& settings, MPI_Comm comm);
  static study::Contents contents();

 protected:
  void add_axes(StudyRecord& record) override;
  void measure_model(std::size_t seed, const std::string& name, Results& to) override;
  std::vector<long> epochs() const override { return epochs_; }

 private:
  using Curves = std::vector<std::vector<double>>;  // [name of the estimate][depth]
  Curves curves(const Parameters& parameters) const;

  information::EstimatorSettings estimators_;
  std::vector<long> epochs_;
  int token_;  // -1: pooled
  RandomStream draws_;
  std::vector<int> labels_;
};

Bottleneck::Bottleneck(const Settings& settings, MPI_Comm comm)
    : ModelStudy(settings, comm),
      estimators_{settings.integer("bottleneck.bins"), settings.integer("bottleneck.components"),
                  settings.real("bottleneck.noise"), settings.integer("bottleneck.neighbours")},
      epochs_(settings.integers("bottleneck.epochs")),
      token_(settings.count("bottleneck.token")),
      draws_(static_cast<std::uint64_t>(settings.integer("run.seed")), "noise on states") {
  const Index samples = std::ssize(problem().members());
  if (estimators_.neighbours >= samples)
    throw BadInput("bottleneck.neighbours = " + std::to_string(estimators_.neighbours) +
                   ": must be less than the number of samples, " + std::to_string(samples));
  if (token_ >= problem().line().tokens())
    throw BadInput("bottleneck.token = " + std::to_string(token_) + ": there are " +
                   std::to_string(problem().line().tokens()) + " tokens");
  for (const auto& name : problem().models().names()) {
    const int width = problem().models().at(0, name).parameters.spec.width;
    if (estimators_.components > width)
      throw BadInput("bottleneck.components = " + std::to_string(estimators_.components) +
                     ": the states of " + name + " have " + std::to_string(width));
  }
  problem().models().require_epochs(epochs_);
  problem().require_classes("I(T; Y)");
  for (const auto member : problem().members()) {
    labels_.push_back(problem().data().label(member));
    if (token_ >= problem().data().length(member))
      throw BadInput("bottleneck.token = " + std::to_string(token_) + ": sample " + std::to_string(member) +
                     " has only " + std::to_string(problem().data().length(member)) + " tokens");
  }
}

study::Contents Bottleneck::contents() {
  auto measures = information::variables::estimates();
  for (const auto& one : information::variables::estimates()) measures.push_back(compare::after_epochs(one));
  return compare::with_models({{axes::copied_epoch},
                               {information::variables::ceiling, information::variables::label_entropy},
                               {},
                               measures});
}

void Bottleneck::add_axes(StudyRecord& record) {
  if (!epochs_.empty()) record.axis(axes::copied_epoch, {epochs_.begin(), epochs_.end()});
  // No estimate of I(X; T) from n samples can exceed ln n.
  record.note("", information::variables::ceiling, std::log(static_cast<double>(labels_.size())));
  record.note("", information::variables::label_entropy, information::LabelGroups(labels_).entropy());
}

Bottleneck::Curves Bottleneck::curves(const Parameters& parameters) const {
  const auto probe = problem().probe(parameters);
  const auto states = information::states_by_depth(problem().samples(), *probe, token_);
  return information::estimates_by_depth(problem().comm(), states, labels_, parameters.spec.width,
                                         estimators_, draws_);
}

void Bottleneck::measure_model(std::size_t seed, const std::string& name, Results& to) {
  const auto& estimates = information::variables::estimates();
  const auto final = curves(problem().models().at(seed, name).parameters);
  for (std::size_t k = 0; k < estimates.size(); ++k) to.put(estimates[k], final[k]);
  Curves over_epochs(estimates.size());
  for (const long epoch : epochs_) {
    const auto then = curves(problem().models().after_epoch(seed, name, epoch));
    for (std::size_t k = 0; k < estimates.size(); ++k)
      over_epochs[k].insert(over_epochs[k].end(), then[k].begin(), then[k].end());
  }
  if (epochs_.empty()) return;
  for (std::size_t k = 0; k < estimates.size(); ++k)
    to.put(compare::after_epochs(estimates[k]), over_epochs[k]);
}

void declare_bottleneck(Options& options) {
  declare_compared(options);
  declare_study_run(options, "bottleneck.h5");
  options.declare("bottleneck.token", -1L, "token whose state is T; -1: T is the mean over the tokens",
                  {.minimum = -1});
  options.declare("bottleneck.components", 3L, "number of principal components of T used by binning and ksg",
                  {.minimum = 1});
  options.declare("bottleneck.bins", 10L,
                  "binning: intervals per component, from its smallest to its largest value",
                  {.minimum = 1, .maximum = 1e6});
  options.declare("bottleneck.noise", 0.2,
                  "standard deviation sigma of the noise in T + sigma Z, relative to the root mean square "
                  "deviation of T's components at that depth",
                  {.minimum = 0, .above_minimum = true});
  options.declare("bottleneck.neighbours", 5L, "ksg: number k of nearest neighbours", {.minimum = 1});
  options.declare(epochs_option("bottleneck.epochs"));
}

}  // namespace

ExperimentEntry bottleneck_experiment() {
  return study_entry<Bottleneck>(
      {.name = "bottleneck",
       .family = "compare",
       .sentence = "estimates the mutual information of hidden states with input and label, by depth",
       .cites = "docs/model.md; arXiv 2408.09523; arXiv 1703.00810; arXiv 1706.02419; Phys. Rev. E 69 "
                "(2004) 066138; PLoS ONE 9 (2014) e87357",
       .declare = declare_bottleneck});
}

}  // namespace fluxformer
