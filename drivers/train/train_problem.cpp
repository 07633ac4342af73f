#include "drivers/train/train_problem.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <sstream>

#include "base/rank_of.hpp"
#include "data/text/naive_bayes.hpp"
#include "drivers/train/train_checks.hpp"
#include "model/backpropagation.hpp"
#include "model/make_depth_model.hpp"
#include "operators/kernels/blas.hpp"
#include "solvers/adjoint/adjoint_march.hpp"

namespace fluxformer {
namespace {

RankLayout checked_rank_layout(const Settings& settings, MPI_Comm comm) {
  refuse_what_training_ignores(settings);
  return {comm, std::max(1, settings.count("mesh.ranks_token"))};
}

/// `key` (0: all) of the samples of `data`, drawn by the seed: files may be sorted by class.
std::vector<std::size_t> drawn_members(const data::Dataset& data, const Settings& settings, const char* key,
                                       const char* purpose) {
  const long wanted = settings.integer(key);
  if (wanted > static_cast<long>(data.size()))
    throw BadInput(std::string(key) + " = " + std::to_string(wanted) + ": " + data.name() + " has " +
                   std::to_string(data.size()) + " samples");
  if (wanted == 0) {
    std::vector<std::size_t> all(data.size());
    std::iota(all.begin(), all.end(), std::size_t{0});
    return all;
  }
  auto drawn = shuffled(data.size(), static_cast<std::uint64_t>(settings.integer("run.seed")), purpose, 0);
  drawn.resize(static_cast<std::size_t>(wanted));
  return drawn;
}

Members draw_members(const Settings& settings, const data::Dataset& train, const data::Dataset& test) {
  Members members;
  const auto drawn = drawn_members(train, settings, "train.samples", "training");
  const auto apart =
      static_cast<std::size_t>(settings.real("train.validation") * static_cast<double>(drawn.size()));
  const auto order =
      shuffled(drawn.size(), static_cast<std::uint64_t>(settings.integer("run.seed")), "validation", 0);
  for (std::size_t j = 0; j < order.size(); ++j)
    (j < apart ? members.validation : members.training).push_back(drawn[order[j]]);
  members.testing = drawn_members(test, settings, "train.test_samples", "testing");
  return members;
}

TokenLine checked_line(const Settings& settings, const data::Dataset& data, const RankLayout& ranks) {
  refuse_other_lattice(settings, data);
  return token_line(ranks.line, data, settings.flag("mesh.periodic"));
}

Batches make_batches(const Settings& settings, const data::Dataset& data, const Members& members,
                     const Replica& replica) {
  return {data,
          members.training,
          settings.count("train.batch"),
          replica,
          static_cast<std::uint64_t>(settings.integer("run.seed")),
          settings.real("train.augment"),
          settings.real("train.noise")};
}

SlabContext training_context(MPI_Comm comm, const Settings& settings, const Parameters& parameters,
                             const TokenLine& line, int samples, const Dropout* dropout) {
  require_memory_of_training(comm, settings, parameters, line, samples);
  SlabContext context{&line, samples, parameters.spec.width, {}, dropout};
  context.mask.causal = parameters.spec.causal;
  return context;
}

std::unique_ptr<DepthMarch> make_march(DepthModel& model, const Settings& settings) {
  const auto equation = equation_spec(settings, model.spec());
  if (settings.word("train.gradient") == "backprop")
    return std::make_unique<Backpropagation>(model, equation.depth, equation.speed);
  AdjointSettings s;
  s.method = settings.word("adjoint.method");
  s.theta = settings.real("adjoint.theta");
  const auto& keep = settings.word("adjoint.keep");
  const int segment = settings.count("adjoint.segment");
  s.tapes = keep == "tapes";
  if (keep == "segments" || keep == "disk")
    s.every = segment > 0 ? segment
                          : std::max(1, static_cast<int>(std::lround(std::sqrt(equation.depth.cells / 8.0))));
  s.on_disk = keep == "disk";
  s.folder = settings.word("adjoint.folder");
  if (precision_of(settings) == Precision::single)
    s.newton_tolerance = s.linear_tolerance = 1e-5;  // round-off of the kernels
  return std::make_unique<AdjointMarch>(model, equation.depth, equation.speed, s);
}

TrainerSettings trainer_settings(const Settings& settings, const Parameters& parameters,
                                 const TokenLine& line, bool diffuses, long steps) {
  TrainerSettings s;
  s.optimiser = {method_named(settings.word("train.optimiser")),
                 settings.real("train.momentum"),
                 settings.real("train.beta1"),
                 settings.real("train.beta2"),
                 settings.real("train.epsilon"),
                 settings.real("train.decay")};
  s.schedule.peak = settings.real("train.rate");
  s.schedule.steps = steps;
  s.schedule.warm_up = static_cast<long>(settings.real("train.warm_up") * static_cast<double>(steps));
  s.schedule.decay = decay_named(settings.word("train.schedule"));
  s.schedule.last = settings.real("train.last_rate") * s.schedule.peak;
  const auto& coefficients = settings.word("train.coefficients");
  const bool trained =
      coefficients == "yes" || (coefficients == "auto" && parameters.spec.kind == ModelKind::pde);
  s.coefficients = {trained && diffuses, trained, trained};
  s.clip = settings.real("train.clip");
  s.smoothness = settings.real("train.smoothness");
  s.largest_kappa = largest_kappa(settings, parameters, line);
  return s;
}

std::optional<MaskedTraining> make_masked(const Settings& settings, const data::Dataset& train,
                                          const Members& members) {
  if (!guesses_words(settings)) return {};
  return std::make_optional<MaskedTraining>(settings, train, members.training);
}

/// Whether naive Bayes can be fitted: to words of several classes, in a table that is no burden.
bool has_baseline(const data::Dataset& train) {
  constexpr double most = 1e8;
  const auto words = static_cast<std::size_t>(train.vocabulary());
  return words > train.placeholders().size() && train.classes() > 1 &&
         static_cast<double>(words) * train.classes() <= most;
}

}  // namespace

TrainProblem::TrainProblem(const Settings& settings, MPI_Comm world)
    : comm(world),
      epochs(settings.integer("train.epochs")),
      ranks(checked_rank_layout(settings, world)),
      train(open_data(settings, "train", known_input(settings, world), world)),
      test(open_data(settings, "test", known_input(*train), world)),
      members(draw_members(settings, *train, *test)),
      masked(make_masked(settings, *train, members)),
      teacher_parameters(read_teacher(settings, *train, masked, world)),
      start(starting_model(settings, *train, masked, teacher_parameters, world)),
      parameters(start.parameters),
      line(checked_line(settings, *train, ranks)),
      batches(make_batches(settings, *train, members, ranks.replica)),
      dropout(settings.real("train.dropout"), static_cast<std::uint64_t>(settings.integer("run.seed"))),
      slab(training_context(world, settings, parameters, line, batches.capacity(),
                            settings.real("train.dropout") > 0 ? &dropout : nullptr)),
      model(make_depth_model(parameters, slab, precision_of(settings))),
      march(make_march(*model, settings)),
      evaluator(parameters, slab, *march, loss_of_settings(settings)),
      trainer(world, parameters, evaluator,
              trainer_settings(settings, parameters, line, model->largest_kappa() > 0, total_steps())) {
  parameters.spec.cells = march->depth().cells;
  if (slab.dropout != nullptr) evaluator.set_dropout(dropout);
  add_distillation(settings);
  measure_baselines();
}

void TrainProblem::measure_baselines() {
  if (masked) {
    guesses = masked->counted({comm, line, *test, members.testing, batches.capacity()});
    if (!members.validation.empty())
      samples(*train, members.validation);  // refuses them now, not after an epoch
    return;
  }
  if (!has_baseline(*train)) return;
  baseline = collectively(comm, [&] {
    data::NaiveBayes bayes(0.1);
    bayes.fit(*train);
    return bayes.accuracy(*test);
  });
}

void TrainProblem::add_distillation(const Settings& settings) {
  if (!teacher_parameters) return;
  teacher = std::make_unique<Teacher>(*teacher_parameters, slab, precision_of(settings));
  distillation = std::make_unique<Distillation>(*teacher, parameters, slab, march->depth(),
                                                distillation_weights(settings));
  evaluator.add_depth_loss(*distillation);
}

SampleSet TrainProblem::samples(const data::Dataset& data, const std::vector<std::size_t>& chosen) const {
  const SampleSet plain{comm, line, data, chosen, batches.capacity()};
  return masked ? masked->masked(plain) : plain;
}

Batch TrainProblem::batch(long step) {
  auto batch = batches.at(step);
  if (masked) masked->mask(batch);
  return batch;
}

std::string TrainProblem::describe() const {
  std::ostringstream text;
  const auto& spec = parameters.spec;
  text << to_word(spec.kind) << ", " << spec.layers << " layers on " << march->depth().cells
       << " depth cells, " << spec.knots << " sets of weights, width " << spec.width << ", "
       << trainer.trained() << " trained parameters\n"
       << train->name() << ": " << members.training.size() << " samples to train on, "
       << members.validation.size() << " to validate, " << members.testing.size() << " to test, "
       << line.tokens_x() << " x " << line.tokens_y() << " tokens, ";
  if (masked)
    text << spec.vocabulary << " words, of which masked ones are guessed\n";
  else
    text << spec.classes << " classes\n";
  text << epochs << " epochs of " << batches.per_epoch() << " steps; " << ranks.replica.count
       << " group(s) of " << line.size() << " rank(s), " << batches.capacity() << " samples each; "
       << blas_description();
  if (baseline) text << "\nnaive Bayes on the same tokens: " << 100 * *baseline << " % of the test texts";
  if (guesses)
    text << "\nof the masked test words the most frequent word is " << 100 * guesses->unigram
         << " %, the bigram guess " << 100 * guesses->bigram << " %";
  if (!start.report.empty()) text << "\nfrom the model file " << start.report;
  return text.str();
}

}  // namespace fluxformer
