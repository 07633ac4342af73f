// `hessian_spectrum`: spectra of the Hessian of models read from files, as a whole and by block.

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <utility>

#include "analysis/hessian/hessian_variables.hpp"
#include "analysis/hessian/parameter_blocks.hpp"
#include "base/error.hpp"
#include "base/statistics.hpp"
#include "drivers/common/model_options.hpp"
#include "drivers/common/run_options.hpp"
#include "drivers/compare/model_study.hpp"
#include "drivers/hessian/hessian_measures.hpp"
#include "drivers/hessian/model_hessian.hpp"
#include "drivers/registry.hpp"
#include "drivers/train/train_options.hpp"
#include "io/layout.hpp"
#include "model/tasks/task.hpp"
#include "solvers/spectra/symmetric_operator.hpp"

namespace fluxformer {

namespace measured = hessian::variables;

namespace {

void declare_controls_and_samples(Options& options) {
  options.declare("models.linear", "",
                  "control: HDF5 file of a Transformer trained with linear attention "
                  "(attention.normalisation = linear); empty: none");
  options.declare("models.mlp", "",
                  "control: HDF5 file of a Transformer trained without attention (equation.alpha = 0), which "
                  "is an MLP with data.tokens = whole; empty: none");
  options.declare("data.split", "test",
                  "split that samples are drawn from; train: the first samples that the training of each "
                  "model drew (with its own run.seed)",
                  {.choices = {"train", "test"}});
  options.declare("mesh.ranks_token", 1L, "MPI ranks that share the tokens of a sample",
                  {.minimum = 1, .role = Role::free});
}

void declare_whole_spectrum(Options& options) {
  options.declare("hessian.parts", std::vector<std::string>{"hessian", "gauss_newton"},
                  "parts of the Hessian that are analysed; functional is the difference of the other two",
                  {.choices = hessian_parts, .not_empty = true});
  options.declare("hessian.eigenvalues", 5L,
                  "number of eigenvalues at either end of the spectrum (Krylov-Schur); 0: none",
                  {.minimum = 0});
  options.declare("hessian.tolerance", 1e-6,
                  "residual |H x - lambda x| / ||H|| at which an eigenvalue has converged",
                  {.minimum = 1e-14, .maximum = 0.1});
  options.declare(
      "hessian.probes", 4L,
      "number of random vectors for the spectral density, the trace and the norm; 0: these are not computed",
      {.minimum = 0});
  options.declare("hessian.steps", 30L, "Lanczos steps for each random vector of the spectral density",
                  {.minimum = 1});
}

void declare_block_measures(Options& options) {
  options.declare("hessian.blocks", hessian::block_kinds,
                  "kinds of blocks whose traces and norms are estimated", {.choices = hessian::block_kinds});
  options.declare(
      "hessian.block_probes", 0L,
      "number of random vectors for each block, each of which takes a product with the Hessian; 0: no blocks",
      {.minimum = 0});
  options.declare("hessian.block_steps", 0L,
                  "Lanczos steps for each random vector of a block, for spectral densities of the diagonal "
                  "blocks and the distances between them; 0: no densities",
                  {.minimum = 0, .when = When{"hessian.block_probes", Not{0L}}});
  options.declare("hessian.block_eigenvalues", false,
                  "compute the eigenvalue of largest magnitude of each diagonal block (Krylov-Schur)");
  options.declare("hessian.exact", false,
                  "compute the whole spectrum of the Gauss-Newton part, its blocks and the distances between "
                  "their spectra exactly, from the gradients of all outputs; takes samples x classes "
                  "gradients of one sample, and as many times the size of the model in memory, shared by the "
                  "ranks; not for models that guess words, whose outputs are too many");
  options.declare("hessian.lambda_0", 0.01,
                  "eigenvalue, relative to the root mean square of its block, at which the axis for "
                  "comparing densities turns from linear to logarithmic",
                  {.minimum = 1e-12});
  options.declare(
      "hessian.broadening", 0.5,
      "standard deviation by which the compared densities are broadened, in asinh(eigenvalue / lambda_0)",
      {.minimum = 1e-3});
}

void declare_hessian_spectrum(Options& options) {
  declare_compared(options);
  declare_minimised(options);
  declare_masked_words(options);
  declare_controls_and_samples(options);
  declare_whole_spectrum(options);
  declare_block_measures(options);
  options.declare(epochs_option("hessian.epochs"));
  declare_study_run(options, "hessian.h5");
}

/// Throws BadInput: the Gauss-Newton part of this model has too many outputs to be computed exactly.
[[noreturn]] void refuse_exact(const std::string& name, const ModelSpec& spec) {
  throw BadInput("hessian.exact = true: models." + name +
                 " guesses words; the exact Gauss-Newton part takes a gradient for each of the " +
                 std::to_string(spec.vocabulary) +
                 " words at each of them, too many to be kept; hessian.eigenvalues and hessian.probes "
                 "work without them");
}

/// The analysis of the Hessian of each model.
struct HessianPlan {
  std::vector<std::string> parts, blocks;  ///< parts of the Hessian, and kinds of blocks
  std::vector<long> epochs;                ///< whose weight snapshots are analysed, too
  std::uint64_t seed = 1;                  ///< of all random vectors
  int eigenvalues = 0;                     ///< number at either end of the spectrum
  double tolerance = 0;                    ///< of eigenvalues
  spectra::DensitySettings density = {};   ///< 0 probes: none
  int block_probes = 0, block_steps = 0;   ///< of each block
  bool block_eigenvalues = false;          ///< the largest ones of each block
  bool exact = false;                      ///< the spectrum of the whole Gauss-Newton part
  hessian::SpectralComparison comparison = {};
  MinimisedPlan minimised = {};
};

/// The plan by the settings. Throws BadInput for what cannot be computed.
HessianPlan hessian_plan_of(const Settings& settings) {
  if (precision_of(settings) != Precision::float64)
    throw BadInput("run.precision = " + settings.word("run.precision") +
                   ": second derivatives are computed in double; use double");
  const auto seed = static_cast<std::uint64_t>(settings.integer("run.seed"));
  HessianPlan plan{.parts = settings.words("hessian.parts"),
                   .blocks = settings.words("hessian.blocks"),
                   .epochs = settings.integers("hessian.epochs"),
                   .seed = seed,
                   .eigenvalues = settings.count("hessian.eigenvalues"),
                   .tolerance = settings.real("hessian.tolerance"),
                   .density = {.probes = settings.count("hessian.probes"),
                               .steps = settings.count("hessian.steps"),
                               .seed = seed},
                   .block_probes = settings.count("hessian.block_probes"),
                   .block_steps = settings.count("hessian.block_steps"),
                   .block_eigenvalues = settings.flag("hessian.block_eigenvalues"),
                   .exact = settings.flag("hessian.exact"),
                   .comparison = {settings.real("hessian.lambda_0"), settings.real("hessian.broadening")},
                   .minimised = minimised_plan_of(settings)};
  if (plan.density.probes == 1 || plan.block_probes == 1)
    throw BadInput("hessian.probes, hessian.block_probes: 0 or at least 2, since errors are their spread");
  if (plan.eigenvalues == 0 && !plan.epochs.empty())
    throw BadInput("hessian.epochs: eigenvalues are followed over the training; hessian.eigenvalues is 0");
  return plan;
}

class HessianOfModels final : public ModelStudy {
 public:
  /// Collective over `comm`; throws BadInput (agreed).
  HessianOfModels(const Settings& settings, MPI_Comm comm);
  static study::Contents contents();
  /// The sources of every study of models, and the samples that the training of a model drew.
  std::vector<Source> sources() const override;
  /// Adds the threshold of stability of the optimisers of the first seed.
  bool conclude(const Findings& found, RunFrame& frame, StudyRecord& record) override;
  /// The largest eigenvalue of each model.
  std::string summary(const Findings& found) const override;

 protected:
  void add_axes(StudyRecord& record) override;
  void measure_model(std::size_t seed, const std::string& name, Results& to) override;
  std::vector<long> epochs() const override { return plan_.epochs; }

 private:
  std::vector<hessian::NamedBlock> blocks_of(const ParameterLayout& layout) const {
    return hessian::parameter_blocks(layout, plan_.blocks, "hessian.blocks");
  }
  /// The objective that the training of a model minimised, at some of its parameters.
  hessian::Objective objective_of(std::size_t seed, const std::string& name,
                                  const Parameters& parameters) const {
    return minimised(plan_.minimised, problem().models().at(seed, name).origin, parameters);
  }
  /// Puts the measures of the Gauss-Newton part from its Gram matrix.
  void exact(std::size_t seed, const std::string& name, PartResults to);
  /// Puts the largest eigenvalues after some epochs of the training.
  void follow(std::size_t seed, const std::string& name, Results& to);
  /// Largest eigenvalues of a matrix; NaN for those that did not converge.
  std::vector<double> largest_of(Mat matrix, int count);

  HessianPlan plan_;
  mutable AnalysedSamples samples_;  // reads them when they are asked for
  spectra::EigenSolver solver_;
};

HessianOfModels::HessianOfModels(const Settings& settings, MPI_Comm comm)
    : ModelStudy(settings, comm, {.head = ModelNeeds::Head::loss, .transformer = false}),
      plan_(hessian_plan_of(settings)),
      samples_(plan_.minimised.masked, problem()),
      solver_(problem().comm()) {
  for (const auto& name : problem().models().names()) {
    const auto& parameters = problem().models().at(0, name).parameters;
    const auto objective = objective_of(0, name, parameters);
    const Trainable trainable(parameters, objective.coefficients);
    if (plan_.eigenvalues > trainable.trained())
      throw BadInput("hessian.eigenvalues = " + std::to_string(plan_.eigenvalues) + ": " + name +
                     " has only " + std::to_string(trainable.trained()) + " trained variables");
    const auto& samples = problem().input_of(name).samples();
    require_hessian(samples, parameters, objective.loss);
    if (parameters.spec.guesses_words()) {
      if (plan_.exact) refuse_exact(name, parameters.spec);
    } else if (objective.loss.kind == LossKind::cross_entropy) {
      problem().require_classes("the loss");
    } else {
      problem().require_labels("the loss", problem().samples());
    }
    if (plan_.exact) require_gram(samples, parameters, blocks_of(parameters.layout).size());
  }
  problem().models().require_epochs(plan_.epochs);
}

std::vector<Study::Source> HessianOfModels::sources() const {
  auto all = ModelStudy::sources();
  std::set<std::pair<std::string, std::uint64_t>> seen;  // data.tokens and run.seed of inputs
  for (std::size_t seed = 0; seed < problem().models().seeds().size(); ++seed)
    for (const auto& name : problem().models().names()) {
      const auto& input = samples_.input(seed, name);
      if (&input == &problem().input_of(name) ||
          !seen.insert({problem().models().tokens(name), input.plan().seed}).second)
        continue;
      all.push_back({.called = "data.set = " + input.data().name(), .digest = input.digest()});
    }
  return all;
}

study::Contents HessianOfModels::contents() {
  using namespace hessian::variables;
  std::vector<io::Variable> measures{loss,
                                     gradient_norm,
                                     compare::after_epochs(loss),
                                     compare::after_epochs(largest),
                                     compare::after_epochs(rate),
                                     compare::after_epochs(preconditioned)};
  for (const auto& part : hessian_parts)
    for (const auto& one : of_a_part)
      if (part != "gauss_newton" || !one.name.starts_with("smallest")) measures.push_back(of_part(part, one));
  for (const auto& one : exact_measures) measures.push_back(of_part("gauss_newton", one));
  std::vector<io::Variable> coordinates{output,       eigenvalue,  measured::probe,
                                        lanczos_step, block_probe, block_step,
                                        block,        other_block, axes::copied_epoch};
  return compare::with_models({coordinates,
                               {lambda_0, broadening, rough_errors},
                               {blocks, stability_threshold},
                               measures,
                               names::in(names::analysis, group)});
}

void HessianOfModels::add_axes(StudyRecord& record) {
  if (plan_.eigenvalues > 0) record.axis(measured::eigenvalue, 1, plan_.eigenvalues);
  if (!plan_.epochs.empty()) record.axis(axes::copied_epoch, {plan_.epochs.begin(), plan_.epochs.end()});
  if (plan_.density.probes > 0) {
    record.axis(measured::probe, 1, plan_.density.probes);
    record.axis(measured::lanczos_step, 1, plan_.density.steps);
  }
  if (plan_.block_probes > 0 && plan_.block_steps > 0) {
    record.axis(measured::block_probe, 1, plan_.block_probes);
    record.axis(measured::block_step, 1, plan_.block_steps);
  }
  std::string rough;
  for (const auto& [key, probes] : {std::pair{"hessian.probes", plan_.density.probes},
                                    std::pair{"hessian.block_probes", plan_.block_probes}})
    if (probes > 0 && probes < hessian::variables::few_probes)
      rough += (rough.empty() ? "" : ", ") + std::string(key) + " = " + std::to_string(probes);
  if (!rough.empty()) record.note("", measured::rough_errors, rough);
  if (plan_.exact) record.axis(measured::output, 1, problem().data().classes() * problem().samples().size());
  if (plan_.exact || (plan_.block_probes > 0 && plan_.block_steps > 0)) {
    record.note("", measured::lambda_0, plan_.comparison.lambda_0);
    record.note("", measured::broadening, plan_.comparison.width);
  }
  for (const auto& name : problem().models().names()) {
    const auto& layout = problem().models().at(0, name).parameters.layout;
    const auto blocks = blocks_of(layout);
    if (blocks.empty() || (plan_.block_probes == 0 && !plan_.block_eigenvalues && !plan_.exact)) continue;
    std::string list;
    for (const auto& one : blocks) list += (list.empty() ? "" : "\n") + one.name();
    record.note(name, measured::blocks, list);
    for (auto axis : {measured::block, measured::other_block}) {
      axis.name.replace(0, std::string("<model>").size(), name);
      record.axis(axis, 1, static_cast<long>(blocks.size()));
    }
  }
}

void HessianOfModels::measure_model(std::size_t seed, const std::string& name, Results& to) {
  const auto& parameters = problem().models().at(seed, name).parameters;
  ModelHessian linearised(samples_.of(seed, name), parameters, objective_of(seed, name, parameters));
  auto& of = linearised.products;
  const auto& g = of.gradient();
  to.put(measured::loss, {of.evaluation().loss});
  to.put(measured::gradient_norm, {std::sqrt(std::inner_product(g.begin(), g.end(), g.begin(), 0.0))});
  for (const auto& part : plan_.parts) {
    const HessianPart matrix(problem().comm(), of, part);
    PartResults of_part(to, part);
    if (plan_.eigenvalues > 0)
      of_part.ends(solver_, matrix.trained(),
                   {.largest = plan_.eigenvalues, .tolerance = plan_.tolerance, .seed = plan_.seed});
    if (plan_.density.probes > 0) of_part.density(matrix.trained(), plan_.density);
    const auto blocks = blocks_of(parameters.layout);
    if (blocks.empty()) continue;
    if (plan_.block_eigenvalues)
      of_part.block_ends(solver_, matrix.whole(), blocks, {.tolerance = plan_.tolerance, .seed = plan_.seed});
    if (plan_.block_probes == 0) continue;
    of_part.blocks(matrix.whole(), blocks, {.probes = plan_.block_probes, .seed = plan_.seed});
    if (plan_.block_steps > 0)
      of_part.block_densities(matrix.whole(), blocks,
                              {.probes = plan_.block_probes, .steps = plan_.block_steps, .seed = plan_.seed},
                              plan_.comparison);
  }
  if (plan_.exact) exact(seed, name, {to, "gauss_newton"});
  follow(seed, name, to);
}

void HessianOfModels::exact(std::size_t seed, const std::string& name, PartResults to) {
  const auto& parameters = problem().models().at(seed, name).parameters;
  const auto samples = samples_.of(seed, name);
  // Batches of one sample, since the Gram matrix is made of the gradients of single outputs.
  ModelHessian linearised(samples.with(samples.members(), 1), parameters,
                          objective_of(seed, name, parameters));
  const hessian::GaussNewtonGram gram(linearised.products, problem().comm(), samples.line().comm());
  to.exact(hessian::gram_spectra(gram, static_cast<PetscInt>(parameters.values.size()),
                                 entries_of(blocks_of(parameters.layout)), plan_.comparison));
}

void HessianOfModels::follow(std::size_t seed, const std::string& name, Results& to) {
  if (plan_.epochs.empty()) return;
  std::vector<double> values, losses, rates, preconditioned;
  const auto samples = samples_.of(seed, name);
  for (const long epoch : plan_.epochs) {
    const auto parameters = problem().models().after_epoch(seed, name, epoch);
    ModelHessian linearised(samples, parameters, objective_of(seed, name, parameters));
    const HessianPart matrix(problem().comm(), linearised.products, "hessian");
    const auto found = largest_of(matrix.trained(), plan_.eigenvalues);
    values.insert(values.end(), found.begin(), found.end());
    losses.push_back(linearised.products.evaluation().loss);
    const auto optimiser = problem().models().optimiser_after_epoch(seed, name, epoch);
    rates.push_back(optimiser ? optimiser->rate : missing_value);
    preconditioned.push_back(missing_value);
    if (!optimiser) continue;
    if (optimiser->preconditioner.empty()) continue;
    // Eigenvalues of P^-1/2 H P^-1/2, P being the optimiser's diagonal preconditioner.
    const auto entries = hessian::trained_entries(linearised.products.trainable());
    const auto diagonal = spectra::restricted(optimiser->preconditioner, entries, matrix.trained());
    const spectra::PreconditionedOperator scaled(matrix.trained(), diagonal.get());
    preconditioned.back() = largest_of(scaled.get(), 1).front();
  }
  to.put(compare::after_epochs(measured::largest), values);
  to.put(compare::after_epochs(measured::loss), losses);
  to.put(compare::after_epochs(measured::rate), rates);
  to.put(compare::after_epochs(measured::preconditioned), preconditioned);
}

bool HessianOfModels::conclude(const Findings& found, RunFrame& frame, StudyRecord& record) {
  for (const auto& name : problem().models().names())
    for (auto epoch = plan_.epochs.rbegin(); epoch != plan_.epochs.rend(); ++epoch)
      if (const auto optimiser = problem().models().optimiser_after_epoch(0, name, *epoch)) {
        record.note(name, measured::stability_threshold, optimiser->threshold);
        break;
      }
  return ModelStudy::conclude(found, frame, record);
}

std::string HessianOfModels::summary(const Findings& found) const {
  std::ostringstream text;
  if (plan_.eigenvalues == 0 || std::ranges::find(plan_.parts, "hessian") == plan_.parts.end()) return {};
  for (std::size_t k = 0; k < found.count(); ++k)
    if (const double largest = found.at(k, measured::of_part("hessian", measured::largest)).front();
        !std::isnan(largest))
      text << (text.str().empty() ? "largest eigenvalue " : ", ") << found.places()[k].group << ' '
           << largest;
  return text.str();
}

std::vector<double> HessianOfModels::largest_of(Mat matrix, int count) {
  auto found = solver_.solve(matrix, {.largest = count, .tolerance = plan_.tolerance, .seed = plan_.seed})
                   .largest.values;
  found.resize(count, missing_value);
  return found;
}

}  // namespace

ExperimentEntry hessian_spectrum_experiment() {
  return study_entry<HessianOfModels>(
      {.name = "hessian_spectrum",
       .family = "hessian",
       .sentence = "measures the Hessian of trained models: ends and density of its spectrum, blocks",
       .cites = "docs/model.md; arXiv 2410.10986; arXiv 2402.16788; Stewart, SIAM J. Matrix Anal. "
                "Appl. 23 (2002) 601; arXiv 2010.09649",
       .declare = declare_hessian_spectrum,
       .former = "hessian"},
      minimised_as_trained);
}

}  // namespace fluxformer
