// `identifiability`: what attention weights and hidden tokens of models read from files say.

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "analysis/identifiability/identifiability_variables.hpp"
#include "base/error.hpp"
#include "drivers/compare/model_study.hpp"
#include "drivers/identifiability/token_studies.hpp"
#include "drivers/identifiability/weight_study.hpp"
#include "drivers/registry.hpp"
#include "io/layout.hpp"

namespace fluxformer {
namespace {

void declare_weights(Options& options) {
  options.declare("identifiability.lengths", std::vector<long>{},
                  "weights: lengths in tokens to which samples are also cut, e.g. 8, 16, 32; only samples of "
                  "at least that length are used; empty: whole samples only",
                  {.minimum = 2, .maximum = std::numeric_limits<int>::max()});
  options.declare("identifiability.rows", 8L,
                  "weights: number of rows of every head for which the freedom that softmax can reach is "
                  "counted; 0: none",
                  {.minimum = 0});
  options.declare(
      "identifiability.joint_tokens", 0L,
      "weights: largest number of tokens of the first sample for which the joint freedom of queries and keys "
      "is counted, by the singular values of a matrix of n^2 x 2 n d_k; 0: not counted",
      {.minimum = 0});
  options.declare("identifiability.head", 0L,
                  "weights: head whose raw, effective and alternative weights are stored", {.minimum = 0});
}

void declare_identity(Options& options) {
  options.declare("identifiability.maps", std::vector<std::string>{"identity", "linear", "mlp"},
                  "identity: maps from states back to embedded tokens; linear is a ridge regression, mlp has "
                  "a hidden layer",
                  {.choices = {"identity", "linear", "mlp"}});
  options.declare(
      "identifiability.fit", 200L,
      "identity: number of further samples, on which maps are fitted (four fifths) and chosen (the rest)",
      {.unit = "samples", .minimum = 5});
  options.declare("identifiability.hidden", 128L, "identity: hidden units of the mlp map", {.minimum = 1});
  options.declare("identifiability.fit_epochs", 50L,
                  "identity: maximum number of epochs for the mlp map; its training ends earlier once the "
                  "validation loss has stopped falling",
                  {.unit = "epochs", .minimum = 1});
  options.declare(epochs_option("identifiability.epochs"));
}

void declare_attribution(Options& options) {
  options.declare("identifiability.attributed", 20L,
                  "attribution: number of samples used; each takes width x tokens tangents",
                  {.unit = "samples", .minimum = 1});
  options.declare("identifiability.norm", "frobenius", "attribution: norm of the blocks of the Jacobian",
                  {.choices = {"frobenius", "spectral"}});
  options.declare("identifiability.probes", 0L,
                  "attribution: number of random directions for each token (Hutchinson), at least 64; 0: the "
                  "Jacobian itself is computed",
                  {.minimum = 0});
  options.declare("identifiability.flow_tokens", 0L,
                  "attribution: number of output tokens of each sample whose attention flow is computed; "
                  "each takes a maximum flow for every token and layer; 0: no flow",
                  {.minimum = 0});
}

void declare_identifiability(Options& options) {
  declare_compared(options);
  options.declare(
      "identifiability.measures", std::vector<std::string>{"weights", "identity", "attribution"},
      "measures: weights (how many attention weights give the same output, and the part of them that acts), "
      "identity (whether tokens are recognised at depth), attribution (where hidden tokens come from)",
      {.choices = {"weights", "identity", "attribution"}, .not_empty = true});
  declare_weights(options);
  declare_identity(options);
  declare_attribution(options);
  declare_study_run(options, "identifiability.h5");
}

class Identifiability final : public ModelStudy {
 public:
  Identifiability(const Settings& settings, MPI_Comm comm);
  static study::Contents contents();

 protected:
  void add_axes(StudyRecord& record) override;
  void measure_model(std::size_t seed, const std::string& name, Results& to) override;
  std::vector<long> epochs() const override { return identity_ ? identity_->epochs() : std::vector<long>{}; }

 private:
  /// Calls f with each of the studies that are wanted.
  template <class F>
  void for_measures(F&& f) {
    if (weights_) f(*weights_);
    if (identity_) f(*identity_);
    if (attribution_) f(*attribution_);
  }

  std::optional<WeightStudy> weights_;
  std::optional<IdentityStudy> identity_;
  std::optional<AttributionStudy> attribution_;
};

Identifiability::Identifiability(const Settings& settings, MPI_Comm comm)
    : ModelStudy(settings, comm, {.head = ModelNeeds::Head::none, .transformer = false}) {
  if (precision_of(settings) != Precision::float64)
    throw BadInput("run.precision = " + settings.word("run.precision") +
                   ": ranks of matrices are counted in double; use double");
  const auto& measures = settings.words("identifiability.measures");
  const auto has = [&](const std::string& measure) {
    return std::ranges::find(measures, measure) != measures.end();
  };
  if (has("weights")) weights_.emplace(settings, problem());
  if (has("identity")) identity_.emplace(settings, problem());
  if (has("attribution")) attribution_.emplace(settings, problem());
}

study::Contents Identifiability::contents() {
  using namespace identifiability::variables;
  auto measures = weight_variables();
  for (const auto& list : {identity_variables(), attribution_variables()})
    measures.insert(measures.end(), list.begin(), list.end());
  return compare::with_models(
      {{axes::test_sample, axes::layer, axes::head, axes::query, axes::key, axes::token, axes::copied_epoch,
        length, epsilon, distance_group, input_token, axes::feature, compare::sample_features},
       {names::tokens_x, names::tokens_y, map_head, compare::sample_words},
       {value_width},
       measures});
}

void Identifiability::add_axes(StudyRecord& record) {
  int layers = 0, heads = 0;
  for (const auto& name : problem().models().names()) {
    const auto& spec = problem().models().at(0, name).parameters.spec;
    layers = spec.layers;
    heads = std::max(heads, spec.attention.heads);
  }
  record.samples(problem().members());
  record.axis(axes::layer, 1, layers);
  record.axis(axes::head, 0, heads - 1);
  record.note("", names::tokens_x, static_cast<long>(problem().line().tokens_x()));
  record.note("", names::tokens_y, static_cast<long>(problem().line().tokens_y()));
  for_measures([&](auto& one) { one.begin(record); });
}

void Identifiability::measure_model(std::size_t seed, const std::string& name, Results& to) {
  std::string words;
  try {
    for_measures([&](auto& one) { words += (words.empty() ? "" : ", ") + one.measure(seed, name, to); });
  } catch (const NumericalFailure& failure) {  // agreed by all ranks
    throw NumericalFailure(problem().models().at(seed, name).file + ": " + failure.what());
  }
  to.say(name + ": " + words);
}

}  // namespace

ExperimentEntry identifiability_experiment() {
  return study_entry<Identifiability>(
      {.name = "identifiability",
       .family = "identifiability",
       .sentence = "tells what attention weights and hidden tokens say: how many weights do as well, "
                   "where tokens go",
       .cites = "docs/model.md; arXiv 1908.04211; arXiv 2005.00928; arXiv 2004.10102; Hutchinson, "
                "Commun. Stat. Simul. Comput. 19 (1990) 433",
       .declare = declare_identifiability});
}

}  // namespace fluxformer
