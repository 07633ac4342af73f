#include "drivers/hessian/model_hessian.hpp"

#include <algorithm>
#include <cstdint>

#include "analysis/hessian/parameter_blocks.hpp"
#include "base/error.hpp"
#include "base/memory.hpp"

namespace fluxformer {
namespace {

SlabContext context_of(const SampleSet& samples, const ModelSpec& spec, int capacity) {
  return {&samples.line(), capacity, spec.width, {{}, spec.causal, {}}};
}

double largest_share(const SampleSet& samples) {
  return samples.replica().largest_share(samples.size());
}

std::string with_so_many(const SampleSet& samples) {
  return "samples.count = " + std::to_string(samples.size());
}

}  // namespace

MinimisedPlan minimised_plan_of(const Settings& settings) {
  const auto word = [&](const char* key) {
    return KeyOfTraining<std::string>{key, settings.word(key), settings.given(key)};
  };
  const auto real = [&](const char* key) {
    return KeyOfTraining<double>{key, settings.real(key), settings.given(key)};
  };
  return {.loss = word("train.loss"),
          .label_smoothing = real("train.label_smoothing"),
          .smoothness = real("train.smoothness"),
          .coefficients = word("train.coefficients"),
          .masked = masked_share(settings)};
}

hessian::Objective minimised(const MinimisedPlan& plan, const ModelOrigin& origin,
                             const Parameters& parameters) {
  const auto coefficients = plan.coefficients.of_model(origin);
  const bool trained =
      coefficients == "yes" || (coefficients == "auto" && parameters.spec.kind == ModelKind::pde);
  const auto positive_somewhere = [&](const std::string& coefficient) {
    return std::ranges::any_of(parameters.layout.views(), [&](const auto& view) {
      return view.name == coefficient &&
             std::ranges::any_of(parameters.view(view.path()), [](double value) { return value > 0; });
    });
  };
  return {{loss_kind(plan.loss.of_model(origin)), plan.label_smoothing.of_model(origin),
           cross_entropy_of(parameters.spec).target},
          plan.smoothness.of_model(origin),
          {.kappa = trained && positive_somewhere("kappa"),
           .alpha = trained,
           .rho = trained,
           .nu = trained && positive_somewhere("nu")}};
}

void require_hessian(const SampleSet& samples, const Parameters& parameters, const Loss& loss) {
  const auto& spec = parameters.spec;
  SlabContext context = context_of(samples, spec, 1);
  const LossHessian products(parameters, context, spec.depth(), 1,
                             loss);  // throws if the loss has no second derivatives
  // Numbers that states and tapes of second order hold for a row of a cell: attention 15 d, a reaction
  // 3 d + 5 f (gated 8 f), a sub-layer 6 d; macaron has two reactions and three sub-layers, the midpoint rule evaluates
  // each term twice.
  const double rows = largest_share(samples) * samples.line().block().count();
  const double evaluations = spec.subflow == SubLayerIntegrator::midpoint ? 2 : 1;
  const double reactions = spec.order == SubLayerOrder::macaron ? 2 : 1;
  const double numbers = 15.0 * spec.width +
                         reactions * (3.0 * spec.width + (spec.gated ? 8.0 : 5.0) * spec.ffn) +
                         (1 + reactions) * 6.0 * spec.width;
  require_memory(samples.comm(), sizeof(double) * rows * spec.cells * evaluations * numbers,
                 with_so_many(samples) + ", for products with the Hessian");
}

void require_gram(const SampleSet& samples, const Parameters& parameters, std::size_t blocks) {
  const double classes = parameters.spec.classes, outputs = classes * samples.size(),
               own = classes * largest_share(samples), matrices = 3 + static_cast<double>(blocks);
  // Memory for the gradients, those of another rank and of a block, and a Gram matrix for each block.
  require_memory(samples.comm(),
                 sizeof(double) * (3 * own * parameters.layout.size() + matrices * outputs * outputs),
                 with_so_many(samples) + " with hessian.exact, for the gradients of all outputs");
}

InputPlan plan_of_training(InputPlan plan, const ModelOrigin& origin) {
  plan.split = "train";
  if (!origin.trained()) return plan;
  plan.seed = plan.data.set.seed = static_cast<std::uint64_t>(origin.number("run.seed"));
  const KeyOfTraining<double> wrong_labels{"data.wrong_labels", plan.data.set.wrong_labels,
                                           plan.data.wrong_labels_given};
  plan.data.set.wrong_labels = wrong_labels.of_model(origin);
  return plan;
}

Settings minimised_as_trained(Settings settings) {
  for (const char* key : {"train.loss", "train.label_smoothing", "train.smoothness", "train.coefficients",
                          "train.masked", "data.wrong_labels"})
    settings.leave_to_file(key);
  return settings;
}

AnalysedSamples::AnalysedSamples(const KeyOfTraining<double>& share, const CompareProblem& problem)
    : share_(share), problem_(problem) {
  require_targets(problem, share);
}

SampleSet AnalysedSamples::of(std::size_t seed, const std::string& name) {
  return with_targets(input(seed, name).samples(), share_, problem_.models().at(seed, name), name);
}

const ComparedInput& AnalysedSamples::input(std::size_t seed, const std::string& name) {
  const auto& models = problem_.models();
  const auto& origin = models.at(seed, name).origin;
  const auto& shared = problem_.input_of(name);
  if (shared.plan().split != "train" || !origin.trained()) return shared;
  const auto plan = plan_of_training(shared.plan(), origin);
  const auto same = [&plan](const ComparedInput& input) {
    return input.plan().seed == plan.seed && input.plan().data.set.wrong_labels == plan.data.set.wrong_labels;
  };
  if (same(shared)) return shared;
  auto& own = inputs_[models.tokens(name)];
  if (!own || !same(*own)) {
    own.reset();  // frees the old one first: both together need not fit
    own = std::make_unique<ComparedInput>(plan, problem_.comm(), shared.line().comm(), models.known_input());
  }
  return *own;
}

ModelHessian::ModelHessian(const SampleSet& samples, const Parameters& parameters,
                           const hessian::Objective& objective)
    : context(context_of(samples, parameters.spec, samples.capacity())),
      products(parameters, context, parameters.spec.depth(), 1, samples, objective) {}

HessianPart::HessianPart(MPI_Comm comm, hessian::TrainingHessian& of, const std::string& which)
    : whole_(comm, static_cast<PetscInt>(of.size()),
             [&of, part = which == "gauss_newton" ? Curvature::gauss_newton : Curvature::hessian,
              functional = which == "functional",
              rest = std::vector<double>()](std::span<double> in, std::span<double> out) mutable {
               of.multiply(part, in, out);
               if (!functional) return;
               // functional = hessian - gauss_newton, at the price of two products.
               rest.resize(in.size());
               of.multiply(Curvature::gauss_newton, in, rest);
               for (std::size_t j = 0; j < rest.size(); ++j) out[j] -= rest[j];
             }),
      trained_(spectra::restricted(whole_.get(), hessian::trained_entries(of.trainable()))) {}

}  // namespace fluxformer
