// `gradient_flow`: how the gradient of the loss propagates back through depth in a Transformer and its PDE
// models, and the Jacobians of their layers.

#include <algorithm>
#include <limits>
#include <sstream>

#include "analysis/derivatives/derivative_variables.hpp"
#include "analysis/derivatives/layer_jacobians.hpp"
#include "analysis/derivatives/loss_gradients.hpp"
#include "base/error.hpp"
#include "drivers/common/run_frame.hpp"
#include "drivers/compare/guessed_words.hpp"
#include "drivers/compare/model_study.hpp"
#include "drivers/registry.hpp"

namespace fluxformer {

namespace measured = derivatives::variables;

namespace {

/// A variable of a model with its values.
struct Measured {
  io::Variable variable;
  std::vector<double> values;
};

class GradientFlow final : public ModelStudy {
 public:
  GradientFlow(const Settings& settings, MPI_Comm comm);
  static study::Contents contents();

 protected:
  void add_axes(StudyRecord& record) override;
  void measure_model(std::size_t seed, const std::string& name, Results& to) override;
  std::vector<long> epochs() const override { return epochs_; }

 private:
  /// Loss and gradients of a model, or of its weights after an epoch, over all samples. Collective.
  derivatives::LossGradients gradients(const SampleSet& samples, const Parameters& parameters) const;
  /// Measures of the loss and of the gradients by depth and by group of parameters.
  std::vector<Measured> measured_of(const ParameterLayout& layout,
                                    const derivatives::LossGradients& of) const;
  /// Adds the norms of the gradient of each group; `flat` is the gradient of the mean loss.
  void add_groups(const ParameterLayout& layout, std::span<const double> flat,
                  std::vector<Measured>& list) const;
  void add_jacobians(const SampleSet& samples, const Parameters& parameters, Results& to) const;

  KeyOfTraining<double> masked_share_;
  std::vector<long> epochs_;
  Index jacobian_samples_;
  derivatives::JacobianPlan plan_;
  int layers_, most_knots_ = 0;
};

GradientFlow::GradientFlow(const Settings& settings, MPI_Comm comm)
    : ModelStudy(settings, comm, {.head = ModelNeeds::Head::loss}),
      masked_share_(masked_share(settings)),
      epochs_(settings.integers("gradient.epochs")),
      jacobian_samples_(settings.integer("gradient.jacobian_samples")),
      plan_{.steps = settings.count("gradient.steps"),
            .exponents = settings.count("gradient.exponents"),
            .sweeps = settings.count("gradient.sweeps"),
            .tolerance = settings.real("gradient.tolerance"),
            .precision = precision_of(settings),
            .seed = static_cast<std::uint64_t>(settings.integer("run.seed"))},
      layers_(problem().models().at(0, "transformer").parameters.spec.layers) {
  if (jacobian_samples_ > problem().samples().size())
    throw BadInput("gradient.jacobian_samples = " + std::to_string(jacobian_samples_) +
                   ": samples.count gives " + std::to_string(problem().samples().size()) + " samples");
  require_answers(problem(), masked_share_, "the loss");
  for (const auto& name : problem().models().names()) {
    const auto& parameters = problem().models().at(0, name).parameters;
    require_layer_ends(name);
    if (plan_.exponents > parameters.spec.width)
      throw BadInput("gradient.exponents = " + std::to_string(plan_.exponents) + ": the states of " + name +
                     " have " + std::to_string(parameters.spec.width) + " channels");
    most_knots_ = std::max(most_knots_, parameters.spec.knots);
  }
  problem().models().require_epochs(epochs_);
}

study::Contents GradientFlow::contents() {
  using namespace derivatives::variables;
  std::vector<io::Variable> measures{loss,          gradient_norm,      gradient_size, gradient_ratio,
                                     disparity,     embedding_gradient, knot_gradient, final_norm_gradient,
                                     head_gradient, equation_gradient};
  const auto last = measures;
  for (const auto& one : last) measures.push_back(compare::after_epochs(one));
  for (const auto& one : {largest_singular_value, largest_singular_error, smallest_singular_value,
                          smallest_singular_error, lyapunov, lyapunov_error, lyapunov_sweeps,
                          jacobian_seconds, gradient_norm_by_sample, gradient_size_by_sample})
    measures.push_back(one);
  return compare::with_models(
      {{axes::test_sample, axes::layer_end, knot, axes::copied_epoch, axes::layer, exponent},
       {jacobian_samples},
       {},
       measures});
}

void GradientFlow::add_axes(StudyRecord& record) {
  record.samples(problem().members());
  record.axis(axes::layer_end, 0, layers_);
  record.axis(measured::knot, 1, most_knots_);
  if (!epochs_.empty()) record.axis(axes::copied_epoch, {epochs_.begin(), epochs_.end()});
  record.note("", measured::jacobian_samples, jacobian_samples_);
  if (jacobian_samples_ == 0) return;
  record.axis(axes::layer, 1, layers_);
  record.axis(measured::exponent, 1, plan_.exponents);
}

derivatives::LossGradients GradientFlow::gradients(const SampleSet& samples,
                                                   const Parameters& parameters) const {
  const auto probe = problem().probe(parameters);
  return derivatives::loss_gradients(samples, *probe);
}

std::vector<Measured> GradientFlow::measured_of(const ParameterLayout& layout,
                                                const derivatives::LossGradients& of) const {
  std::vector<Measured> list{{measured::loss, {of.loss}},
                             {measured::gradient_norm, of.by_row.norm},
                             {measured::gradient_size, of.size},
                             {measured::gradient_ratio, of.by_layer.ratio},
                             {measured::disparity, {of.by_layer.disparity}}};
  add_groups(layout, of.parameters, list);
  return list;
}

void GradientFlow::add_groups(const ParameterLayout& layout, std::span<const double> flat,
                              std::vector<Measured>& list) const {
  std::vector<double> knots;
  for (const auto& group : derivatives::group_norms(layout, flat))
    if (group.group.starts_with("layers/"))
      knots.push_back(group.norm);
    else
      list.push_back({measured::of_group(group.group), {group.norm}});
  // Models with fewer knots are filled up with NaN.
  knots.resize(most_knots_, std::numeric_limits<double>::quiet_NaN());
  list.push_back({measured::knot_gradient, knots});
}

void GradientFlow::add_jacobians(const SampleSet& samples, const Parameters& parameters, Results& to) const {
  const Stopwatch watch;
  const auto found = derivatives::layer_jacobians(samples.first(jacobian_samples_), parameters, plan_);
  const double took = watch.seconds();
  // Rank 0's time is stored, since all numbers of the record must be the same on all ranks.
  std::vector<double> seconds(1, took);
  check_mpi(MPI_Bcast(seconds.data(), 1, MPI_DOUBLE, 0, problem().comm()));
  to.put(measured::largest_singular_value, found.largest);
  to.put(measured::largest_singular_error, found.largest_error);
  to.put(measured::smallest_singular_value, found.smallest);
  to.put(measured::smallest_singular_error, found.smallest_error);
  to.put(measured::lyapunov, found.lyapunov);
  to.put(measured::lyapunov_error, found.lyapunov_error);
  to.put(measured::lyapunov_sweeps, {found.lyapunov_sweeps});
  to.put(measured::jacobian_seconds, seconds);
}

void GradientFlow::measure_model(std::size_t seed, const std::string& name, Results& to) {
  const auto& model = problem().models().at(seed, name);
  const auto& parameters = model.parameters;
  const auto samples = with_targets(problem().samples(), masked_share_, model, name);
  const auto found = gradients(samples, parameters);
  for (const auto& one : measured_of(parameters.layout, found)) to.put(one.variable, one.values);
  std::ostringstream text;
  text << name << " disparity " << found.by_layer.disparity;
  to.say(text.str());
  to.put(measured::gradient_norm_by_sample, found.norm_by_sample);
  to.put(measured::gradient_size_by_sample, found.size_by_sample);
  std::vector<Measured> course;
  for (const long epoch : epochs_) {
    const auto copy = problem().models().after_epoch(seed, name, epoch);
    const auto then = measured_of(copy.layout, gradients(samples, copy));
    if (course.empty()) course.resize(then.size());
    for (std::size_t k = 0; k < then.size(); ++k) {
      course[k].variable = compare::after_epochs(then[k].variable);
      course[k].values.insert(course[k].values.end(), then[k].values.begin(), then[k].values.end());
    }
  }
  for (const auto& one : course) to.put(one.variable, one.values);
  if (jacobian_samples_ > 0) add_jacobians(samples, parameters, to);
}

void declare_gradient_flow(Options& options) {
  declare_compared(options);
  declare_study_run(options, "gradient_flow.h5");
  options.declare(epochs_option("gradient.epochs"));
  options.declare("gradient.jacobian_samples", 16L,
                  "number of samples at which the Jacobians of the layers are computed; 0: no Jacobians",
                  {.minimum = 0});
  options.declare(
      "gradient.steps", 60L,
      "Lanczos steps for the singular values of a layer's Jacobian; each costs about 5 forward passes; the "
      "largest are accurate after 30, the smallest may take hundreds (their errors are in the file)",
      {.minimum = 1});
  options.declare("gradient.exponents", 4L,
                  "number of leading Lyapunov exponents, at most the width of the models", {.minimum = 1});
  options.declare(
      "gradient.sweeps", 20L,
      "maximum number of sweeps of the tangent vectors back and forth through all layers before growth is "
      "measured: with 0, growth from random directions; with many, growth along the singular vectors",
      {.minimum = 0});
  options.declare("gradient.tolerance", 1e-3,
                  "a sample needs no more sweeps once none of its exponents changes by this much in a sweep; "
                  "0: all sweeps are made",
                  {.unit = "1/layer", .minimum = 0});
  declare_masked_words(options);
}

}  // namespace

ExperimentEntry gradient_flow_experiment() {
  return study_entry<GradientFlow>(
      {.name = "gradient_flow",
       .family = "compare",
       .sentence = "follows the gradient of the loss back through depth, and the Jacobians of the layers",
       .cites = "docs/model.md; arXiv 2408.09523; Golub, Kahan, SIAM J. Numer. Anal. B 2 (1965) 205; "
                "Benettin et al., Meccanica 15 (1980) 9",
       .declare = declare_gradient_flow},
      with_masked_share_of_models);
}

}  // namespace fluxformer
