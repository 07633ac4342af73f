#include "drivers/hessian/hessian_experiment.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <sstream>

#include "analysis/hessian/hessian_variables.hpp"
#include "analysis/hessian/parameter_blocks.hpp"
#include "analysis/hessian/training_hessian.hpp"
#include "base/error.hpp"
#include "drivers/common/model_settings.hpp"
#include "drivers/compare/compare_options.hpp"
#include "drivers/compare/compare_variables.hpp"
#include "drivers/compare/comparison.hpp"
#include "solvers/spectra/eigenvalues.hpp"
#include "solvers/spectra/spectral_density.hpp"
#include "solvers/spectra/symmetric_operator.hpp"
#include "solvers/spectra/trace.hpp"

namespace fluxformer {

namespace measured = hessian::variables;

namespace {

constexpr double nothing = std::numeric_limits<double>::quiet_NaN();

const std::vector<std::string> all_parts = {"hessian", "gauss_newton", "functional"};

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
  void add_ends(const std::string& name, const std::string& part, Mat of, CompareRecord& record);
  void add_density(const std::string& name, const std::string& part, Mat of, CompareRecord& record) const;
  void add_sums(const std::string& name, const std::string& part, Mat of, CompareRecord& record) const;
  void add_blocks(const std::string& name, const std::string& part, Mat of, const ParameterLayout& layout,
                  CompareRecord& record) const;
  std::vector<hessian::NamedBlock> blocks_of(const ParameterLayout& layout) const {
    return hessian::parameter_blocks(layout, kinds_, "hessian.blocks");
  }
  hessian::Objective objective_of(const Parameters& parameters) const;

  const CompareProblem& problem_;
  Loss loss_;
  double smoothness_;
  std::string coefficients_;
  std::vector<std::string> parts_, kinds_;
  int eigenvalues_, probes_, steps_, block_probes_;
  double tolerance_;
  std::uint64_t seed_;
  std::ostringstream summary_;
};

HessianOfModels::HessianOfModels(const Settings& settings, const CompareProblem& problem)
    : problem_(problem),
      loss_{loss_kind(settings.word("train.loss")), settings.real("train.label_smoothing")},
      smoothness_(settings.real("train.smoothness")),
      coefficients_(settings.word("train.coefficients")),
      parts_(word_list(settings, "hessian.parts", all_parts)),
      kinds_(word_list(settings, "hessian.blocks", hessian::block_kinds)),
      eigenvalues_(settings.count("hessian.eigenvalues")),
      probes_(settings.count("hessian.probes")),
      steps_(settings.count("hessian.steps")),
      block_probes_(settings.count("hessian.block_probes")),
      tolerance_(settings.real("hessian.tolerance")),
      seed_(static_cast<std::uint64_t>(settings.integer("run.seed"))) {
  if (precision_of(settings) != Precision::dbl)
    throw BadInput("run.precision = single: second derivatives are computed in double; use double");
  if (parts_.empty()) throw BadInput("hessian.parts: must not be empty");
  if (probes_ == 1 || block_probes_ == 1)
    throw BadInput("hessian.probes, hessian.block_probes: 0 or at least 2, since errors are their spread");
  for (const auto& name : problem.models().names()) {
    const auto& parameters = problem.models().at(0, name).parameters;
    const Trainable trainable(parameters, objective_of(parameters).coefficients);
    if (static_cast<std::size_t>(eigenvalues_) > trainable.trained())
      throw BadInput("hessian.eigenvalues = " + std::to_string(eigenvalues_) + ": " + name + " has only " +
                     std::to_string(trainable.trained()) + " trained variables");
    SlabContext context{&problem.line(), 1, parameters.spec.width, {{}, parameters.spec.causal, {}}};
    LossHessian(parameters, context, {parameters.spec.layers, parameters.spec.cells}, 1, loss_);
  }
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
  if (probes_ > 0) {
    record.axis(measured::probe, 1, probes_);
    record.axis(measured::lanczos_step, 1, steps_);
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

void HessianOfModels::add_ends(const std::string& name, const std::string& part, Mat of,
                               CompareRecord& record) {
  const int smallest = part == "gauss_newton" ? 0 : eigenvalues_;  // positive semi-definite, with many zeros
  const auto found =
      spectra::EigenSolver(problem_.comm())
          .solve(of, {.largest = eigenvalues_, .smallest = smallest, .tolerance = tolerance_, .seed = seed_});
  const auto add = [&](const io::Variable& values, const io::Variable& residuals,
                       const spectra::EigenEnd& end) {
    auto list = end.values, errors = end.residuals;
    list.resize(static_cast<std::size_t>(eigenvalues_), nothing);
    errors.resize(static_cast<std::size_t>(eigenvalues_), nothing);
    record.add(name, measured::of_part(part, values), list);
    record.add(name, measured::of_part(part, residuals), errors);
  };
  add(measured::largest, measured::largest_residual, found.largest);
  if (smallest > 0) add(measured::smallest, measured::smallest_residual, found.smallest);
  if (part != "hessian" || found.largest.values.empty()) return;
  summary_ << (summary_.str().empty() ? "largest eigenvalue " : ", ") << name << ' '
           << found.largest.values.front();
}

void HessianOfModels::add_density(const std::string& name, const std::string& part, Mat of,
                                  CompareRecord& record) const {
  const auto density = spectra::spectral_density(of, {.probes = probes_, .steps = steps_, .seed = seed_});
  std::vector<double> nodes, weights;
  for (const auto& one : density)
    for (std::size_t l = 0; l < static_cast<std::size_t>(steps_); ++l) {
      nodes.push_back(l < one.nodes.size() ? one.nodes[l] : nothing);
      weights.push_back(l < one.nodes.size() ? one.weights[l] : nothing);
    }
  record.add(name, measured::of_part(part, measured::node), nodes);
  record.add(name, measured::of_part(part, measured::weight), weights);
}

void HessianOfModels::add_sums(const std::string& name, const std::string& part, Mat of,
                               CompareRecord& record) const {
  const auto trace = spectra::hutch_plus_plus(of, {.sketch = probes_, .probes = probes_, .seed = seed_});
  record.add(name, measured::of_part(part, measured::trace), {trace.trace()});
  record.add(name, measured::of_part(part, measured::trace_error), {trace.rest.standard_error});
  const auto square = spectra::hutchinson(of, {}, {.probes = probes_, .seed = seed_}).frobenius_squared;
  const double norm = std::sqrt(square.mean);
  record.add(name, measured::of_part(part, measured::frobenius), {norm});
  record.add(name, measured::of_part(part, measured::frobenius_error),
             {norm > 0 ? square.standard_error / (2 * norm) : 0});
}

void HessianOfModels::add_blocks(const std::string& name, const std::string& part, Mat of,
                                 const ParameterLayout& layout, CompareRecord& record) const {
  std::vector<spectra::Block> entries;
  for (const auto& one : blocks_of(layout)) entries.push_back(one.entries);
  const auto found = spectra::block_norms(of, entries, {.probes = block_probes_, .seed = seed_});
  std::vector<double> norms, norm_errors, traces, trace_errors;
  for (const auto& row : found.frobenius_squared)
    for (const auto& square : row) {
      norms.push_back(std::sqrt(square.mean));
      norm_errors.push_back(norms.back() > 0 ? square.standard_error / (2 * norms.back()) : 0);
    }
  for (const auto& one : found.traces) {
    traces.push_back(one.mean);
    trace_errors.push_back(one.standard_error);
  }
  record.add(name, measured::of_part(part, measured::block_norm), norms);
  record.add(name, measured::of_part(part, measured::block_norm_error), norm_errors);
  record.add(name, measured::of_part(part, measured::block_trace), traces);
  record.add(name, measured::of_part(part, measured::block_trace_error), trace_errors);
}

void HessianOfModels::measure(std::size_t seed, const std::string& name, CompareRecord& record) {
  const auto& parameters = problem_.models().at(seed, name).parameters;
  const auto& samples = problem_.samples();
  SlabContext context{
      &problem_.line(), samples.capacity(), parameters.spec.width, {{}, parameters.spec.causal, {}}};
  hessian::TrainingHessian of(parameters, context, {parameters.spec.layers, parameters.spec.cells}, 1,
                              samples, objective_of(parameters));
  const auto& g = of.gradient();
  record.add(name, measured::loss, {of.evaluation().loss});
  record.add(name, measured::gradient_norm,
             {std::sqrt(std::inner_product(g.begin(), g.end(), g.begin(), 0.0))});
  for (const auto& part : parts_) {
    const Part matrix(problem_.comm(), of, part);
    if (eigenvalues_ > 0) add_ends(name, part, matrix.trained(), record);
    if (probes_ > 0) {
      add_density(name, part, matrix.trained(), record);
      add_sums(name, part, matrix.trained(), record);
    }
    if (block_probes_ > 0 && !kinds_.empty())
      add_blocks(name, part, matrix.whole(), parameters.layout, record);
  }
}

}  // namespace

void describe_hessian(io::Description& description) {
  using namespace hessian::variables;
  std::vector<io::Variable> measures{loss, gradient_norm};
  for (const auto& part : all_parts)
    for (const auto& one : of_a_part)
      if (part != "gauss_newton" || !one.name.starts_with("smallest")) measures.push_back(of_part(part, one));
  compare::describe_comparison(
      description, "hessian",
      {{eigenvalue, probe, lanczos_step, block, other_block}, {}, {blocks}, measures});
}

std::unique_ptr<Experiment> make_hessian(const Settings& settings, const RunContext& context) {
  return make_comparison(settings, context, [](const Settings& s, const CompareProblem& p) {
    return std::make_unique<HessianOfModels>(s, p);
  });
}

}  // namespace fluxformer
