// `influence`: which training samples made a model answer as it does? The slope of test losses in the weight of each
// training sample, with exact curvature; of the last linear map beside training again.

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "analysis/hessian/parameter_blocks.hpp"
#include "analysis/influence/convex_head.hpp"
#include "analysis/influence/detection.hpp"
#include "analysis/influence/gram_influence.hpp"
#include "analysis/influence/head_features.hpp"
#include "analysis/influence/influence_variables.hpp"
#include "analysis/influence/krylov_influence.hpp"
#include "analysis/interventions/agreement.hpp"
#include "base/error.hpp"
#include "base/memory.hpp"
#include "base/mpi.hpp"
#include "base/random.hpp"
#include "base/statistics.hpp"
#include "drivers/common/model_options.hpp"
#include "drivers/common/run_options.hpp"
#include "drivers/compare/guessed_words.hpp"
#include "drivers/compare/model_study.hpp"
#include "drivers/hessian/model_hessian.hpp"
#include "drivers/registry.hpp"
#include "drivers/train/train_options.hpp"
#include "io/layout.hpp"
#include "solvers/spectra/spectral_density.hpp"
#include "training/trainable.hpp"

namespace fluxformer {

namespace influenced = influence::variables;

namespace {

using influence::HeadCurvature;
using influence::Removal;

const When by_head{"influence.solver", "head"}, by_krylov{"influence.solver", "krylov"},
    by_gram{"influence.solver", "gram"}, of_models{"influence.solver", {"gram", "krylov"}};

void declare_influence_solver(Options& options) {
  auto kinds = hessian::block_kinds;
  kinds.insert(kinds.begin(), "all");
  options.declare(
      "influence.solver", "head",
      "head: the last linear map alone, trained again on the features of the model, where first order "
      "can be compared with training again; gram: all pairs of samples at once, by the gradients of "
      "all outputs; krylov: one solve for each test sample, for models whose gradients do not fit",
      {.choices = {"head", "gram", "krylov"}});
  options.declare("influence.samples", 300L,
                  "number of training samples: the first that the training of each model drew",
                  {.minimum = 2});
  options.declare(
      "influence.parameters", std::vector<std::string>{"all"},
      "variables that influence is measured over: all, or kinds of blocks; head: the last linear map",
      {.choices = kinds, .not_empty = true, .when = of_models});
  options.declare("influence.damping", std::vector<double>{1e-1, 1e-2, 1e-4},
                  "damping d over the largest eigenvalue of the curvature",
                  {.minimum = 0, .above_minimum = true, .not_empty = true, .when = of_models});
  options.declare(
      "influence.curvature", "gauss_newton",
      "gauss_newton: conjugate gradients; hessian: MINRES, for damping above its most negative eigenvalue",
      {.choices = {"gauss_newton", "hessian"}, .when = by_krylov});
  options.declare("influence.tolerance", 1e-10, "relative residual of the solution for a test sample",
                  {.minimum = 1e-14, .maximum = 0.1, .when = by_krylov});
  options.declare(
      "influence.suspects", 12L,
      "number of training samples of the largest self-influence whose tokens are stored, to be looked at; "
      "0: none",
      {.minimum = 0});
  options.declare(epochs_option("influence.epochs"));
}

void declare_influence_of_head(Options& options) {
  options.declare("influence.ridge", 1e-3,
                  "strength of the penalty ridge/2 |W|^2 of the last linear map, its bias included",
                  {.minimum = 0, .above_minimum = true, .when = by_head});
  options.declare("influence.retrain", 100L,
                  "number of training samples that are left out one by one, the map being trained again each "
                  "time; 0: none",
                  {.minimum = 0, .when = by_head});
  options.declare("influence.removed", std::vector<long>{1, 10, 30, 100},
                  "numbers of training samples that are left out together, drawn at random; empty: none",
                  {.minimum = 1, .when = by_head});
  options.declare(
      "influence.removal", "newton",
      "account of change_without, for all training samples: first order, or one Newton step with the "
      "sample's own curvature taken away",
      {.choices = {"first", "newton"}, .when = by_head});
  options.declare("influence.kept", std::vector<long>{10, 30, 100},
                  "numbers of eigenvalues that a truncated Hessian keeps, for the table of curvatures",
                  {.minimum = 1, .when = by_head});
}

void declare_influence(Options& options) {
  declare_compared(options);
  declare_minimised(options);
  declare_masked_words(options);
  declare_influence_solver(options);
  declare_influence_of_head(options);
  declare_study_run(options, "influence.h5");
}

/// The analysis of the influence on each model.
struct InfluencePlan {
  enum class Solver { head, gram, krylov };
  Solver solver = Solver::head;
  long samples = 0;
  std::vector<std::string> variables;
  std::vector<double> damping;  ///< of the head: 0
  Curvature curvature = Curvature::gauss_newton;
  double tolerance = 0, ridge = 0;
  long retrain = 0, suspects = 0;
  Removal removal = Removal::newton;
  std::vector<long> removed, kept, epochs;
  std::uint64_t seed = 1;
  MinimisedPlan minimised = {};
};

InfluencePlan influence_plan_of(const Settings& settings) {
  if (precision_of(settings) != Precision::float64)
    throw BadInput("run.precision = " + settings.word("run.precision") +
                   ": second derivatives are computed in double; use double");
  const auto& word = settings.word("influence.solver");
  InfluencePlan plan{
      .solver = word == "head"   ? InfluencePlan::Solver::head
                : word == "gram" ? InfluencePlan::Solver::gram
                                 : InfluencePlan::Solver::krylov,
      .samples = settings.integer("influence.samples"),
      .variables = settings.words("influence.parameters"),
      .damping = settings.reals("influence.damping"),
      .curvature =
          settings.word("influence.curvature") == "hessian" ? Curvature::hessian : Curvature::gauss_newton,
      .tolerance = settings.real("influence.tolerance"),
      .ridge = settings.real("influence.ridge"),
      .retrain = std::min(settings.integer("influence.retrain"), settings.integer("influence.samples")),
      .suspects = std::min(settings.integer("influence.suspects"), settings.integer("influence.samples")),
      .removal = settings.word("influence.removal") == "first" ? Removal::first : Removal::newton,
      .removed = settings.integers("influence.removed"),
      .kept = settings.integers("influence.kept"),
      .epochs = settings.integers("influence.epochs"),

      .seed = static_cast<std::uint64_t>(settings.integer("run.seed")),
      .minimised = minimised_plan_of(settings)};
  if (plan.solver == InfluencePlan::Solver::head) {
    plan.damping = {0};
    if (!settings.given("influence.removed"))
      std::erase_if(plan.removed, [&](long removed) { return removed >= plan.samples; });
    for (const long removed : plan.removed)
      if (removed >= plan.samples)
        throw BadInput("influence.removed = " + std::to_string(removed) + ": there are influence.samples = " +
                       std::to_string(plan.samples) + " training samples");
  }
  return plan;
}

/// A row of the table of curvatures.
struct NamedCurvature {
  std::string name;
  HeadCurvature by;
  long kept = 0;
};

/// The curvatures that are compared: of the head with training again, of whole models by gram with the exact one.
std::vector<NamedCurvature> curvatures_of(const InfluencePlan& plan) {
  if (plan.solver != InfluencePlan::Solver::head)
    return {{"identity", HeadCurvature::identity}, {"diagonal", HeadCurvature::diagonal}};
  std::vector<NamedCurvature> all{{"exact", HeadCurvature::exact},
                                  {"identity", HeadCurvature::identity},
                                  {"diagonal", HeadCurvature::diagonal},
                                  {"classes", HeadCurvature::classes}};
  for (const long kept : plan.kept)
    all.push_back({"truncated_" + std::to_string(kept), HeadCurvature::truncated, kept});
  all.push_back({"kfac", HeadCurvature::kfac});
  all.push_back({"ekfac", HeadCurvature::ekfac});
  return all;
}

// In the order of InfluencePlan::Solver, and of the precisions.
const std::vector<std::string> solver_words{"head", "gram", "krylov"},
    score_words{"self_influence", "loss", "gradient_norm", "mean_influence"};

std::vector<double> numbers_of(const RowMatrix& matrix) {
  return {matrix.data(), matrix.data() + matrix.size()};
}

class Influence final : public ModelStudy {
 public:
  Influence(const Settings& settings, MPI_Comm comm);
  static study::Contents contents();
  std::string describe() const override;
  std::vector<Source> sources() const override;

 protected:
  void add_axes(StudyRecord& record) override;
  void measure_model(std::size_t seed, const std::string& name, Results& to) override;
  std::vector<long> epochs() const override { return plan_.epochs; }

 private:
  /// The scores of training samples, from which suspects are told; empty ones are not known. Without losses: the run was
  /// asked to stop.
  struct Suspicion {
    std::vector<double> loss, gradient_norm, correct;
    std::vector<std::vector<double>> self, mean;    // by damping; self may be empty
    std::vector<std::vector<double>> epoch_losses;  // of weight snapshots
  };
  /// The training split of a model; its samples are those of training_samples.
  std::unique_ptr<ComparedInput> training_input(std::size_t seed, const std::string& name) const;
  /// The first influence.samples that the training learnt from. Throws BadInput if there are fewer.
  SampleSet training_samples(const ComparedInput& input, std::size_t seed, const std::string& name) const;
  hessian::Objective objective_of(const ComparedModel& model) const {
    return minimised(plan_.minimised, model.origin, model.parameters);
  }
  SampleSet guessed(const SampleSet& samples, const ComparedModel& model, const std::string& name) const {
    return with_targets(samples, masked_share_, model, name);
  }
  Suspicion by_the_head(std::size_t seed, const std::string& name, const SampleSet& train, Results& to) const;
  /// Scores of all pairs by damping, and numbers of the samples; without pairs: the run was asked to stop.
  struct PairScores {
    std::vector<RowMatrix> pairs = {};
    std::vector<std::vector<double>> self = {};
    influence::SampleNumbers train = {}, test = {};
  };
  PairScores by_gram(hessian::TrainingHessian& of, influence::SampleGradients& own,
                     influence::SampleGradients& tested, Results& to) const;
  PairScores by_krylov(hessian::TrainingHessian& of, influence::SampleGradients& own,
                       influence::SampleGradients& tested, const spectra::Block& block, Results& to) const;
  Suspicion by_gradients(std::size_t seed, const std::string& name, const SampleSet& train,
                         Results& to) const;
  void compare_with_training_again(const influence::ConvexHead& head, const influence::LabelledFeatures& test,
                                   Results& to) const;
  void compare_sets(const influence::ConvexHead& head, const influence::LabelledFeatures& test,
                    Results& to) const;
  /// The samples of the largest self-influence, with the numbers of their tokens.
  void put_features(const SampleSet& train, const std::vector<double>& self, Results& to) const;
  void put_suspects(const SampleSet& train, const Suspicion& of, const std::string& name, Results& to) const;
  /// Columns f(place) for places 0 .. count - 1, which the ranks share out, [row][place].
  template <class Column>
  std::vector<double> shared_columns(std::size_t rows, Index count, Column&& column) const;
  void require_model(std::size_t seed, const std::string& name) const;
  /// Scores [test][train] and their means over the test samples, by damping.
  void put_pairs(const std::vector<RowMatrix>& pairs, Suspicion& found, Results& to) const;

  InfluencePlan plan_;
  KeyOfTraining<double> masked_share_;
};

Influence::Influence(const Settings& settings, MPI_Comm comm)
    : ModelStudy(settings, comm, {.head = ModelNeeds::Head::loss, .transformer = false}),
      plan_(influence_plan_of(settings)),
      masked_share_(masked_share(settings)) {
  require_answers(problem(), masked_share_, "the loss");
  for (std::size_t seed = 0; seed < problem().models().seeds().size(); ++seed)
    for (const auto& name : problem().models().names()) require_model(seed, name);
  problem().models().require_epochs(epochs());
}

void Influence::require_model(std::size_t seed, const std::string& name) const {
  const auto& model = problem().models().at(seed, name);
  const auto& spec = model.parameters.spec;
  if (spec.guesses_words() && plan_.solver != InfluencePlan::Solver::krylov)
    throw BadInput("models." + name + " guesses words: influence.solver = krylov is for such models");
  const auto input = training_input(seed, name);
  const auto train = training_samples(*input, seed, name);
  if (plan_.solver == InfluencePlan::Solver::head) return;
  const Trainable trainable(model.parameters, objective_of(model).coefficients);
  const auto block =
      influence::chosen_variables(model.parameters, trainable, plan_.variables, "influence.parameters");
  if (seed > 0) return;
  if (plan_.solver == InfluencePlan::Solver::krylov)
    return require_hessian(train, model.parameters, objective_of(model).loss);
  require_memory(problem().comm(),
                 influence::gram_bytes(train, problem().input_of(name).samples(), spectra::block_size(block),
                                       spec.classes),
                 "influence.solver = gram with influence.samples = " + std::to_string(plan_.samples) +
                     ", for the gradients of all outputs over " + std::to_string(spectra::block_size(block)) +
                     " variables of models." + name);
}

std::unique_ptr<ComparedInput> Influence::training_input(std::size_t seed, const std::string& name) const {
  const auto& shared = problem().input_of(name);
  auto plan = plan_of_training(shared.plan(), problem().models().at(seed, name).origin);
  plan.count = 1;
  return std::make_unique<ComparedInput>(plan, problem().comm(), shared.line().comm(),
                                         problem().models().known_input());
}

namespace {

/// The samples that a training learnt from, in its order: those that it drew, less those of its validation. Of a model of
/// unknown origin all of the split, in drawing order.
std::vector<std::size_t> learnt_samples(const ComparedInput& input, const ModelOrigin& origin) {
  const auto key = [&](const std::string& name) {
    return origin.value(name).empty() ? 0 : origin.number(name);
  };
  const auto seed = input.plan().seed;
  auto drawn = shuffled(input.data().size(), seed, "training", 0);
  if (!origin.trained()) return drawn;
  if (const auto count = static_cast<std::size_t>(key("train.samples")); count > 0)
    drawn.resize(std::min(count, drawn.size()));
  else
    std::ranges::sort(drawn);
  const auto apart = static_cast<std::size_t>(key("train.validation") * static_cast<double>(drawn.size()));
  const auto order = shuffled(drawn.size(), seed, "validation", 0);
  std::vector<std::size_t> learnt;
  for (std::size_t k = apart; k < order.size(); ++k) learnt.push_back(drawn[order[k]]);
  return learnt;
}

}  // namespace

SampleSet Influence::training_samples(const ComparedInput& input, std::size_t seed,
                                      const std::string& name) const {
  auto learnt = learnt_samples(input, problem().models().at(seed, name).origin);
  if (plan_.samples > std::ssize(learnt))
    throw BadInput("influence.samples = " + std::to_string(plan_.samples) + ": models." + name +
                   " was trained on " + std::to_string(learnt.size()) + " samples");
  learnt.resize(static_cast<std::size_t>(plan_.samples));
  return input.samples().with(learnt, problem().samples().capacity());
}

std::vector<Study::Source> Influence::sources() const {
  auto all = ModelStudy::sources();
  for (std::size_t seed = 0; seed < problem().models().seeds().size(); ++seed)
    for (const auto& name : problem().models().names()) {
      const auto input = training_input(seed, name);
      const auto train = training_samples(*input, seed, name);
      all.push_back({.called = "training samples of models." + name,
                     .digest = digest_of_samples(input->data(), train.members())});
    }
  return all;
}

study::Contents Influence::contents() {
  namespace of = influence::variables;
  return compare::with_models({{axes::test_sample, of::train_sample, of::test_sample, of::damping,
                                of::curvature, of::retrained_sample, of::removed, of::score, of::suspect,
                                axes::copied_epoch, axes::token, axes::feature},
                               {of::solver, of::removal, of::influence_parameters, of::curvature_names,
                                of::score_names, names::tokens_x, names::tokens_y},
                               {},
                               {of::train_index,
                                of::label,
                                of::right_label,
                                of::wrong,
                                of::loss,
                                of::correct,
                                of::gradient_norm,
                                of::test_label,
                                of::test_loss,
                                of::influence,
                                of::mean_influence,
                                of::self_influence,
                                of::change_without,
                                of::objective_gradient_norm,
                                of::largest_eigenvalue,
                                of::smallest_eigenvalue,
                                of::negative_share,
                                of::products,
                                of::residual,
                                of::retrained,
                                of::change_first,
                                of::change_newton,
                                of::first_spearman,
                                of::first_pearson,
                                of::first_relative_error,
                                of::first_top_share,
                                of::newton_spearman,
                                of::newton_pearson,
                                of::newton_relative_error,
                                of::newton_top_share,
                                of::set_first_relative_error,
                                of::set_newton_relative_error,
                                of::curvature_relative_error,
                                of::curvature_spearman,
                                of::damped_relative_error,
                                of::damped_spearman,
                                of::planted,
                                of::precision,
                                of::random_precision,
                                of::self_influence_precision,
                                of::mean_influence_precision,
                                of::epoch_loss_precision,
                                of::fitted_wrong,
                                of::fitted_right,
                                of::suspect_sample,
                                of::suspect_features}});
}

std::string Influence::describe() const {
  std::ostringstream text;
  text << ModelStudy::describe() << '\n' << plan_.samples << " training samples of each model; ";
  for (const auto& name : problem().models().names()) {
    const auto& model = problem().models().at(0, name);
    if (plan_.solver == InfluencePlan::Solver::head) {
      text << "the last linear map, trained again on the features";
      break;
    }
    const Trainable trainable(model.parameters, objective_of(model).coefficients);
    text << name << ": "
         << spectra::block_size(influence::chosen_variables(model.parameters, trainable, plan_.variables,
                                                            "influence.parameters"))
         << " variables" << (name == problem().models().names().back() ? "" : "; ");
  }
  return text.str();
}

void Influence::add_axes(StudyRecord& record) {
  namespace of = influence::variables;
  record.samples(problem().members());
  const auto& members = problem().members();
  record.axis(of::test_sample, {members.begin(), members.end()});
  record.axis(of::train_sample, 0, plan_.samples - 1);
  record.axis(of::damping, plan_.damping);
  record.axis(of::score, 0, std::ssize(score_words) - 1);
  record.note("", of::score_names, as_lines(score_words));
  record.note("", of::solver, solver_words[static_cast<std::size_t>(plan_.solver)]);
  record.note("", of::influence_parameters, as_lines(plan_.variables));
  record.note("", names::tokens_x, static_cast<long>(problem().line().tokens_x()));
  record.note("", names::tokens_y, static_cast<long>(problem().line().tokens_y()));
  if (plan_.suspects > 0) {
    record.axis(of::suspect, 1, plan_.suspects);
    record.axis(axes::token, 0, problem().line().tokens() - 1);
    record.axis(axes::feature, 0, problem().data().features() - 1);
  }
  if (!plan_.epochs.empty()) record.axis(axes::copied_epoch, {plan_.epochs.begin(), plan_.epochs.end()});
  if (plan_.solver != InfluencePlan::Solver::krylov) {
    std::vector<std::string> curvatures;
    for (const auto& row : curvatures_of(plan_)) curvatures.push_back(row.name);
    record.axis(of::curvature, 0, std::ssize(curvatures) - 1);
    record.note("", of::curvature_names, as_lines(curvatures));
  }
  if (plan_.solver != InfluencePlan::Solver::head) return;
  record.note("", of::removal, plan_.removal == Removal::first ? "first" : "newton");
  if (plan_.retrain > 0) record.axis(of::retrained_sample, 0, plan_.retrain - 1);
  if (!plan_.removed.empty()) record.axis(of::removed, {plan_.removed.begin(), plan_.removed.end()});
}

template <class Column>
std::vector<double> Influence::shared_columns(std::size_t rows, Index count, Column&& column) const {
  std::vector<double> all(rows * static_cast<std::size_t>(count), 0.0);
  const int rank = mpi::rank(problem().comm()), ranks = mpi::size(problem().comm());
  collectively(problem().comm(), [&] {
    for (Index place = rank; place < count; place += ranks) {
      const std::vector<double> mine = column(place);
      for (std::size_t row = 0; row < rows; ++row)
        all[row * static_cast<std::size_t>(count) + place] = mine[row];
    }
  });
  sum_over_ranks(all, problem().comm());
  return all;
}

void Influence::put_pairs(const std::vector<RowMatrix>& pairs, Suspicion& found, Results& to) const {
  std::vector<double> all, means;
  for (const auto& one : pairs) {
    const auto numbers = numbers_of(one);
    all.insert(all.end(), numbers.begin(), numbers.end());
    const Eigen::RowVectorXd mean = one.colwise().mean();
    found.mean.emplace_back(mean.begin(), mean.end());
    means.insert(means.end(), mean.begin(), mean.end());
  }
  to.put(influenced::influence, std::move(all));
  to.put(influenced::mean_influence, std::move(means));
}

/// The error of scores by a cheaper curvature, and how well they are in order.
struct CurvatureRow {
  double error, spearman;
};
CurvatureRow compared_scores(const RowMatrix& cheap, const RowMatrix& exact) {
  const auto of = interventions::agreement(numbers_of(cheap), numbers_of(exact));
  return {of.relative_error, of.spearman};
}

void Influence::compare_with_training_again(const influence::ConvexHead& head,
                                            const influence::LabelledFeatures& test, Results& to) const {
  const std::size_t tests = test.labels.size();
  const auto change = [&](auto&& of) { return shared_columns(tests, plan_.retrain, of); };
  const auto truth = change([&](Index place) { return head.retrained_without({place}, test); }),
             newton =
                 change([&](Index place) { return head.change_without({place}, test, Removal::newton); });
  const auto changes_by = [&](HeadCurvature by, long kept) {
    const RowMatrix part = head.influence(test, by, kept).leftCols(plan_.retrain);
    return numbers_of(-1.0 / static_cast<double>(head.size()) * part);
  };
  const auto first = changes_by(HeadCurvature::exact, 0);
  to.put(influenced::retrained, truth);
  to.put(influenced::change_first, first);
  to.put(influenced::change_newton, newton);
  const auto of_first = interventions::agreement(first, truth),
             of_newton = interventions::agreement(newton, truth);
  to.put(influenced::first_spearman, {of_first.spearman});
  to.put(influenced::first_pearson, {of_first.pearson});
  to.put(influenced::first_relative_error, {of_first.relative_error});
  to.put(influenced::first_top_share, {of_first.top_share});
  to.put(influenced::newton_spearman, {of_newton.spearman});
  to.put(influenced::newton_pearson, {of_newton.pearson});
  to.put(influenced::newton_relative_error, {of_newton.relative_error});
  to.put(influenced::newton_top_share, {of_newton.top_share});
  std::vector<double> ranks;
  for (const auto& [name, by, kept] : curvatures_of(plan_))
    ranks.push_back(interventions::agreement(changes_by(by, kept), truth).spearman);
  to.put(influenced::curvature_spearman, ranks);
  std::ostringstream words;
  words << "one sample left out, against training again: rank correlation " << of_first.spearman
        << ", relative error " << of_first.relative_error << " to first order, " << of_newton.relative_error
        << " by one Newton step";
  to.say(words.str());
}

void Influence::compare_sets(const influence::ConvexHead& head, const influence::LabelledFeatures& test,
                             Results& to) const {
  const auto order =
      shuffled(static_cast<std::size_t>(head.size()), plan_.seed, "samples left out together", 0);
  const auto change = [&](auto&& of) {
    return shared_columns(test.labels.size(), std::ssize(plan_.removed), of);
  };
  const auto set = [&](Index k) {
    std::vector<Index> places;
    for (long i = 0; i < plan_.removed[k]; ++i) places.push_back(static_cast<Index>(order[i]));
    return places;
  };
  const auto truth = change([&](Index k) { return head.retrained_without(set(k), test); });
  const auto errors = [&](Removal by) {
    const auto account = change([&](Index k) { return head.change_without(set(k), test, by); });
    std::vector<double> all;
    for (std::size_t k = 0; k < plan_.removed.size(); ++k) {
      double off = 0, size = 0;
      for (std::size_t at = k; at < truth.size(); at += plan_.removed.size()) {
        off += std::pow(account[at] - truth[at], 2);
        size += std::pow(truth[at], 2);
      }
      all.push_back(std::sqrt(off / size));
    }
    return all;
  };
  to.put(influenced::set_first_relative_error, errors(Removal::first));
  to.put(influenced::set_newton_relative_error, errors(Removal::newton));
}

Influence::Suspicion Influence::by_the_head(std::size_t seed, const std::string& name, const SampleSet& train,
                                            Results& to) const {
  const auto& parameters = problem().models().at(seed, name).parameters;
  const auto features_of = [&](const SampleSet& samples) {
    influence::LabelledFeatures all;
    all.features = influence::head_features(*problem().probe(parameters, samples.capacity()), samples);
    for (const auto member : samples.members()) all.labels.push_back(samples.data().label(member));
    return all;
  };
  const auto test = features_of(problem().input_of(name).samples()), own = features_of(train);
  std::optional<influence::ConvexHead> made;
  collectively(problem().comm(), [&] { made.emplace(own, parameters.spec.classes, plan_.ridge); });
  const auto& head = *made;
  Suspicion found{.loss = head.train_losses(),
                  .gradient_norm = head.gradient_norms(),
                  .correct = {},
                  .self = {head.self_influence()},
                  .mean = {},
                  .epoch_losses = {}};
  const RowMatrix z = own.features * head.weights().leftCols(own.features.cols()).transpose();
  for (Index i = 0; i < head.size(); ++i) {
    Index answer = 0;
    (z.row(i) + head.weights().col(own.features.cols()).transpose()).maxCoeff(&answer);
    found.correct.push_back(answer == own.labels[static_cast<std::size_t>(i)] ? 1 : 0);
  }
  const RowMatrix exact = head.influence(test);
  put_pairs({exact}, found, to);
  to.put(influenced::self_influence, found.self.front());
  to.put(influenced::test_loss, head.losses(test));
  to.put(influenced::objective_gradient_norm, {head.gradient_norm()});
  to.put(influenced::change_without, shared_columns(test.labels.size(), head.size(), [&](Index place) {
           return head.change_without({place}, test, plan_.removal);
         }));
  std::vector<double> errors;
  for (const auto& [called, by, kept] : curvatures_of(plan_))
    errors.push_back(compared_scores(head.influence(test, by, kept), exact).error);
  to.put(influenced::curvature_relative_error, errors);
  if (plan_.retrain > 0) compare_with_training_again(head, test, to);
  if (!plan_.removed.empty()) compare_sets(head, test, to);
  return found;
}

Influence::PairScores Influence::by_gram(hessian::TrainingHessian& of, influence::SampleGradients& own,
                                         influence::SampleGradients& tested, Results& to) const {
  PairScores found;
  const influence::GramInfluence all(of, own, tested);
  std::vector<double> self, errors, ranks;
  for (const auto& one : all.scores(plan_.damping)) {
    found.pairs.push_back(one.pairs);
    found.self.push_back(one.self);
    self.insert(self.end(), one.self.begin(), one.self.end());
    const double relative = plan_.damping[found.pairs.size() - 1];
    // The dot product of gradients is the curvature d alone.
    const RowMatrix dots = 1 / one.damping * all.identity().pairs;
    for (const auto& row :
         {compared_scores(dots, one.pairs), compared_scores(all.diagonal(relative).pairs, one.pairs)}) {
      errors.push_back(row.error);
      ranks.push_back(row.spearman);
    }
  }
  found.train = all.train();
  found.test = all.test();
  to.put(influenced::largest_eigenvalue, {all.largest()});
  to.put(influenced::self_influence, self);
  to.put(influenced::damped_relative_error, errors);
  to.put(influenced::damped_spearman, ranks);
  return found;
}

Influence::PairScores Influence::by_krylov(hessian::TrainingHessian& of, influence::SampleGradients& own,
                                           influence::SampleGradients& tested, const spectra::Block& block,
                                           Results& to) const {
  PairScores found;
  const auto ends = influence::curvature_ends(of, problem().comm(), block, plan_.curvature);
  std::vector<double> products, residuals;
  for (const double relative : plan_.damping) {
    if (!to.go_on(static_cast<double>(found.pairs.size()) / static_cast<double>(plan_.damping.size()),
                  "solves"))
      return {};
    const auto one = influence::krylov_influence(
        of, own, tested,
        {.part = plan_.curvature, .damping = relative * ends.largest, .tolerance = plan_.tolerance});
    found.pairs.push_back(one.pairs);
    products.insert(products.end(), one.products.begin(), one.products.end());
    residuals.insert(residuals.end(), one.residual.begin(), one.residual.end());
    found.train = one.train;
    found.test = one.test;
  }
  to.put(influenced::largest_eigenvalue, {ends.largest});
  if (plan_.curvature == Curvature::hessian) to.put(influenced::smallest_eigenvalue, {ends.smallest});
  to.put(influenced::products, products);
  to.put(influenced::residual, residuals);
  return found;
}

Influence::Suspicion Influence::by_gradients(std::size_t seed, const std::string& name,
                                             const SampleSet& samples, Results& to) const {
  const auto& model = problem().models().at(seed, name);
  const auto objective = objective_of(model);
  const auto train = guessed(samples, model, name),
             test = guessed(problem().input_of(name).samples(), model, name);
  const bool gram = plan_.solver == InfluencePlan::Solver::gram;
  // Rows of all outputs cost least in batches of one sample.
  ModelHessian linearised(gram ? samples.with(samples.members(), 1) : train, model.parameters, objective);
  auto& of = linearised.products;
  const auto block =
      influence::chosen_variables(model.parameters, of.trainable(), plan_.variables, "influence.parameters");
  influence::SampleGradients own(model.parameters, of.trainable(), train, objective.loss, block),
      tested(model.parameters, of.trainable(), test, objective.loss, block);
  std::vector<double> g;
  influence::take_entries(of.gradient(), block, g);
  to.put(influenced::objective_gradient_norm,
         {std::sqrt(std::inner_product(g.begin(), g.end(), g.begin(), 0.0))});
  // One probe of Lanczos: the weight of its negative nodes.
  const HessianPart whole(problem().comm(), of, "hessian");
  double negative = 0;
  const auto quadrature = spectra::spectral_density(spectra::restricted(whole.whole(), block),
                                                    {.probes = 1, .steps = 30, .seed = plan_.seed});
  const auto& [nodes, node_weights] = quadrature.front();
  // Eigenvalues that round-off makes negative do not count.
  const double round_off = 1e-12 * std::max(std::abs(nodes.front()), std::abs(nodes.back()));
  for (std::size_t k = 0; k < nodes.size(); ++k)
    if (nodes[k] < -round_off) negative += node_weights[k];
  to.put(influenced::negative_share, {negative});
  Suspicion found;
  if (!to.go_on(0.1, "gradients and curvature")) return {};
  auto scores = gram ? by_gram(of, own, tested, to) : by_krylov(of, own, tested, block, to);
  if (scores.pairs.empty()) return {};
  put_pairs(scores.pairs, found, to);
  found.self = std::move(scores.self);
  const auto &numbers = scores.train, &numbers_of_test = scores.test;
  to.put(influenced::test_loss, numbers_of_test.loss);
  found.loss = numbers.loss;
  found.gradient_norm = numbers.norm;
  found.correct = numbers.correct;
  for (const long epoch : plan_.epochs) {
    const auto then = problem().models().after_epoch(seed, name, epoch);
    influence::SampleGradients gradients(then, of.trainable(), train, objective.loss, block);
    found.epoch_losses.push_back(influence::sample_numbers(gradients).loss);
  }
  return found;
}

void Influence::put_suspects(const SampleSet& train, const Suspicion& of, const std::string& name,
                             Results& to) const {
  std::vector<double> index, labels, right, wrong, tested;
  const auto& data = train.data();
  for (const auto member : train.members()) {
    index.push_back(static_cast<double>(member));
    labels.push_back(data.label(member));
    right.push_back(data.right_label(member));
    wrong.push_back(labels.back() == right.back() ? 0 : 1);
  }
  tested.reserve(problem().members().size());
  for (const auto member : problem().members())
    tested.push_back(problem().input_of(name).data().label(member));
  const double planted = std::accumulate(wrong.begin(), wrong.end(), 0.0),
               count = static_cast<double>(wrong.size());
  to.put(influenced::train_index, index);
  to.put(influenced::label, labels);
  to.put(influenced::right_label, right);
  to.put(influenced::wrong, wrong);
  to.put(influenced::test_label, tested);
  to.put(influenced::loss, of.loss);
  to.put(influenced::gradient_norm, of.gradient_norm);
  to.put(influenced::correct, of.correct);
  to.put(influenced::planted, {planted});
  if (plan_.suspects > 0 && !of.self.empty()) put_features(train, of.self.front(), to);
  if (planted == 0) return;
  double fitted_wrong = 0, fitted_right = 0;
  for (std::size_t i = 0; i < wrong.size(); ++i)
    (wrong[i] > 0 ? fitted_wrong : fitted_right) += of.correct[i];
  to.put(influenced::fitted_wrong, {fitted_wrong / planted});
  to.put(influenced::fitted_right, {fitted_right / (count - planted)});
  const auto precision = [&](const std::vector<double>& score) {
    return influence::precision_at(score, wrong, static_cast<std::size_t>(planted));
  };
  const auto by_damping = [&](const std::vector<std::vector<double>>& scores) {
    std::vector<double> all;
    all.reserve(scores.size());
    for (const auto& one : scores) all.push_back(precision(one));
    return all;
  };
  const auto self = of.self.empty() ? std::vector<double>(plan_.damping.size(), missing_value)
                                    : by_damping(of.self),
             mean = by_damping(of.mean);
  const std::vector<double> all{self.front(), precision(of.loss), precision(of.gradient_norm), mean.front()};
  to.put(influenced::precision, all);
  to.put(influenced::random_precision, {planted / count});
  to.put(influenced::self_influence_precision, self);
  to.put(influenced::mean_influence_precision, mean);
  if (!of.epoch_losses.empty()) to.put(influenced::epoch_loss_precision, by_damping(of.epoch_losses));
  std::ostringstream words;
  words << name << ": " << planted << " wrong labels; among as many suspects by self-influence " << all[0]
        << ", by loss " << all[1] << ", by gradient norm " << all[2] << ", at random " << planted / count;
  to.say(words.str());
}

void Influence::put_features(const SampleSet& train, const std::vector<double>& self, Results& to) const {
  const auto order = influence::largest_scores(self, static_cast<std::size_t>(plan_.suspects));
  const auto& data = train.data();
  const Index each = Index{data.tokens_x()} * data.tokens_y() * data.features();
  std::vector<double> samples, features(plan_.suspects * each);
  for (Index k = 0; k < plan_.suspects; ++k) {
    samples.push_back(static_cast<double>(order[static_cast<std::size_t>(k)]));
    data.tokens(train.members()[order[static_cast<std::size_t>(k)]], features.data() + k * each);
  }
  to.put(influenced::suspect_sample, samples);
  to.put(influenced::suspect_features, features);
}

void Influence::measure_model(std::size_t seed, const std::string& name, Results& to) {
  const auto input = training_input(seed, name);
  const auto train = training_samples(*input, seed, name);
  if (!to.go_on(0, "training samples")) return;
  const auto found = plan_.solver == InfluencePlan::Solver::head ? by_the_head(seed, name, train, to)
                                                                 : by_gradients(seed, name, train, to);
  if (found.loss.empty()) return;  // asked to stop
  for (const auto& numbers : {found.loss, found.gradient_norm})
    for (const double number : numbers)
      if (!std::isfinite(number))
        throw NumericalFailure("models." + name + ": the loss of a training sample is not finite");
  put_suspects(train, found, name, to);
}

}  // namespace

ExperimentEntry influence_experiment() {
  return study_entry<Influence>(
      {.name = "influence",
       .family = "interventions",
       .sentence = "measures which training samples made a model answer as it does, by exact curvature",
       .cites = "docs/model.md; Koh, Liang, arXiv 1703.04730; Schioppa et al., arXiv 2112.03052",
       .declare = declare_influence},
      minimised_as_trained);
}

}  // namespace fluxformer
