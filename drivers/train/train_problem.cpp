#include "drivers/train/train_problem.hpp"

#include <algorithm>
#include <iomanip>
#include <limits>
#include <numeric>
#include <sstream>

#include "base/mpi.hpp"
#include "data/text/baselines.hpp"
#include "drivers/train/train_checks.hpp"
#include "drivers/train/train_stages.hpp"
#include "model/depth_model.hpp"
#include "operators/kernels/blas.hpp"

namespace fluxformer {
namespace {

RankLayout checked_rank_layout(const Settings& settings, MPI_Comm comm) {
  refuse_what_training_ignores(settings);
  return {comm, std::max(1, settings.count("mesh.ranks_token")),
          std::max(1, settings.count("mesh.ranks_depth"))};
}

std::vector<std::size_t> every_sample(const data::Dataset& data) {
  std::vector<std::size_t> all(data.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  return all;
}

/// Draws as many of `samples` of `data` as `key` says (0: all), by the seed: files may be sorted by class.
std::vector<std::size_t> drawn_members(const data::Dataset& data, const std::vector<std::size_t>& samples,
                                       const Settings& settings, const char* key, const char* purpose) {
  const long wanted = settings.integer(key);
  if (wanted > std::ssize(samples))
    throw BadInput(std::string(key) + " = " + std::to_string(wanted) + ": " + data.name() + " has " +
                   std::to_string(samples.size()) + " samples" +
                   (samples.size() < data.size() ? " with a label" : ""));
  if (wanted == 0) return samples;
  auto drawn = shuffled(samples.size(), static_cast<std::uint64_t>(settings.integer("run.seed")), purpose, 0);
  drawn.resize(wanted);
  for (auto& place : drawn) place = samples[place];
  return drawn;
}

}  // namespace

std::vector<std::size_t> tested_members(const Settings& settings, const data::Dataset& test) {
  const auto labelled = labelled_samples(test);
  if (labelled.empty()) return {};  // there is nothing to draw from
  return drawn_members(test, labelled, settings, "train.test_samples", "testing");
}

namespace {

Members draw_members(const Settings& settings, const data::Dataset& train, const data::Dataset& test,
                     int outputs) {
  const bool labels = !guesses_words(settings);
  if (labels) refuse_unfit_labels(settings, train, test, outputs);
  Members members;
  const auto drawn = drawn_members(train, every_sample(train), settings, "train.samples", "training");
  const auto apart =
      static_cast<std::size_t>(settings.real("train.validation") * static_cast<double>(drawn.size()));
  const auto order =
      shuffled(drawn.size(), static_cast<std::uint64_t>(settings.integer("run.seed")), "validation", 0);
  for (std::size_t j = 0; j < order.size(); ++j)
    (j < apart ? members.validation : members.training).push_back(drawn[order[j]]);
  members.testing = labels
                        ? tested_members(settings, test)
                        : drawn_members(test, every_sample(test), settings, "train.test_samples", "testing");
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
                             const TokenLine& line, const KeptStates& kept, const Dropout* dropout) {
  require_memory_of_training(comm, settings, parameters, kept);
  SlabContext context{&line, kept.samples, parameters.spec.width, {}, dropout};
  context.mask.causal = parameters.spec.causal;
  return context;
}

TrainerSettings trainer_settings(MPI_Comm comm, const Settings& settings, const Parameters& parameters,
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
  s.largest_kappa = collectively(comm, [&] { return largest_kappa(settings, parameters, line); });
  return s;
}

/// True if there is diffusion over tokens anywhere in the depth.
bool diffuses_somewhere(MPI_Comm comm, const DepthModel& model) {
  double kappa = model.largest_kappa();
  largest_over_ranks({&kappa, 1}, comm);
  return kappa > 0;
}

std::optional<MaskedTraining> make_masked(const Settings& settings, const data::Dataset& train,
                                          const Members& members) {
  if (!guesses_words(settings)) return {};
  return std::make_optional<MaskedTraining>(settings, train, members.training);
}

/// True if naive Bayes can be fitted: to words of several classes, in a table that is no burden.
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
      members(draw_members(settings, *train, *test, known_input(settings, world).sizes.classes)),
      masked(make_masked(settings, *train, members)),
      teacher_parameters(read_teacher(settings, *train, masked, world)),
      start(starting_model(
          settings, *train, masked, teacher_parameters,
          share_of_stage(settings, model_input(settings, *train, masked), ranks.stages, ranks.stage), world)),
      parameters(start.parameters),
      line(checked_line(settings, *train, ranks)),
      depth(equation_spec(settings, parameters.spec).depth),
      stage_cells(
          cells_of_stages(settings, parameters.spec, model_input(settings, *train, masked), ranks.stages)),
      cells(stage_cells[ranks.stage]),
      batches(make_batches(settings, *train, members, ranks.replica)),
      through_stages(pipeline_settings(settings, batches.capacity(), ranks.stages)),
      dropout(settings.real("train.dropout"), static_cast<std::uint64_t>(settings.integer("run.seed"))),
      slab(training_context(world, settings, parameters, line, kept_states(),
                            settings.real("train.dropout") > 0 ? &dropout : nullptr)),
      model(collectively(world, [&] { return make_depth_model(parameters, slab, precision_of(settings)); })),
      teacher(make_teacher(settings)),
      distillation(make_distillation(settings)),
      slots(collectively(world, [&] { return make_slots(settings); })),
      trainer(ranks.of_training(world), parameters, make_pipeline(),
              trainer_settings(world, settings, parameters, line, diffuses_somewhere(world, *model),
                               total_steps())) {
  parameters.spec.cells = depth.cells;
  if (train->name() == "tokens") {
    copies.validation = copies_of(*train, members.training, *train, members.validation);
    if (!train->one_split()) copies.testing = copies_of(*train, members.training, *test, members.testing);
  }
  measure_baselines();
}

void TrainProblem::measure_baselines() {
  if (masked) {
    guesses = masked->counted({ranks.of_training(comm).stage, line, *test, members.testing, slab.samples});
    if (!members.validation.empty())
      samples(*train, members.validation);  // refuses unusable samples now, not after an epoch
    return;
  }
  if (members.testing.empty() || !has_baseline(*train)) return;
  baseline = collectively(comm, [&] {
    data::NaiveBayes bayes(0.1);
    bayes.fit(*train, members.training);
    return bayes.accuracy(*test, members.testing);
  });
}

std::unique_ptr<Teacher> TrainProblem::make_teacher(const Settings& settings) const {
  if (!teacher_parameters) return nullptr;
  return std::make_unique<Teacher>(*teacher_parameters, slab, precision_of(settings));
}

std::unique_ptr<Distillation> TrainProblem::make_distillation(const Settings& settings) const {
  if (teacher == nullptr) return nullptr;
  return std::make_unique<Distillation>(*teacher, parameters, slab, depth, distillation_weights(settings),
                                        cells);
}

KeptStates TrainProblem::kept_states() const {
  return {.cells = cells,
          .micro_batches = most_in_flight(through_stages.schedule, ranks.stage, ranks.stages,
                                          through_stages.micro_batches),
          .tokens = line.block().count(),
          .samples = micro_batch_size(batches.capacity(), through_stages.micro_batches),
          .one_stage = ranks.stages == 1};
}

std::vector<Slot> TrainProblem::make_slots(const Settings& settings) {
  std::vector<Slot> made(kept_states().micro_batches);
  for (auto& slot : made) {
    slot.march = make_march(*model, settings, cells);
    slot.evaluator =
        std::make_unique<GradientEvaluator>(parameters, slab, *slot.march, loss_of_settings(settings));
    if (slab.dropout != nullptr) slot.evaluator->set_dropout(dropout);
    if (distillation != nullptr) slot.evaluator->add_depth_loss(*distillation);
  }
  return made;
}

Pipeline TrainProblem::make_pipeline() const {
  agree(comm, ranks.stages == 1 || slab.size() <= std::numeric_limits<int>::max(),
        "train.micro_batches = " + std::to_string(through_stages.micro_batches) +
            ": the state of a micro-batch is too large for a message; take more of them");
  std::vector<GradientEvaluator*> evaluators;
  evaluators.reserve(slots.size());
  for (const auto& slot : slots) evaluators.push_back(slot.evaluator.get());
  return {ranks.of_training(comm).depth, std::move(evaluators), through_stages};
}

SampleSet TrainProblem::samples(const data::Dataset& data, const std::vector<std::size_t>& chosen) const {
  const SampleSet plain{ranks.of_training(comm).stage, line, data, chosen, slab.samples};
  return masked ? masked->masked(plain) : plain;
}

Batch TrainProblem::batch(long step) {
  auto batch = batches.at(step);
  if (masked) masked->mask(batch);
  return batch;
}

std::string TrainProblem::describe_samples() const {
  std::ostringstream text;
  if (const auto left = std::ssize(members.training) % batches.global(); left > 0)
    text << "\neach epoch leaves out " << left << " of " << members.training.size()
         << " training samples, others each time: batches are whole (train.batch = " << batches.global()
         << ")";
  if (!masked) text << label_notes(*train, members.training, *test);
  if (train->one_split() && !members.testing.empty())
    text << "\nno test split: these are the training samples, and so the test accuracy is that of samples "
            "that were trained on";
  if (copies.validation > 0)
    text << '\n'
         << copies.validation << " of " << members.validation.size()
         << " validation samples have the same tokens as a training sample";
  if (copies.testing > 0)
    text << '\n'
         << copies.testing << " of " << members.testing.size()
         << " test samples have the same tokens as a training sample";
  if (masked && train->words().empty()) {
    const auto spared = train->placeholders().size();
    text << "\nthe file has no words: which ids are special tokens or padding is not known; ";
    if (spared > 0)
      text << "the " << spared << " that its specials name are not masked, all others are";
    else
      text << "all are masked and guessed (give `fluxformer tokens` the words, or --specials)";
  }
  return text.str();
}

std::string TrainProblem::describe() const {
  std::ostringstream text;
  const auto& spec = parameters.spec;
  text << to_word(spec.kind) << ", " << spec.layers << " layers on " << depth.cells << " depth cells, "
       << spec.knots << " sets of weights, width " << spec.width << ", " << trainer.trained()
       << " trained parameters\n"
       << train->title() << ": " << members.training.size() << " samples to train on, "
       << members.validation.size() << " to validate, " << members.testing.size() << " to test, "
       << line.tokens_x() << " x " << line.tokens_y() << " tokens, ";
  if (masked)
    text << spec.vocabulary << " words, of which masked ones are guessed\n";
  else
    text << spec.classes << " classes\n";
  text << epochs << " epochs of " << batches.per_epoch() << " steps; " << ranks.replica.count
       << " group(s) of " << line.size() * ranks.stages << " rank(s), " << batches.capacity()
       << " samples each; " << blas_description();
  if (ranks.stages > 1) {
    text << '\n' << ranks.stages << " stages of depth: cells";
    for (const auto& range : stage_cells) text << ' ' << range.first << '-' << range.last;
    text << "; " << through_stages.micro_batches << " micro-batches of " << slab.samples
         << " samples, of which stages wait for the others " << std::setprecision(3)
         << 100 * bubble(ranks.stages, through_stages.micro_batches) << " % of a step at least";
  }
  text << describe_samples();
  if (baseline)
    text << "\nnaive Bayes on the same tokens: " << 100 * *baseline << " % of the same "
         << members.testing.size() << (train->one_split() ? " training texts" : " test texts")
         << ", after the same " << members.training.size() << " training texts";
  if (guesses)
    text << "\nof the masked test words the most frequent word is " << 100 * guesses->unigram
         << " %, the bigram guess " << 100 * guesses->bigram << " %";
  if (!start.report.empty()) text << "\nfrom the model file " << start.report;
  return text.str();
}

}  // namespace fluxformer
