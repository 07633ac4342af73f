// `information_flow`: how the hidden states of a Transformer and of its PDE models change with depth, and how
// similar they are.

#include <sstream>

#include "analysis/states/model_states.hpp"
#include "analysis/states/state_variables.hpp"
#include "base/error.hpp"
#include "drivers/compare/guessed_words.hpp"
#include "drivers/compare/model_study.hpp"
#include "drivers/registry.hpp"
#include "io/layout.hpp"

namespace fluxformer {
namespace {

constexpr const char* reference_model = "transformer";

class InformationFlow final : public ModelStudy {
 public:
  InformationFlow(const Settings& settings, MPI_Comm comm);
  static study::Contents contents();

 protected:
  void add_axes(StudyRecord& record) override;
  void measure_model(std::size_t seed, const std::string& name, Results& to) override;

 private:
  void measure_states(const SampleSet& samples, const std::string& name, ModelProbe& probe,
                      Results& to) const;

  KeyOfTraining<double> masked_share_;
  Index examples_;
  Examples cka_;
};

InformationFlow::InformationFlow(const Settings& settings, MPI_Comm comm)
    : ModelStudy(settings, comm, {.head = ModelNeeds::Head::loss}),
      masked_share_(masked_share(settings)),
      examples_(settings.integer("flow.examples")),
      cka_(settings.word("flow.cka") == "tokens" ? Examples::tokens : Examples::pooled) {
  if (examples_ > problem().samples().size())
    throw BadInput("flow.examples = " + std::to_string(examples_) + ": samples.count gives " +
                   std::to_string(problem().samples().size()) + " samples");
  require_answers(problem(), masked_share_, "the accuracy");
  for (const auto& name : problem().models().names()) require_layer_ends(name);
}

study::Contents InformationFlow::contents() {
  using namespace states::variables;
  return compare::with_models({{axes::layer_end, axes::token, example},
                               {names::tokens_x, names::tokens_y, example_labels},
                               {},
                               {norm, token_variance, dirichlet_energy, correlation, drift, step_change,
                                example_norm, accuracy, cka, cka_unrelated, cka_ceiling}});
}

void InformationFlow::add_axes(StudyRecord& record) {
  const auto& line = problem().line();
  std::vector<double> chosen, labels;
  for (Index j = 0; j < examples_; ++j) {
    chosen.push_back(static_cast<double>(problem().members()[j]));
    labels.push_back(problem().data().label(problem().members()[j]));
  }
  record.axis(axes::layer_end, 0, problem().models().at(0, reference_model).parameters.spec.layers);
  record.axis(axes::token, 0, line.tokens() - 1);
  record.axis(states::variables::example, chosen);
  record.note("", names::tokens_x, static_cast<long>(line.tokens_x()));
  record.note("", names::tokens_y, static_cast<long>(line.tokens_y()));
  std::ostringstream list;
  for (const double label : labels) list << (list.str().empty() ? "" : " ") << label;
  record.note("", states::variables::example_labels, list.str());
}

void InformationFlow::measure_model(std::size_t seed, const std::string& name, Results& to) {
  const auto own = probe(seed, name);
  // Models that are aligned read the same words, masked ones too.
  const auto samples =
      with_targets(problem().samples(), masked_share_, problem().models().at(seed, name), name);
  measure_states(samples, name, *own, to);
  if (name == reference_model) {
    const auto seeds = problem().models().seeds().size();
    if (seeds < 2) return;
    // Ceiling of the alignment: Transformers trained from two seeds.
    const auto next = probe((seed + 1) % seeds, reference_model);
    to.put(states::variables::cka_ceiling, states::align(samples, *next, *own, cka_).alignment());
    return;
  }
  const auto reference = probe(seed, reference_model);
  const auto meter = states::align(samples, *reference, *own, cka_);
  to.put(states::variables::cka, meter.alignment());
  to.put(states::variables::cka_unrelated, meter.unrelated());
}

void InformationFlow::measure_states(const SampleSet& samples, const std::string& name, ModelProbe& probe,
                                     Results& to) const {
  const auto found = states::measure_states(samples, probe, examples_);
  const auto &whole = found.by_row, &layer = found.by_layer;
  to.put(states::variables::norm, whole.norm);
  to.put(states::variables::token_variance, whole.token_variance);
  to.put(states::variables::dirichlet_energy, whole.dirichlet_energy);
  to.put(states::variables::correlation, layer.correlation);
  to.put(states::variables::drift, layer.drift);
  to.put(states::variables::step_change, layer.step_change);
  to.put(states::variables::example_norm, found.token_norms);
  to.put(states::variables::accuracy, {found.accuracy});
  std::ostringstream text;
  text << name << " accuracy " << 100 * found.accuracy << " %";
  to.say(text.str());
}

void declare_information_flow(Options& options) {
  declare_compared(options);
  declare_study_run(options, "information_flow.h5");
  options.declare("flow.examples", 3L, "number of samples whose states are stored token by token",
                  {.minimum = 0});
  options.declare("flow.cka", "pooled", "example in the alignment: the mean state of a sample, or one token",
                  {.choices = {"pooled", "tokens"}});
  declare_masked_words(options);
}

}  // namespace

ExperimentEntry information_flow_experiment() {
  return study_entry<InformationFlow>(
      {.name = "information_flow",
       .family = "compare",
       .sentence = "follows the hidden states of a Transformer and of its PDE models through depth",
       .cites = "docs/model.md; arXiv 2408.09523; arXiv 1905.00414",
       .declare = declare_information_flow},
      with_masked_share_of_models);
}

}  // namespace fluxformer
