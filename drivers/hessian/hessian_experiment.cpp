#include "drivers/hessian/hessian_experiment.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>
#include <sstream>

#include "analysis/hessian/hessian_variables.hpp"
#include "analysis/hessian/layer_variables.hpp"
#include "analysis/hessian/training_hessian.hpp"
#include "base/error.hpp"
#include "base/memory.hpp"
#include "drivers/common/model_settings.hpp"
#include "drivers/compare/compare_options.hpp"
#include "drivers/compare/compare_variables.hpp"
#include "drivers/compare/comparison.hpp"
#include "drivers/hessian/hessian_measures.hpp"
#include "drivers/hessian/layer_study.hpp"
#include "io/layout.hpp"
#include "solvers/spectra/symmetric_operator.hpp"

namespace fluxformer {

namespace measured = hessian::variables;

namespace {

/// A part of the Hessian as a matrix over the trained variables.
class Part {
 public:
  Part(MPI_Comm comm, hessian::TrainingHessian& of, const std::string& which)
      : whole_(comm, static_cast<PetscInt>(of.size()),
               [&of, which, rest = std::vector<double>(of.size())](std::span<const double> in,
                                                                   std::span<double> out) mutable {
                 of.multiply(which == "gauss_newton" ? Curvature::gauss_newton : Curvature::hessian, in, out);
                 if (which != "functional") return;
                 of.multiply(Curvature::gauss_newton, in, rest);
                 for (std::size_t j = 0; j < rest.size(); ++j) out[j] -= rest[j];
               }),
        trained_(spectra::restricted(whole_.get(), hessian::trained_entries(of.trainable()))) {}

  /// Over the whole flat vector, where blocks have their indices.
  Mat whole() const { return whole_.get(); }
  /// Over the trained variables only.
  Mat trained() const { return trained_; }

 private:
  spectra::ReplicatedOperator whole_;
  MatHandle trained_;
};

class HessianOfModels final : public Comparison {
 public:
  HessianOfModels(const Settings& settings, const CompareProblem& problem);
  void begin(CompareRecord& record) override;
  void measure(std::size_t seed, const std::string& name, CompareRecord& record) override;
  std::string summary() const override { return summary_.str(); }

 private:
  std::vector<hessian::NamedBlock> blocks_of(const ParameterLayout& layout) const {
    return hessian::parameter_blocks(layout, kinds_, "hessian.blocks");
  }
  hessian::Objective objective_of(const Parameters& parameters) const;
  /// Memory for products on each rank, in bytes.
  double tape_bytes(const ModelSpec& spec) const;
  /// A model on this rank's samples, and its Hessian.
  struct Linearised {
    Linearised(const HessianOfModels& of, const Parameters& parameters)
        : context{&of.problem_.line(),
                  of.problem_.samples().capacity(),
                  parameters.spec.width,
                  {{}, parameters.spec.causal, {}}},
          hessian(parameters, context, {parameters.spec.layers, parameters.spec.cells}, 1,
                  of.problem_.samples(), of.objective_of(parameters)) {}
    SlabContext context;
    hessian::TrainingHessian hessian;
  };
  /// The largest eigenvalues after some epochs of the training.
  void follow(std::size_t seed, const std::string& name, CompareRecord& record);

  const CompareProblem& problem_;
  Loss loss_;
  double smoothness_;
  std::string coefficients_;
  std::vector<std::string> parts_, kinds_;
  std::vector<long> epochs_;
  std::uint64_t seed_;
  int eigenvalues_;
  double tolerance_;
  spectra::DensitySettings density_;
  int block_probes_, block_steps_;
  hessian::SpectralComparison comparison_;
  spectra::EigenSolver solver_;
  std::ostringstream summary_;
};

HessianOfModels::HessianOfModels(const Settings& settings, const CompareProblem& problem)
    : problem_(problem),
      loss_{loss_kind(settings.word("train.loss")), settings.real("train.label_smoothing")},
      smoothness_(settings.real("train.smoothness")),
      coefficients_(settings.word("train.coefficients")),
      parts_(word_list(settings, "hessian.parts", hessian_parts)),
      kinds_(word_list(settings, "hessian.blocks", hessian::block_kinds)),
      epochs_(integer_list(settings, "hessian.epochs", 0)),
      seed_(static_cast<std::uint64_t>(settings.integer("run.seed"))),
      eigenvalues_(settings.count("hessian.eigenvalues")),
      tolerance_(settings.real("hessian.tolerance")),
      density_{.probes = settings.count("hessian.probes"),
               .steps = settings.count("hessian.steps"),
               .seed = seed_},
      block_probes_(settings.count("hessian.block_probes")),
      block_steps_(settings.count("hessian.block_steps")),
      comparison_{settings.real("hessian.lambda_0"), settings.real("hessian.broadening")},
      solver_(problem.comm()) {
  if (precision_of(settings) != Precision::dbl)
    throw BadInput("run.precision = single: second derivatives are computed in double; use double");
  if (parts_.empty()) throw BadInput("hessian.parts: must not be empty");
  if (density_.probes == 1 || block_probes_ == 1)
    throw BadInput("hessian.probes, hessian.block_probes: 0 or at least 2, since errors are their spread");
  for (const auto& name : problem.models().names()) {
    const auto& parameters = problem.models().at(0, name).parameters;
    const Trainable trainable(parameters, objective_of(parameters).coefficients);
    if (static_cast<std::size_t>(eigenvalues_) > trainable.trained())
      throw BadInput("hessian.eigenvalues = " + std::to_string(eigenvalues_) + ": " + name + " has only " +
                     std::to_string(trainable.trained()) + " trained variables");
    SlabContext context{&problem.line(), 1, parameters.spec.width, {{}, parameters.spec.causal, {}}};
    // Throws for a model without second derivatives.
    const LossHessian products(parameters, context, {parameters.spec.layers, parameters.spec.cells}, 1,
                               loss_);
    require_memory(problem.comm(), tape_bytes(parameters.spec),
                   "samples.count = " + std::to_string(problem.samples().size()) +
                       ", for products with the Hessian of " + name);
  }
  if (eigenvalues_ == 0 && !epochs_.empty())
    throw BadInput("hessian.epochs: eigenvalues are followed over the training; hessian.eigenvalues is 0");
  problem.models().require_epochs(epochs_);
}

double HessianOfModels::tape_bytes(const ModelSpec& spec) const {
  const auto& samples = problem_.samples();
  const double rows =
      static_cast<double>(samples.replica().largest_share(samples.size())) * problem_.line().block().count();
  // What the terms keep of value, adjoint and tangent in each cell (second_order.hpp): 26 d + 5 f numbers.
  return sizeof(double) * rows * spec.cells * (26.0 * spec.width + 5.0 * spec.ffn);
}

hessian::Objective HessianOfModels::objective_of(const Parameters& parameters) const {
  const bool trained =
      coefficients_ == "yes" || (coefficients_ == "auto" && parameters.spec.kind == ModelKind::pde);
  bool diffuses = false;
  for (const auto& view : parameters.layout.views())
    if (view.name == "kappa")
      for (const double kappa : parameters.view(view.path())) diffuses = diffuses || kappa > 0;
  return {loss_, smoothness_, {trained && diffuses, trained, trained}};
}

void HessianOfModels::begin(CompareRecord& record) {
  if (eigenvalues_ > 0) record.axis(measured::eigenvalue, 1, eigenvalues_);
  if (!epochs_.empty()) record.axis(axes::copied_epoch, {epochs_.begin(), epochs_.end()});
  if (density_.probes > 0) {
    record.axis(measured::probe, 1, density_.probes);
    record.axis(measured::lanczos_step, 1, density_.steps);
  }
  if (block_probes_ > 0 && block_steps_ > 0) {
    record.axis(measured::block_probe, 1, block_probes_);
    record.axis(measured::block_step, 1, block_steps_);
    record.note("", measured::lambda_0, comparison_.lambda_0);
    record.note("", measured::broadening, comparison_.width);
  }
  for (const auto& name : problem_.models().names()) {
    const auto& layout = problem_.models().at(0, name).parameters.layout;
    const auto blocks = blocks_of(layout);
    if (block_probes_ == 0 || blocks.empty()) continue;
    std::string list;
    for (const auto& one : blocks) list += (list.empty() ? "" : "\n") + one.name();
    record.note(name, measured::blocks, list);
    for (auto axis : {measured::block, measured::other_block}) {
      axis.name.replace(0, std::string("<model>").size(), name);
      record.axis(axis, 1, static_cast<long>(blocks.size()));
    }
  }
}

void HessianOfModels::measure(std::size_t seed, const std::string& name, CompareRecord& record) {
  const auto& parameters = problem_.models().at(seed, name).parameters;
  Linearised linearised(*this, parameters);
  auto& of = linearised.hessian;
  const auto& g = of.gradient();
  record.add(name, measured::loss, {of.evaluation().loss});
  record.add(name, measured::gradient_norm,
             {std::sqrt(std::inner_product(g.begin(), g.end(), g.begin(), 0.0))});
  for (const auto& part : parts_) {
    const Part matrix(problem_.comm(), of, part);
    PartRecord to(record, name, part);
    if (eigenvalues_ > 0) {
      const auto found = to.ends(solver_, matrix.trained(),
                                 {.largest = eigenvalues_, .tolerance = tolerance_, .seed = seed_});
      if (part == "hessian" && !found.largest.values.empty())
        summary_ << (summary_.str().empty() ? "largest eigenvalue " : ", ") << name << ' '
                 << found.largest.values.front();
    }
    if (density_.probes > 0) to.density(matrix.trained(), density_);
    if (block_probes_ == 0 || kinds_.empty()) continue;
    const auto blocks = blocks_of(parameters.layout);
    to.blocks(matrix.whole(), blocks, {.probes = block_probes_, .seed = seed_});
    if (block_steps_ > 0)
      to.block_densities(matrix.whole(), blocks,
                         {.probes = block_probes_, .steps = block_steps_, .seed = seed_}, comparison_);
  }
  follow(seed, name, record);
}

void HessianOfModels::follow(std::size_t seed, const std::string& name, CompareRecord& record) {
  if (epochs_.empty()) return;
  std::vector<double> values, losses;
  for (const long epoch : epochs_) {
    const auto parameters = problem_.models().after_epoch(seed, name, epoch);
    Linearised linearised(*this, parameters);
    const Part matrix(problem_.comm(), linearised.hessian, "hessian");
    auto found =
        solver_.solve(matrix.trained(), {.largest = eigenvalues_, .tolerance = tolerance_, .seed = seed_})
            .largest.values;
    found.resize(static_cast<std::size_t>(eigenvalues_), std::numeric_limits<double>::quiet_NaN());
    values.insert(values.end(), found.begin(), found.end());
    losses.push_back(linearised.hessian.evaluation().loss);
  }
  record.add(name, compare::after_epochs(measured::largest), values);
  record.add(name, compare::after_epochs(measured::loss), losses);
}

}  // namespace

void describe_hessian(io::Description& description) {
  using namespace hessian::variables;
  std::vector<io::Variable> measures{loss, gradient_norm, compare::after_epochs(loss),
                                     compare::after_epochs(largest)};
  for (const auto& part : hessian_parts)
    for (const auto& one : of_a_part)
      if (part != "gauss_newton" || !one.name.starts_with("smallest")) measures.push_back(of_part(part, one));
  std::vector<io::Variable> coordinates{eigenvalue, probe, lanczos_step, block_probe,
                                        block_step, block, other_block,  axes::copied_epoch};
  std::ranges::copy(layer_study_measures(), std::back_inserter(measures));
  std::ranges::copy(layer_study_coordinates(), std::back_inserter(coordinates));
  compare::describe_comparison(description, "hessian",
                               {coordinates, {lambda_0, broadening}, {blocks, block_sizes}, measures});
  description.variables(names::in(names::in(names::analysis, "hessian"), "<model>"), {heat_map});
}

std::unique_ptr<Experiment> make_hessian(const Settings& settings, const RunContext& context) {
  if (settings.word("hessian.study") != "spectrum") return make_layer_study(settings, context);
  return make_comparison(settings, context, [](const Settings& s, const CompareProblem& p) {
    return std::make_unique<HessianOfModels>(s, p);
  });
}

}  // namespace fluxformer
