#include "drivers/hessian/hessian_experiment.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <optional>
#include <sstream>

#include "analysis/decoder/decoder_variables.hpp"
#include "analysis/hessian/hessian_variables.hpp"
#include "base/error.hpp"
#include "base/statistics.hpp"
#include "drivers/common/model_settings.hpp"
#include "drivers/compare/compare_variables.hpp"
#include "drivers/compare/comparison.hpp"
#include "drivers/hessian/hessian_measures.hpp"
#include "drivers/hessian/layer_study.hpp"
#include "drivers/hessian/model_hessian.hpp"
#include "io/layout.hpp"
#include "solvers/spectra/symmetric_operator.hpp"

namespace fluxformer {

namespace measured = hessian::variables;

namespace {

class HessianOfModels final : public Comparison {
 public:
  HessianOfModels(const Settings& settings, const CompareProblem& problem);
  void begin(StudyRecord& record) override;
  void measure(std::size_t seed, const std::string& name, StudyRecord& record) override;
  std::string summary() const override { return summary_.str(); }

 private:
  std::vector<hessian::NamedBlock> blocks_of(const ParameterLayout& layout) const {
    return hessian::parameter_blocks(layout, kinds_, "hessian.blocks");
  }
  /// The objective that the training of a model minimised, at some of its parameters.
  hessian::Objective objective_of(std::size_t seed, const std::string& name,
                                  const Parameters& parameters) const {
    return minimised(settings_, problem_.models().at(seed, name).origin, parameters);
  }
  /// Adds the measures of the Gauss-Newton part from its Gram matrix.
  void exact(std::size_t seed, const std::string& name, PartRecord to);
  /// Adds the largest eigenvalues after some epochs of the training.
  void follow(std::size_t seed, const std::string& name, StudyRecord& record);
  /// Largest eigenvalues of a matrix; NaN for those that did not converge.
  std::vector<double> largest_of(Mat matrix, int count);

  const CompareProblem& problem_;
  AnalysedSamples samples_;
  Settings settings_;
  std::vector<std::string> parts_, kinds_;
  std::vector<long> epochs_;
  std::uint64_t seed_;
  int eigenvalues_;
  double tolerance_;
  spectra::DensitySettings density_;
  int block_probes_, block_steps_;
  bool block_eigenvalues_, exact_;
  hessian::SpectralComparison comparison_;
  spectra::EigenSolver solver_;
  std::ostringstream summary_;
};

HessianOfModels::HessianOfModels(const Settings& settings, const CompareProblem& problem)
    : problem_(problem),
      samples_(settings, problem),
      settings_(settings),
      parts_(settings.words("hessian.parts")),
      kinds_(settings.words("hessian.blocks")),
      epochs_(settings.integers("hessian.epochs")),
      seed_(static_cast<std::uint64_t>(settings.integer("run.seed"))),
      eigenvalues_(settings.count("hessian.eigenvalues")),
      tolerance_(settings.real("hessian.tolerance")),
      density_{.probes = settings.count("hessian.probes"),
               .steps = settings.count("hessian.steps"),
               .seed = seed_},
      block_probes_(settings.count("hessian.block_probes")),
      block_steps_(settings.count("hessian.block_steps")),
      block_eigenvalues_(settings.flag("hessian.block_eigenvalues")),
      exact_(settings.flag("hessian.exact")),
      comparison_{settings.real("hessian.lambda_0"), settings.real("hessian.broadening")},
      solver_(problem.comm()) {
  if (precision_of(settings) != Precision::float64)
    throw BadInput("run.precision = " + settings.word("run.precision") +
                   ": second derivatives are computed in double; use double");
  if (density_.probes == 1 || block_probes_ == 1)
    throw BadInput("hessian.probes, hessian.block_probes: 0 or at least 2, since errors are their spread");
  for (const auto& name : problem.models().names()) {
    const auto& parameters = problem.models().at(0, name).parameters;
    const auto objective = objective_of(0, name, parameters);
    const Trainable trainable(parameters, objective.coefficients);
    if (eigenvalues_ > trainable.trained())
      throw BadInput("hessian.eigenvalues = " + std::to_string(eigenvalues_) + ": " + name + " has only " +
                     std::to_string(trainable.trained()) + " trained variables");
    const auto& samples = problem.input_of(name).samples();
    require_hessian(samples, parameters, objective.loss);
    if (exact_) require_gram(samples, parameters, blocks_of(parameters.layout).size());
  }
  if (eigenvalues_ == 0 && !epochs_.empty())
    throw BadInput("hessian.epochs: eigenvalues are followed over the training; hessian.eigenvalues is 0");
  problem.models().require_epochs(epochs_);
}

void HessianOfModels::begin(StudyRecord& record) {
  if (eigenvalues_ > 0) record.axis(measured::eigenvalue, 1, eigenvalues_);
  if (!epochs_.empty()) record.axis(axes::copied_epoch, {epochs_.begin(), epochs_.end()});
  if (density_.probes > 0) {
    record.axis(measured::probe, 1, density_.probes);
    record.axis(measured::lanczos_step, 1, density_.steps);
  }
  if (block_probes_ > 0 && block_steps_ > 0) {
    record.axis(measured::block_probe, 1, block_probes_);
    record.axis(measured::block_step, 1, block_steps_);
  }
  if (exact_) record.axis(measured::output, 1, problem_.data().classes() * problem_.samples().size());
  if (exact_ || (block_probes_ > 0 && block_steps_ > 0)) {
    record.note("", measured::lambda_0, comparison_.lambda_0);
    record.note("", measured::broadening, comparison_.width);
  }
  for (const auto& name : problem_.models().names()) {
    const auto& layout = problem_.models().at(0, name).parameters.layout;
    const auto blocks = blocks_of(layout);
    if (blocks.empty() || (block_probes_ == 0 && !block_eigenvalues_ && !exact_)) continue;
    std::string list;
    for (const auto& one : blocks) list += (list.empty() ? "" : "\n") + one.name();
    record.note(name, measured::blocks, list);
    for (auto axis : {measured::block, measured::other_block}) {
      axis.name.replace(0, std::string("<model>").size(), name);
      record.axis(axis, 1, static_cast<long>(blocks.size()));
    }
  }
}

void HessianOfModels::measure(std::size_t seed, const std::string& name, StudyRecord& record) {
  const auto& parameters = problem_.models().at(seed, name).parameters;
  ModelHessian linearised(samples_.of(seed, name), parameters, objective_of(seed, name, parameters));
  auto& of = linearised.products;
  const auto& g = of.gradient();
  record.add(name, measured::loss, {of.evaluation().loss});
  record.add(name, measured::gradient_norm,
             {std::sqrt(std::inner_product(g.begin(), g.end(), g.begin(), 0.0))});
  for (const auto& part : parts_) {
    const HessianPart matrix(problem_.comm(), of, part);
    PartRecord to(record, name, part);
    if (eigenvalues_ > 0) {
      const auto found = to.ends(solver_, matrix.trained(),
                                 {.largest = eigenvalues_, .tolerance = tolerance_, .seed = seed_});
      if (part == "hessian" && !found.largest.values.empty())
        summary_ << (summary_.str().empty() ? "largest eigenvalue " : ", ") << name << ' '
                 << found.largest.values.front();
    }
    if (density_.probes > 0) to.density(matrix.trained(), density_);
    const auto blocks = blocks_of(parameters.layout);
    if (blocks.empty()) continue;
    if (block_eigenvalues_)
      to.block_ends(solver_, matrix.whole(), blocks, {.tolerance = tolerance_, .seed = seed_});
    if (block_probes_ == 0) continue;
    to.blocks(matrix.whole(), blocks, {.probes = block_probes_, .seed = seed_});
    if (block_steps_ > 0)
      to.block_densities(matrix.whole(), blocks,
                         {.probes = block_probes_, .steps = block_steps_, .seed = seed_}, comparison_);
  }
  if (exact_) exact(seed, name, {record, name, "gauss_newton"});
  follow(seed, name, record);
}

void HessianOfModels::exact(std::size_t seed, const std::string& name, PartRecord to) {
  const auto& parameters = problem_.models().at(seed, name).parameters;
  const auto& samples = samples_.of(seed, name);
  // Batches of one sample, since the Gram matrix is made of the gradients of single outputs.
  ModelHessian linearised(samples.with(samples.members(), 1), parameters,
                          objective_of(seed, name, parameters));
  const hessian::GaussNewtonGram gram(linearised.products, problem_.comm(), samples.line().comm());
  to.exact(hessian::gram_spectra(gram, static_cast<PetscInt>(parameters.values.size()),
                                 entries_of(blocks_of(parameters.layout)), comparison_));
}

void HessianOfModels::follow(std::size_t seed, const std::string& name, StudyRecord& record) {
  if (epochs_.empty()) return;
  std::vector<double> values, losses, rates, preconditioned;
  std::optional<double> threshold;
  const auto& samples = samples_.of(seed, name);
  for (const long epoch : epochs_) {
    const auto parameters = problem_.models().after_epoch(seed, name, epoch);
    ModelHessian linearised(samples, parameters, objective_of(seed, name, parameters));
    const HessianPart matrix(problem_.comm(), linearised.products, "hessian");
    const auto found = largest_of(matrix.trained(), eigenvalues_);
    values.insert(values.end(), found.begin(), found.end());
    losses.push_back(linearised.products.evaluation().loss);
    const auto optimiser = problem_.models().optimiser_after_epoch(seed, name, epoch);
    rates.push_back(optimiser ? optimiser->rate : missing_value);
    preconditioned.push_back(missing_value);
    if (!optimiser) continue;
    threshold = optimiser->threshold;
    if (optimiser->preconditioner.empty()) continue;
    // Eigenvalues of P^-1/2 H P^-1/2, P being the optimiser's diagonal preconditioner.
    const auto entries = hessian::trained_entries(linearised.products.trainable());
    const auto diagonal = spectra::restricted(optimiser->preconditioner, entries, matrix.trained());
    const spectra::PreconditionedOperator scaled(matrix.trained(), diagonal.get());
    preconditioned.back() = largest_of(scaled.get(), 1).front();
  }
  if (seed == 0 && threshold) record.note(name, measured::stability_threshold, *threshold);
  record.add(name, compare::after_epochs(measured::largest), values);
  record.add(name, compare::after_epochs(measured::loss), losses);
  record.add(name, compare::after_epochs(measured::rate), rates);
  record.add(name, compare::after_epochs(measured::preconditioned), preconditioned);
}

std::vector<double> HessianOfModels::largest_of(Mat matrix, int count) {
  auto found =
      solver_.solve(matrix, {.largest = count, .tolerance = tolerance_, .seed = seed_}).largest.values;
  found.resize(count, missing_value);
  return found;
}

}  // namespace

void describe_hessian(io::Description& description) {
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
  std::vector<io::Variable> coordinates{output,     eigenvalue, probe,       lanczos_step,      block_probe,
                                        block_step, block,      other_block, axes::copied_epoch};
  std::ranges::copy(layer_study_measures(), std::back_inserter(measures));
  std::ranges::copy(layer_study_coordinates(), std::back_inserter(coordinates));
  compare::describe_comparison(description, "hessian",
                               {coordinates,
                                {lambda_0, broadening},
                                {blocks, decoder::variables::block_sizes, stability_threshold},
                                measures});
  description.variables(names::in(names::in(names::analysis, "hessian"), "<model>"),
                        {decoder::variables::heat_map});
}

std::unique_ptr<Experiment> make_hessian(const Settings& settings, const RunContext& context) {
  if (settings.word("hessian.study") != "spectrum") return make_layer_study(settings, context);
  return make_comparison(settings, context, [](const Settings& s, const CompareProblem& p) {
    return std::make_unique<HessianOfModels>(s, p);
  });
}

}  // namespace fluxformer
