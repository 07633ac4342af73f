#include "drivers/compare/information_flow_experiment.hpp"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "analysis/state_examples.hpp"
#include "analysis/states/cka.hpp"
#include "analysis/states/state_measures.hpp"
#include "analysis/states/state_variables.hpp"
#include "base/error.hpp"
#include "drivers/compare/compare_options.hpp"
#include "drivers/compare/compare_variables.hpp"
#include "drivers/compare/comparison.hpp"
#include "io/layout.hpp"
#include "model/loss.hpp"

namespace fluxformer {
namespace {

constexpr const char* transformer = "transformer";

/// The examples of a batch at every depth, for CKA.
class DepthExamples {
 public:
  explicit DepthExamples(Examples what) : what_(what) {}
  void add(const SlabContext& context, const double* u) { rows_.push_back(examples_of(context, u, what_)); }
  int count() const { return static_cast<int>(rows_.front().rows()); }
  std::vector<const double*> pointers() const {
    std::vector<const double*> list;
    list.reserve(rows_.size());
    for (const auto& rows : rows_) list.push_back(rows.data());
    return list;
  }

 private:
  Examples what_;
  std::vector<RowMatrix> rows_;
};

/// Root mean square over the channels of every token of a sample; NaN for padding.
std::vector<double> token_norms(const SlabContext& context, const double* u, int sample) {
  std::vector<double> norms(static_cast<std::size_t>(context.line->tokens()), std::nan(""));
  const auto rows = sample_of(context, u, sample);
  for (Eigen::Index token = 0; token < rows.rows(); ++token)
    norms[static_cast<std::size_t>(token)] = rows.row(token).norm() / std::sqrt(context.width);
  return norms;
}

class InformationFlow final : public Comparison {
 public:
  InformationFlow(const Settings& settings, const CompareProblem& problem);
  void begin(CompareRecord& record) override;
  void measure(std::size_t seed, const std::string& name, CompareRecord& record) override;
  std::string summary() const override { return summary_.str(); }

 private:
  void measure_states(const std::string& name, ModelProbe& probe, CompareRecord& record);
  void measure_alignment(const std::string& name, ModelProbe& t, ModelProbe& p, CompareRecord& record) const;

  const CompareProblem& problem_;
  std::size_t examples_;
  Examples cka_;
  std::ostringstream summary_;
};

InformationFlow::InformationFlow(const Settings& settings, const CompareProblem& problem)
    : problem_(problem),
      examples_(static_cast<std::size_t>(settings.integer("flow.examples"))),
      cka_(settings.word("flow.cka") == "tokens" ? Examples::tokens : Examples::pooled) {
  if (examples_ > problem.members().size())
    throw BadInput("flow.examples = " + std::to_string(examples_) + ": samples.count gives " +
                   std::to_string(problem.members().size()) + " samples");
  for (const auto& name : problem.models().names())  // throws unless cells end where layers do
    problem.probe(problem.models().at(0, name).parameters)->entry_of_layer(1);
}

void InformationFlow::begin(CompareRecord& record) {
  const auto& line = problem_.line();
  std::vector<double> chosen, labels;
  for (std::size_t j = 0; j < examples_; ++j) {
    chosen.push_back(static_cast<double>(problem_.members()[j]));
    labels.push_back(problem_.data().label(problem_.members()[j]));
  }
  record.axis(axes::layer_end, 0, problem_.models().at(0, transformer).parameters.spec.layers);
  record.axis(axes::token, 0, line.tokens() - 1);
  record.axis(states::variables::example, chosen);
  record.note("", names::tokens_x, static_cast<long>(line.tokens_x()));
  record.note("", names::tokens_y, static_cast<long>(line.tokens_y()));
  std::ostringstream list;
  for (const double label : labels) list << (list.str().empty() ? "" : " ") << label;
  record.note("", states::variables::example_labels, list.str());
}

void InformationFlow::measure(std::size_t seed, const std::string& name, CompareRecord& record) {
  const auto& models = problem_.models();
  const auto probe = problem_.probe(models.at(seed, name).parameters);
  measure_states(name, *probe, record);
  if (name == transformer) return;
  const auto reference = problem_.probe(models.at(seed, transformer).parameters);
  measure_alignment(name, *reference, *probe, record);
}

void InformationFlow::measure_states(const std::string& name, ModelProbe& probe, CompareRecord& record) {
  const int layers = probe.spec().layers, per_layer = probe.cells() / layers;
  const auto tokens = static_cast<std::size_t>(problem_.line().tokens());
  const auto depths = static_cast<std::size_t>(probe.depths());
  states::StateMeter all(probe.depths(), probe.counted()), ends(layers + 1, probe.counted());
  Sums correct(1);
  SampleTable shown(examples_, depths * tokens);
  std::vector<double> u, first, before;
  const auto look = [&](const Batch& batch) {
    probe.embed(batch, u);
    const auto& logits = probe.forward(u, false, [&](int row, const double* state) {
      all.add(row, state, nullptr, nullptr);
      for (std::size_t b = 0; b < batch.label.size(); ++b) {
        const auto place = static_cast<std::size_t>(batch.key[b]);
        if (batch.weight[b] == 0 || place >= examples_) continue;
        const auto norms = token_norms(probe.counted(), state, static_cast<int>(b));
        std::ranges::copy(norms, shown.row(place) + static_cast<std::size_t>(row) * tokens);
      }
      if (row % per_layer != 0) return;
      if (row == 0) first.assign(state, state + u.size());
      ends.add(row / per_layer, state, row == 0 ? nullptr : before.data(), row == 0 ? nullptr : first.data());
      before.assign(state, state + u.size());
    });
    correct.local()[0] += correct_share(batch, logits, probe.spec().classes);
  };
  accumulate(problem_.samples(), look, all, ends, shown, correct);
  const auto whole = all.measures(), layer = ends.measures();
  record.add(name, states::variables::norm, whole.norm);
  record.add(name, states::variables::token_variance, whole.token_variance);
  record.add(name, states::variables::dirichlet_energy, whole.dirichlet_energy);
  record.add(name, states::variables::correlation, layer.correlation);
  record.add(name, states::variables::drift, layer.drift);
  record.add(name, states::variables::step_change, layer.step_change);
  record.add(name, states::variables::example_norm, shown.numbers());
  record.add(name, states::variables::accuracy, correct.total());
  summary_ << (summary_.str().empty() ? "" : "; ") << name << " accuracy " << 100 * correct.total()[0]
           << " %";
}

void InformationFlow::measure_alignment(const std::string& name, ModelProbe& t, ModelProbe& p,
                                        CompareRecord& record) const {
  states::CkaMeter meter({t.depths(), t.spec().width}, {p.depths(), p.spec().width});
  std::vector<double> u;
  const auto look = [&](ModelProbe& probe, const Batch& batch) {
    DepthExamples examples(cka_);
    probe.embed(batch, u);
    probe.forward(u, false, [&](int, const double* state) { examples.add(probe.counted(), state); });
    return examples;
  };
  const auto compare = [&](const Batch& batch) {
    const auto a = look(t, batch), b = look(p, batch);
    meter.add(a.count(), a.pointers(), b.pointers());
  };
  accumulate(problem_.samples(), compare, meter);
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
                                 example_norm, accuracy, cka, cka_unrelated}});
}

void declare_information_flow(Options& options) {
  declare_compare_options(options, "information_flow.h5");
  options.declare({.name = "flow.examples",
                   .fallback = 3L,
                   .doc = "samples whose states are stored token by token",
                   .minimum = 0});
  options.declare({.name = "flow.cka",
                   .fallback = std::string("pooled"),
                   .doc = "what an example of the alignment is: the mean state of a sample, or one token",
                   .choices = {"pooled", "tokens"}});
}

std::unique_ptr<Experiment> make_information_flow(const Settings& settings, const RunContext& context) {
  return make_comparison(settings, context, [](const Settings& s, const CompareProblem& p) {
    return std::make_unique<InformationFlow>(s, p);
  });
}

}  // namespace fluxformer
