#include "drivers/compare/information_flow_experiment.hpp"

#include <sstream>

#include "analysis/states/model_states.hpp"
#include "analysis/states/state_variables.hpp"
#include "base/error.hpp"
#include "drivers/compare/compare_options.hpp"
#include "drivers/compare/compare_variables.hpp"
#include "drivers/compare/comparison.hpp"
#include "io/layout.hpp"

namespace fluxformer {
namespace {

constexpr const char* reference_model = "transformer";

class InformationFlow final : public Comparison {
 public:
  InformationFlow(const Settings& settings, const CompareProblem& problem);
  void begin(StudyRecord& record) override;
  void measure(std::size_t seed, const std::string& name, StudyRecord& record) override;
  std::string summary() const override { return summary_.str(); }

 private:
  void measure_states(const std::string& name, ModelProbe& probe, StudyRecord& record);
  void measure_alignment(const std::string& name, ModelProbe& t, ModelProbe& p, StudyRecord& record) const;

  const CompareProblem& problem_;
  Index examples_;
  Examples cka_;
  std::ostringstream summary_;
};

InformationFlow::InformationFlow(const Settings& settings, const CompareProblem& problem)
    : problem_(problem),
      examples_(settings.integer("flow.examples")),
      cka_(settings.word("flow.cka") == "tokens" ? Examples::tokens : Examples::pooled) {
  if (examples_ > problem.samples().size())
    throw BadInput("flow.examples = " + std::to_string(examples_) + ": samples.count gives " +
                   std::to_string(problem.samples().size()) + " samples");
  problem.require_classes("the accuracy");
  for (const auto& name : problem.models().names())  // throws unless cells end where layers do
    problem.probe(problem.models().at(0, name).parameters)->entry_of_layer(1);
}

void InformationFlow::begin(StudyRecord& record) {
  const auto& line = problem_.line();
  std::vector<double> chosen, labels;
  for (Index j = 0; j < examples_; ++j) {
    chosen.push_back(static_cast<double>(problem_.members()[j]));
    labels.push_back(problem_.data().label(problem_.members()[j]));
  }
  record.axis(axes::layer_end, 0, problem_.models().at(0, reference_model).parameters.spec.layers);
  record.axis(axes::token, 0, line.tokens() - 1);
  record.axis(states::variables::example, chosen);
  record.note("", names::tokens_x, static_cast<long>(line.tokens_x()));
  record.note("", names::tokens_y, static_cast<long>(line.tokens_y()));
  std::ostringstream list;
  for (const double label : labels) list << (list.str().empty() ? "" : " ") << label;
  record.note("", states::variables::example_labels, list.str());
}

void InformationFlow::measure(std::size_t seed, const std::string& name, StudyRecord& record) {
  const auto& models = problem_.models();
  const auto probe = problem_.probe(models.at(seed, name).parameters);
  measure_states(name, *probe, record);
  if (name == reference_model) {
    if (models.seeds().size() < 2) return;
    // Ceiling of the alignment: Transformers trained from two seeds.
    const auto next =
        problem_.probe(models.at((seed + 1) % models.seeds().size(), reference_model).parameters);
    record.add(name, states::variables::cka_ceiling,
               states::align(problem_.samples(), *next, *probe, cka_).alignment());
    return;
  }
  const auto reference = problem_.probe(models.at(seed, reference_model).parameters);
  measure_alignment(name, *reference, *probe, record);
}

void InformationFlow::measure_states(const std::string& name, ModelProbe& probe, StudyRecord& record) {
  const auto found = states::measure_states(problem_.samples(), probe, examples_);
  const auto &whole = found.by_row, &layer = found.by_layer;
  record.add(name, states::variables::norm, whole.norm);
  record.add(name, states::variables::token_variance, whole.token_variance);
  record.add(name, states::variables::dirichlet_energy, whole.dirichlet_energy);
  record.add(name, states::variables::correlation, layer.correlation);
  record.add(name, states::variables::drift, layer.drift);
  record.add(name, states::variables::step_change, layer.step_change);
  record.add(name, states::variables::example_norm, found.token_norms);
  record.add(name, states::variables::accuracy, {found.accuracy});
  summary_ << (summary_.str().empty() ? "" : "; ") << name << " accuracy " << 100 * found.accuracy << " %";
}

void InformationFlow::measure_alignment(const std::string& name, ModelProbe& t, ModelProbe& p,
                                        StudyRecord& record) const {
  const auto meter = states::align(problem_.samples(), t, p, cka_);
  record.add(name, states::variables::cka, meter.alignment());
  record.add(name, states::variables::cka_unrelated, meter.unrelated());
}

}  // namespace

void describe_information_flow(io::Description& description) {
  using namespace states::variables;
  compare::describe_comparison(description, "information_flow",
                               {{axes::layer_end, axes::token, example},
                                {names::tokens_x, names::tokens_y, example_labels},
                                {},
                                {norm, token_variance, dirichlet_energy, correlation, drift, step_change,
                                 example_norm, accuracy, cka, cka_unrelated, cka_ceiling}});
}

void declare_information_flow(Options& options) {
  declare_compare_options(options, "information_flow.h5");
  options.declare({.name = "flow.examples",
                   .fallback = 3L,
                   .doc = "number of samples whose states are stored token by token",
                   .minimum = 0});
  options.declare({.name = "flow.cka",
                   .fallback = std::string("pooled"),
                   .doc = "example in the alignment: the mean state of a sample, or one token",
                   .choices = {"pooled", "tokens"}});
}

std::unique_ptr<Experiment> make_information_flow(const Settings& settings, const RunContext& context) {
  return make_comparison(settings, context, [](const Settings& s, const CompareProblem& p) {
    return std::make_unique<InformationFlow>(s, p);
  });
}

}  // namespace fluxformer
