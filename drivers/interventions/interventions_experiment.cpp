// `interventions`: which states make a trained model answer as it does? States are replaced and the model is run again,
// beside the accounts by first order and better that are in use.

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <sstream>

#include "analysis/interventions/intervention_variables.hpp"
#include "base/error.hpp"
#include "drivers/common/run_options.hpp"
#include "drivers/compare/model_study.hpp"
#include "drivers/interventions/measured.hpp"
#include "drivers/interventions/pairs.hpp"
#include "drivers/interventions/steering.hpp"
#include "drivers/registry.hpp"
#include "io/layout.hpp"

namespace fluxformer {

namespace patched = interventions::variables;

namespace {

using interventions::InterventionPlan;
using interventions::Site;
using interventions::SiteScope;

// Accounts beside first order, which is always there.
const std::vector<std::string> intervention_accounts{"exact",      "softmax", "second", "reverse",
                                                     "integrated", "pairs",   "zeroing"};
constexpr int widest_second_order =
    128;  // channels up to which second order is taken without being asked for

std::vector<std::string> site_words() {
  std::vector<std::string> words;
  for (const Site site : interventions::all_sites) words.push_back(interventions::site_word(site));
  return words;
}

void declare_pairs(Options& options) {
  options.declare(
      "interventions.pairs", 4L,
      "pairs of samples, clean and donor, found in the order in which samples are drawn: of one length, "
      "with different labels that are both guessed, or with different words guessed",
      {.minimum = 1, .maximum = 100000});
  options.declare(
      "interventions.indices", std::vector<long>{},
      "pairs by the indices of their samples in the test split: clean, donor, ...; no sample twice; "
      "empty: the first interventions.pairs that are found",
      {.minimum = 0});
  options.declare("interventions.token", -1L,
                  "models that guess words: token at which a word is asked for; -1: the last real one",
                  {.minimum = -1, .maximum = std::numeric_limits<int>::max()});
  options.declare(
      "interventions.goal", "logits",
      "number whose change an effect is: logits z_a - z_b of the answers to clean and donor, logit z_a, or "
      "loss log sum exp z - z_a",
      {.choices = {"logits", "logit", "loss"}});
  options.declare(
      "interventions.put", "donor",
      "state that replaces another: that of the other sample, the mean over the samples by token, or zero",
      {.choices = {"donor", "mean", "zero"}});
}

void declare_accounts(Options& options) {
  options.declare(
      "interventions.sites", std::vector<std::string>{},
      "states that are replaced, token by token: faces between depth cells, what attention or the network "
      "(ffn) adds, outputs of heads, queries, keys, values; empty: all that a model has",
      {.choices = site_words()});
  options.declare("interventions.accounts", std::vector<std::string>{},
                  "accounts of effects beside first order: exact (run again), softmax (queries and keys, the "
                  "soft-max computed "
                  "again), second order of faces, reverse (the opposite patch run again), integrated "
                  "gradients of faces, pairs of "
                  "tokens of interventions.face by curvature and run again, zeroing of values; empty: the "
                  "first four as far as they "
                  "apply, second order up to 128 channels",
                  {.choices = intervention_accounts});
  options.declare(
      "interventions.verify", 1.0,
      "share of the places of a site that are run again for exact, those of the largest effect by the best "
      "account first, and all of faces that are not to be trusted",
      {.minimum = 0, .maximum = 1});
  options.declare("interventions.limit", 0.1,
                  "second order over first order above which first order is not to be trusted",
                  {.minimum = 0, .above_minimum = true});
  options.declare(
      "interventions.tolerance", 1e-8,
      "integrated gradients: estimated error of their sum, relative to the effect of the whole face, below "
      "which intervals are no longer halved",
      {.minimum = 1e-14, .maximum = 1});
  options.declare("interventions.runs", 16L, "patched runs at a time on each rank",
                  {.minimum = 1, .maximum = 4096});
}

void declare_steering(Options& options) {
  options.declare("interventions.face", -1L, "face of steering and of pairs of tokens; -1: the middle one",
                  {.minimum = -1, .maximum = std::numeric_limits<int>::max()});
  options.declare(
      "interventions.doses", std::vector<double>{-1, -0.5, 0, 0.5, 1},
      "steering: multiples of the difference of two class means that are added to a face; empty: no "
      "steering");
  options.declare("interventions.steered", 30L,
                  "steering: samples that are steered, the first of samples.count",
                  {.unit = "samples", .minimum = 1});
  options.declare("interventions.fit", 300L,
                  "steering: further samples whose class means are taken; 0: those of samples.count",
                  {.unit = "samples", .minimum = 0});
}

void declare_interventions(Options& options) {
  declare_compared(options);
  declare_study_run(options, "interventions.h5");
  declare_pairs(options);
  declare_accounts(options);
  declare_steering(options);
}

class Interventions final : public ModelStudy {
 public:
  Interventions(const Settings& settings, MPI_Comm comm);
  static study::Contents contents();
  std::string describe() const override;

 protected:
  void add_axes(StudyRecord& record) override;
  void measure_model(std::size_t seed, const std::string& name, Results& to) override;

 private:
  const ComparedModel& model(const std::string& name) const { return problem().models().at(0, name); }
  bool asks_for(const std::string& account) const {
    return std::ranges::find(accounts_, account) != accounts_.end();
  }
  /// True for an account of the first four that was asked for, or not excluded.
  bool wants(const std::string& account) const { return accounts_.empty() || asks_for(account); }
  /// The keys that all models share.
  InterventionPlan common_plan(const Settings& settings) const;
  /// The plan of a model. Throws BadInput, naming the model, for what it cannot do.
  InterventionPlan plan_of(const std::string& name, InterventionPlan plan) const;
  void choose_sites(const std::string& name, InterventionPlan& plan) const;
  int middle_face(const std::string& name) const {
    const auto& plan = plans_.at(name);
    return plan.face >= 0 ? plan.face : model(name).parameters.spec.depth().cells / 2;
  }

  std::vector<std::string> accounts_;  // interventions.accounts; empty: those that apply
  std::vector<std::string> sites_;     // interventions.sites; empty: those that the model has
  long steered_;
  std::string goal_, put_;
  std::map<std::string, InterventionPlan> plans_;  // by model
  std::optional<SampleSet> fitted_;                // the samples of class means
};

InterventionPlan Interventions::common_plan(const Settings& settings) const {
  InterventionPlan plan{.pairs = {.count = static_cast<std::size_t>(settings.integer("interventions.pairs")),
                                  .indices = {},
                                  .token = settings.count("interventions.token"),
                                  .goal = interventions::goal_kind(goal_)},
                        .sites = {},
                        .exact = wants("exact"),
                        .softmax = wants("softmax"),
                        .second = wants("second"),
                        .reverse = accounts_.empty() ? put_ == "donor" : asks_for("reverse"),
                        .integrated = asks_for("integrated"),
                        .token_pairs = asks_for("pairs"),
                        .zeroing = asks_for("zeroing"),
                        .put = put_ == "donor"  ? InterventionPlan::Put::donor
                               : put_ == "mean" ? InterventionPlan::Put::mean
                                                : InterventionPlan::Put::zero,
                        .verify = settings.real("interventions.verify"),
                        .limit = settings.real("interventions.limit"),
                        .tolerance = settings.real("interventions.tolerance"),
                        .runs = settings.count("interventions.runs"),
                        .face = settings.count("interventions.face"),
                        .doses = settings.reals("interventions.doses"),
                        .seed = static_cast<std::uint64_t>(settings.integer("run.seed"))};
  for (const long index : settings.integers("interventions.indices"))
    plan.pairs.indices.push_back(static_cast<std::size_t>(index));
  if (plan.pairs.indices.size() % 2 != 0)
    throw BadInput("interventions.indices: clean and donor in turn, but there are " +
                   std::to_string(plan.pairs.indices.size()) + " samples");
  if (plan.reverse && put_ != "donor")
    throw BadInput(
        "interventions.accounts = reverse: the opposite of a patch is known for interventions.put = donor "
        "only");
  if (plan.reverse && !plan.exact)
    throw BadInput("interventions.accounts = reverse: is compared with exact effects; add exact");
  return plan;
}

void Interventions::choose_sites(const std::string& name, InterventionPlan& plan) const {
  const auto& of = model(name);
  const auto make = [&](SiteScope scope) {
    return std::make_unique<interventions::SampleRuns>(of, problem().data(), 1, scope);
  };
  for (const auto& word : sites_) plan.sites.push_back(interventions::site_of(word));
  std::ranges::sort(plan.sites);
  if (!plan.sites.empty()) {
    const auto runs = make(plan.scope());
    for (const Site site : plan.sites) runs->patches().require(site);
    if (plan.zeroing) runs->patches().require(Site::value);
    return;
  }
  std::unique_ptr<interventions::SampleRuns> runs;
  try {
    runs = make(SiteScope::cells);
  } catch (const BadInput&) {  // no sites within its cells
    plan.sites = {Site::face};
    make(plan.scope());
    return;
  }
  for (const Site site : interventions::all_sites) {
    try {
      runs->patches().require(site);
      plan.sites.push_back(site);
    } catch (const BadInput&) {  // it has no such site
    }
  }
}

InterventionPlan Interventions::plan_of(const std::string& name, InterventionPlan plan) const {
  const auto& of = model(name);
  const auto& spec = of.parameters.spec;
  const auto refuse = [&](const std::string& why) {
    throw BadInput("models." + name + " = " + of.file + ": " + why);
  };
  if (!problem().models().tokens(name).empty())
    refuse("other tokens than those of the deck; states cannot be exchanged");
  if (spec.guesses_words() && !spec.causal)
    refuse("guesses masked words; a causal model or classes are needed");
  if (plan.face > spec.depth().cells)
    refuse("interventions.face = " + std::to_string(plan.face) + ": it has the faces 0 to " +
           std::to_string(spec.depth().cells));
  try {
    choose_sites(name, plan);
    const auto second = plan.second || plan.token_pairs;
    if (second && accounts_.empty() && spec.width > widest_second_order) plan.second = false;
    if (plan.second || plan.token_pairs) {
      const interventions::SampleRuns runs(of, problem().data(), 1, SiteScope::faces);
      try {
        static_cast<void>(runs.slab(1)->model().make_tape(Order::second));
      } catch (const BadInput&) {
        if (!accounts_.empty()) throw;
        plan.second = false;
      }
    }
  } catch (const BadInput& e) {
    refuse(e.what());
  }
  if (spec.classes == 0) plan.doses.clear();
  return plan;
}

Interventions::Interventions(const Settings& settings, MPI_Comm comm)
    : ModelStudy(settings, comm, {.head = ModelNeeds::Head::loss, .transformer = false}),
      accounts_(settings.words("interventions.accounts")),
      sites_(settings.words("interventions.sites")),
      steered_(settings.integer("interventions.steered")),
      goal_(settings.word("interventions.goal")),
      put_(settings.word("interventions.put")) {
  if (precision_of(settings) != Precision::float64)
    throw BadInput("run.precision = " + settings.word("run.precision") +
                   ": states are patched in double; use double");
  const auto common = common_plan(settings);
  bool steering = false;
  for (const auto& name : problem().models().names()) {
    plans_[name] = plan_of(name, common);
    steering = steering || !plans_[name].doses.empty();
    if (model(name).parameters.spec.classes > 0)
      problem().require_labels("a pair of different labels", problem().samples());
  }
  if (!steering) return;
  if (steered_ > problem().samples().size())
    throw BadInput("interventions.steered = " + std::to_string(steered_) +
                   ": there are samples.count = " + std::to_string(problem().samples().size()) + " samples");
  const long fit = settings.integer("interventions.fit");
  fitted_ = fit > 0 ? problem().other_samples(fit, "interventions.fit") : problem().samples();
}

study::Contents Interventions::contents() {
  using namespace interventions::variables;
  std::vector<io::Variable> measures{pair_clean,  pair_donor,  pair_a,      pair_b,         pair_token,
                                     pair_length, value_clean, value_donor, clean_features, donor_features};
  for (const Site one : interventions::all_sites)
    for (const Account by : all_accounts)
      if (has_account(one, by)) measures.push_back(effects(one, by));
  for (const auto* const variable :
       {&agreement_spearman, &agreement_pearson, &agreement_relative_error, &agreement_top_share,
        &spearman_by_depth, &untrusted_share, &integrated_gap, &integrated_estimate, &integrated_nodes,
        &pairs_curvature, &pairs_exact, &pairs_spearman, &zeroing, &steering_goal, &steering_goal_random,
        &steering_reached, &steering_reached_random, &steering_slope})
    measures.push_back(*variable);
  return compare::with_models({{axes::test_sample, pair, face, cell, head, group, axes::token, other_token,
                                axes::feature, word, words, site, account, dose},
                               {site_names, account_names, goal, put, names::tokens_x, names::tokens_y},
                               {patched::middle_face},
                               measures});
}

std::string Interventions::describe() const {
  std::ostringstream text;
  text << ModelStudy::describe();
  for (const auto& name : problem().models().names()) {
    const auto& plan = plans_.at(name);
    const interventions::SampleRuns runs(model(name), problem().data(), 1, plan.scope());
    const auto& extents = runs.extents();
    text << '\n' << name << ": " << plan.pairs.pairs() << " pairs; sites";
    double places = 0;
    for (const Site site : plan.sites) {
      text << ' ' << interventions::site_word(site);
      places += static_cast<double>(extents.places(site));
    }
    if (plan.exact)
      text << "; up to " << static_cast<double>(plan.pairs.pairs()) * places * (plan.reverse ? 2 : 1)
           << " patched runs, " << plan.runs << " at a time";
    if (!plan.doses.empty()) text << "; " << steered_ << " samples steered";
    // The two samples of a pair, that of the null, and two adjoints.
    text << "; " << 5 * interventions::Patches::bytes(extents, plan.scope()) / 1e6
         << " MB of states on each rank";
  }
  return text.str();
}

void Interventions::add_axes(StudyRecord& record) {
  record.samples(problem().members());
  const auto& first = plans_.begin()->second;
  const long tokens = problem().line().tokens();
  record.axis(patched::pair, 0, static_cast<long>(first.pairs.pairs()) - 1);
  record.axis(axes::token, 0, tokens - 1);
  record.axis(patched::other_token, 0, tokens - 1);
  record.axis(axes::feature, 0, problem().data().features() - 1);
  if (const auto words = problem().data().words(); !words.empty()) {
    record.axis(patched::word, 0, std::ssize(words) - 1);
    record.words(patched::words, words);
  }
  record.note("", names::tokens_x, static_cast<long>(problem().line().tokens_x()));
  record.note("", names::tokens_y, static_cast<long>(problem().line().tokens_y()));
  std::vector<std::string> accounts;
  for (const auto account : patched::compared_accounts) accounts.push_back(patched::account_word(account));
  record.axis(patched::site, 0, std::ssize(site_words()) - 1);
  record.axis(patched::account, 0, std::ssize(accounts) - 1);
  record.note("", patched::site_names, as_lines(site_words()));
  record.note("", patched::account_names, as_lines(accounts));
  record.note("", patched::goal, goal_);
  record.note("", patched::put, put_);
  if (fitted_)
    for (const auto& [name, plan] : plans_)
      if (!plan.doses.empty()) {
        record.axis(patched::dose, plan.doses);
        break;
      }
  for (const auto& [name, plan] : plans_) {
    const auto& spec = model(name).parameters.spec;
    record.note(name, patched::middle_face, static_cast<long>(middle_face(name)));
    const auto axis = [&](io::Variable of, long from, long to) {
      of.name.replace(0, std::string("<model>").size(), name);
      of.axes = {of.name};
      record.axis(of, from, to);
    };
    axis(patched::face, 0, spec.depth().cells);
    axis(patched::cell, 1, spec.depth().cells);
    axis(patched::head, 1, spec.attention.heads);
    axis(patched::group, 1, spec.attention.key_groups());
  }
}

void Interventions::measure_model(std::size_t seed, const std::string& name, Results& to) {
  const auto& plan = plans_.at(name);
  const auto comm = problem().comm();
  const auto called = name + ", seed " + std::to_string(problem().models().seeds()[seed]);
  interventions::SampleRuns runs(problem().models().at(seed, name), problem().data(), plan.runs,
                                 plan.scope());
  auto pairs = interventions::choose_pairs(plan.pairs, runs, problem().members(), called, comm);
  interventions::MeasuredPairs measured(plan, runs, std::move(pairs), called, comm);
  const auto step = [&to](double share, const std::string& note) { return to.go_on(share, note); };
  if (!measured.measure(problem().members(), step)) return;
  if (!plan.doses.empty()) {
    interventions::Steering steering(plan, runs, called, comm);
    const auto& members = problem().members();
    steering.measure({members.begin(), members.begin() + steered_}, fitted_->members());
    steering.put(to);
  }
  measured.put(to);
  to.say(measured.words());
}

}  // namespace

ExperimentEntry interventions_experiment() {
  return study_entry<Interventions>(
      {.name = "interventions",
       .family = "interventions",
       .sentence =
           "replaces states of trained models and runs on, beside first order and better accounts of the "
           "effects",
       .cites = "docs/model.md; arXiv 2309.16042; arXiv 2403.00745; arXiv 1703.01365; arXiv 2301.12971",
       .declare = declare_interventions});
}

}  // namespace fluxformer
