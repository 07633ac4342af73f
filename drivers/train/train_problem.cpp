#include "drivers/train/train_problem.hpp"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <limits>
#include <numbers>
#include <numeric>
#include <sstream>
#include <utility>

#include "base/error.hpp"
#include "base/mpi.hpp"
#include "base/random.hpp"
#include "data/text/baselines.hpp"
#include "model/depth_march.hpp"
#include "model/depth_model.hpp"
#include "operators/kernels/blas.hpp"
#include "solvers/adjoint/adjoint_march.hpp"
#include "training/stage_cells.hpp"

namespace fluxformer {
namespace {

std::vector<std::size_t> every_sample(const data::Dataset& data) {
  std::vector<std::size_t> all(data.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  return all;
}

/// Draws `wanted` of `samples` of `data` (0: all), as `key` says, by the seed: files may be sorted by class.
std::vector<std::size_t> drawn_members(const data::Dataset& data, const std::vector<std::size_t>& samples,
                                       long wanted, std::uint64_t seed, const char* key,
                                       const char* purpose) {
  if (wanted > std::ssize(samples))
    throw BadInput(std::string(key) + " = " + std::to_string(wanted) + ": " + data.name() + " has " +
                   std::to_string(samples.size()) + " samples" +
                   (samples.size() < data.size() ? " with a label" : ""));
  if (wanted == 0) return samples;
  auto drawn = shuffled(samples.size(), seed, purpose, 0);
  drawn.resize(wanted);
  for (auto& place : drawn) place = samples[place];
  return drawn;
}

/// The samples of `test` that a classifier is tested on: those with a label, or as many of them as the plan
/// says.
std::vector<std::size_t> tested_members(const TrainPlan& plan, const data::Dataset& test) {
  const auto labelled = labelled_samples(test);
  if (labelled.empty()) return {};  // there is nothing to draw from
  return drawn_members(test, labelled, plan.samples.testing, plan.seed, "train.test_samples", "testing");
}

}  // namespace

Members draw_members(const TrainPlan& plan, const data::Dataset& train, const data::Dataset& test,
                     int outputs) {
  const auto& samples = plan.samples;
  const bool labels = !plan.objective.guesses_words();
  if (labels) refuse_unfit_labels(plan.objective.loss.kind, train, test, outputs);
  Members members;
  const auto drawn =
      drawn_members(train, every_sample(train), samples.training, plan.seed, "train.samples", "training");
  const auto apart = static_cast<std::size_t>(samples.validation * static_cast<double>(drawn.size()));
  const auto order = shuffled(drawn.size(), plan.seed, "validation", 0);
  for (std::size_t j = 0; j < order.size(); ++j)
    (j < apart ? members.validation : members.training).push_back(drawn[order[j]]);
  members.testing = labels ? tested_members(plan, test)
                           : drawn_members(test, every_sample(test), samples.testing, plan.seed,
                                           "train.test_samples", "testing");
  return members;
}

namespace {

/// The plan of the trainer, completed by what data and model decide. Collective over `comm`.
TrainerSettings trainer_settings(MPI_Comm comm, const TrainPlan& plan, const Parameters& parameters,
                                 const TokenLine& line, const DepthModel& model, long steps) {
  using enum TrainPlan::Coefficients;
  auto s = plan.trainer;
  s.schedule.steps = steps;
  s.schedule.warm_up = static_cast<long>(plan.warm_up * static_cast<double>(steps));
  const bool trained =
      plan.coefficients == yes || (plan.coefficients == of_a_pde && parameters.spec.kind == ModelKind::pde);
  // Somewhere in the depth, which ranks may share.
  double largest[] = {model.largest_kappa(), model.largest_nu()};
  largest_over_ranks(largest, comm);
  const EquationCoefficients whole{.kappa = {0, largest[0]}, .nu = {0, largest[1]}};
  s.coefficients = {
      .kappa = trained && largest[0] > 0, .alpha = trained, .rho = trained, .nu = trained && largest[1] > 0};
  s.largest = collectively(comm, [&] { return stable_coefficients(plan, parameters, whole, line); });
  return s;
}

/// True if naive Bayes can be fitted: to words of several classes, in a table that is no burden.
bool has_baseline(const data::Dataset& train) {
  constexpr double most = 1e8;
  const auto words = static_cast<std::size_t>(train.vocabulary());
  return words > train.placeholders().size() && train.classes() > 1 &&
         static_cast<double>(words) * train.classes() <= most;
}

}  // namespace

std::vector<DepthRange> cells_of_stages(const TrainPlan& plan, const ModelSpec& spec,
                                        const InputShape& input) {
  const bool all = plan.objective.words == ObjectivePlan::Words::next;  // all words are guessed
  const auto ends = end_work(spec, input, all ? 1 : plan.objective.masked_share);
  return balanced_stages(equation_for(plan.equation, spec).depth.cells, plan.ranks_depth, ends);
}

ShareOf share_of_stage(const TrainPlan& plan, const InputShape& input, int stage) {
  if (plan.ranks_depth == 1) return {};
  return [&plan, input, stage](const ModelSpec& spec) {
    const auto cells = cells_of_stages(plan, spec, input)[stage];
    auto share = share_of(spec, equation_for(plan.equation, spec).depth, cells);
    share.words = share.head && input.word_head && !input.own_word_matrix;
    // Both knots of a term of the penalty must be on one stage.
    if (plan.trainer.smoothness > 0) share.last_knot = std::min(share.last_knot + 1, spec.knots - 1);
    return share;
  };
}

PipelineSettings pipeline_settings(const TrainPlan& plan, int samples) {
  auto s = plan.pipeline;
  const int stages = plan.ranks_depth;
  // With four micro-batches for each stage the bubble is below a fifth of a step.
  constexpr int for_each_stage = 4;
  if (s.micro_batches == 0) s.micro_batches = stages == 1 ? 1 : std::min(samples, for_each_stage * stages);
  if (s.micro_batches > samples)
    throw BadInput("train.micro_batches = " + std::to_string(s.micro_batches) + ": a group of ranks has " +
                   std::to_string(samples) + " samples of a batch");
  return s;
}

std::unique_ptr<DepthMarch> make_march(DepthModel& model, const EquationSpec& equation,
                                       const GradientPlan& plan, DepthRange cells) {
  if (!plan.adjoint) return std::make_unique<Backpropagation>(model, equation.depth, equation.speed, cells);
  auto s = plan.settings;
  if (plan.segments)
    s.every = plan.segment > 0 ? plan.segment
                               : std::max(1, static_cast<int>(std::lround(std::sqrt(cells.count() / 8.0))));
  return std::make_unique<AdjointMarch>(model, equation.depth, equation.speed, s, cells);
}

TrainProblem::TrainProblem(const TrainPlan& of_run, MPI_Comm world)
    : plan(of_run), comm(world), ranks(world, plan.ranks_token, plan.ranks_depth) {
  open_samples();
  read_start();
  make_model();
  make_trainer();
  parameters->spec.set_depth(depth);
  measure_baselines();
}

void TrainProblem::open_samples() {
  auto data = plan.samples.data;
  auto known = known_input(data, comm);
  const int positions = known.sizes.tokens;
  if (plan.samples.packed) {
    // Texts are joined, not cut: what a sample may have is said of the lines.
    data.set.whole = true;
    data.set.cut = known.sizes.tokens = 0;
  }
  train = open_data(data, "train", known, comm);
  test = open_data(data, "test", known_input(*train), comm);
  members = draw_members(plan, *train, *test, known.sizes.classes);
  if (train->name() == "tokens") {
    copies.validation = copies_of(*train, members.training, *train, members.validation);
    if (!train->one_split()) copies.testing = copies_of(*train, members.training, *test, members.testing);
  }
  if (plan.samples.packed && train->vocabulary() > 0) join_texts(positions);
  words = make_word_training(plan.objective, plan.seed, *train, members.training);
}

void TrainProblem::join_texts(int positions) {
  const auto refuse = [](const std::string& why) { throw BadInput("train.contexts = packed: " + why); };
  const auto& set = plan.samples.data.set;
  const bool file = set.name == "tokens";
  const int tokens = !file ? set.length : set.cut > 0 ? set.cut : train->tokens_x();
  if (tokens < 2) refuse("a sample needs two tokens at least; data.length = " + std::to_string(tokens));
  if (train->segments() > 0) refuse("the tokens of data.set = " + train->title() + " have segments");
  if (positions > 0 && tokens > positions)
    refuse("samples of " + std::to_string(tokens) + " tokens, the model has positions for " +
           std::to_string(positions) + "; give data.length");
  const auto end = data::end_word_of(*train);
  if (end.added && !plan.model.file.empty())
    refuse("no word of the model in model.file = " + plan.model.file +
           " is one that ends a text: " + end.name + ", or such as <|endoftext|> or </s>");
  joined = {members, end};
  const auto join = [&](const data::Dataset& texts, const std::vector<data::PackedTexts::Part>& parts) {
    return std::make_unique<data::PackedTexts>(texts, end, tokens, parts);
  };
  const int apart = tokens - 1, stride = plan.samples.stride > 0 ? plan.samples.stride : apart;
  if (stride > apart)
    throw BadInput("evaluate.stride = " + std::to_string(stride) + ": samples have " +
                   std::to_string(tokens) + " tokens, so that at most " + std::to_string(apart) +
                   " leaves none out");
  auto train_lines = join(*train, {{members.training, apart}, {members.validation, stride}});
  auto test_lines = join(*test, {{members.testing, stride}});
  members = {train_lines->lines_of(0), train_lines->lines_of(1), test_lines->lines_of(0)};
  train = std::move(train_lines);
  test = std::move(test_lines);
}

void TrainProblem::read_start() {
  const auto input = model_input(plan, *train, words.get());
  teacher_parameters = read_teacher(plan, *train, words.get(), input, comm);
  auto start =
      starting_model(plan, input, teacher_parameters, share_of_stage(plan, input, ranks.stage), comm);
  parameters.emplace(std::move(start.parameters));
  if (plan.objective.words == ObjectivePlan::Words::next && !parameters->spec.causal)
    throw BadInput(
        "train.objective = causal: the next word is guessed from those before it; set attention.causal = "
        "true");
  collectively(comm, [&] {
    for (const auto* data : {train.get(), test.get()}) {
      require_real_tokens(*data, parameters->spec);
      if (teacher_parameters) require_real_tokens(*data, teacher_parameters->spec);
    }
  });
  adapted = std::move(start.report);
  refuse_other_lattice(plan.samples, *train);
  line.emplace(token_line(ranks.line, *train, plan.periodic));
  depth = equation_for(plan.equation, parameters->spec).depth;
  if (!plan.cells.empty() && !depth.equal())
    throw BadInput(
        "train.cells: draws cells of equal length, and those of model.file are not; give mesh.cells");
  stage_cells = cells_of_stages(plan, parameters->spec, input);
  cells = stage_cells[ranks.stage];
}

void TrainProblem::make_model() {
  const auto& samples = plan.samples;
  batches.emplace(*train, members.training, samples.batch, ranks.replica, plan.seed, samples.augment,
                  samples.noise);
  through_stages = pipeline_settings(plan, batches->capacity());
  const int parts = through_stages.micro_batches, size = micro_batch_size(batches->capacity(), parts);
  require_memory_of_training(
      comm, plan, *parameters,
      {.cells = cells,
       .micro_batches = most_in_flight(through_stages.schedule, ranks.stage, ranks.stages, parts),
       .tokens = line->block().count(),
       .samples = size,
       .one_stage = ranks.stages == 1});
  if (plan.objective.dropout > 0) dropout.emplace(plan.objective.dropout, plan.seed);
  slab = {.line = &*line,
          .samples = size,
          .width = parameters->spec.width,
          .mask = {},
          .dropout = dropout ? &*dropout : nullptr};
  slab.mask.causal = parameters->spec.causal;
  model = collectively(comm, [&] { return make_depth_model(*parameters, slab, plan.precision); });
  if (teacher_parameters) teacher = std::make_unique<Teacher>(*teacher_parameters, slab, plan.precision);
}

DepthRange TrainProblem::stage_on(int all_cells) const {
  const auto face = [&](long of_stage) {  // the same depth s among the other cells
    const long scaled = of_stage * all_cells;
    if (scaled % depth.cells != 0)
      throw BadInput(
          std::to_string(all_cells) +
          " cells: a stage of mesh.ranks_depth = " + std::to_string(ranks.stages) +
          " ends within one of them (the stages share mesh.cells = " + std::to_string(depth.cells) + ")");
    return static_cast<int>(scaled / depth.cells);
  };
  return {face(cells.first - 1) + 1, face(cells.last)};
}

std::unique_ptr<Pipeline> TrainProblem::pipeline_on(const DepthCells& other) {
  auto equation = equation_for(plan.equation, parameters->spec);
  equation.depth = other;
  const auto stage = stage_on(other.cells);
  Distillation* matched = nullptr;
  if (teacher != nullptr)
    matched = distillations
                  .emplace_back(std::make_unique<Distillation>(*teacher, *parameters, slab, equation.depth,
                                                               plan.objective.distillation, stage))
                  .get();
  return std::make_unique<Pipeline>(ranks.of_training(comm).depth, through_stages, [&] {
    Slot slot{make_march(*model, equation, plan.gradient, stage), nullptr};
    slot.evaluator = std::make_unique<GradientEvaluator>(*parameters, slab, *slot.march, plan.objective.loss);
    if (dropout) slot.evaluator->set_dropout(*dropout);
    if (matched != nullptr) slot.evaluator->add_depth_loss(*matched);
    return slot;
  });
}

void TrainProblem::make_trainer() {
  agree(comm, ranks.stages == 1 || slab.size() <= std::numeric_limits<int>::max(),
        "train.micro_batches = " + std::to_string(through_stages.micro_batches) +
            ": the state of a micro-batch is too large for a message; take more of them");
  auto pipeline = collectively(comm, [&] {
    for (const int drawn_cells : plan.cells) {
      try {
        drawn.push_back(drawn_cells == depth.cells ? nullptr : pipeline_on({depth.layers, drawn_cells}));
      } catch (const BadInput& e) {
        throw BadInput(std::string("train.cells: ") + e.what());
      }
    }
    return pipeline_on(depth);
  });
  trainer.emplace(ranks.of_training(comm), *parameters, *model, std::move(*pipeline),
                  trainer_settings(comm, plan, *parameters, *line, *model, total_steps()));
}

StepReport TrainProblem::step() {
  const long step = trainer->steps();
  Pipeline* on = nullptr;
  if (!drawn.empty()) on = drawn[RandomStream(plan.seed, "depth cells").below(step, drawn.size())].get();
  return on == nullptr ? trainer->step(batch(step)) : trainer->step(batch(step), *on);
}

void TrainProblem::measure_baselines() {
  if (words) {
    guesses = words->counted({ranks.of_training(comm).stage, *line, *test, members.testing, slab.samples});
    if (!members.validation.empty())
      samples(*train, members.validation);  // refuses unusable samples now, not after an epoch
    // A smoothed loss is none of a code.
    if (plan.objective.loss.smoothing == 0) {
      validation_bits = 1 / (std::numbers::ln2 * words->mean_bytes(*train, members.validation));
      test_bits = 1 / (std::numbers::ln2 * words->mean_bytes(*test, members.testing));
    }
    return;
  }
  if (members.testing.empty() || !has_baseline(*train)) return;
  baseline = collectively(comm, [&] {
    data::NaiveBayes bayes(0.1);
    bayes.fit(*train, members.training);
    return bayes.accuracy(*test, members.testing);
  });
}

SampleSet TrainProblem::samples(const data::Dataset& data, const std::vector<std::size_t>& chosen) const {
  const SampleSet plain{ranks.of_training(comm).stage, *line, data, chosen, slab.samples};
  return words ? words->for_evaluation(plain) : plain;
}

Batch TrainProblem::batch(long step) {
  auto batch = batches->at(step);
  if (words) words->choose(batch);
  return batch;
}

std::string TrainProblem::describe_samples() const {
  std::ostringstream text;
  if (joined)
    text << "\npacked: " << joined->texts.training.size() << " texts to train on, "
         << joined->texts.validation.size() << " to validate, " << joined->texts.testing.size()
         << " to test, not cut and joined by " << joined->end.name << " (word " << joined->end.index
         << (joined->end.added ? ", added" : "")
         << "); a sample shares one token with the next, and attention "
         << "looks across the joints of texts";
  if (joined && plan.samples.stride > 0)
    text << "\nvalidation and test samples begin every " << plan.samples.stride
         << " tokens and guess what the one before did not reach";
  if (const auto left = std::ssize(members.training) % batches->global(); left > 0)
    text << "\neach epoch leaves out " << left << " of " << members.training.size()
         << " training samples, others each time: batches are whole (train.batch = " << batches->global()
         << ")";
  if (!words) text << label_notes(*train, members.training, *test);
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
  if (plan.objective.words == ObjectivePlan::Words::masked && train->words().empty()) {
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
  const auto& spec = parameters->spec;
  text << to_word(spec.kind) << ", " << spec.layers << " layers on " << depth.cells << " depth cells, "
       << spec.knots << " sets of weights, width " << spec.width << ", " << trainer->trained()
       << " trained parameters\n"
       << train->title() << ": " << members.training.size() << " samples to train on, "
       << members.validation.size() << " to validate, " << members.testing.size() << " to test, "
       << line->tokens_x() << " x " << line->tokens_y() << " tokens, ";
  if (words)
    text << spec.vocabulary
         << (plan.objective.words == ObjectivePlan::Words::masked
                 ? " words, of which masked ones are guessed\n"
                 : " words, each guessed from those before it\n");
  else
    text << spec.classes << " classes\n";
  if (!plan.cells.empty()) {
    text << "depth cells of each step drawn from";
    for (const int drawn_cells : plan.cells) text << ' ' << drawn_cells;
    text << '\n';
  }
  text << plan.epochs << " epochs of " << batches->per_epoch() << " steps; " << ranks.replica.count
       << " group(s) of " << line->size() * ranks.stages << " rank(s), " << batches->capacity()
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
  if (guesses) text << '\n' << guesses->text(words->which(), test_bits);
  if (!adapted.empty()) text << "\nfrom the model file " << adapted;
  return text.str();
}

}  // namespace fluxformer
