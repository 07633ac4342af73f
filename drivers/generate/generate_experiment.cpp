// `generate`: texts continued word by word by a causal model.

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <optional>
#include <sstream>
#include <utility>

#include "base/error.hpp"
#include "base/memory.hpp"
#include "base/mpi.hpp"
#include "base/random.hpp"
#include "base/statistics.hpp"
#include "data/text/vocabulary.hpp"
#include "drivers/common/data_options.hpp"
#include "drivers/common/model_options.hpp"
#include "drivers/common/run_options.hpp"
#include "drivers/compare/guessed_words.hpp"
#include "drivers/generate/word_choice.hpp"
#include "drivers/registry.hpp"
#include "drivers/study/study.hpp"
#include "io/axes.hpp"
#include "io/digest.hpp"
#include "io/layout.hpp"
#include "model/line_reader.hpp"
#include "model/model_file.hpp"
#include "model/tasks/word_targets.hpp"
#include "model/tasks/word_task.hpp"

namespace fluxformer {

namespace generated {

// The arrays of a token file (src/data/tokens/token_file.hpp), which other runs can take as data.file.
const io::Variable ids{
    "ids", {"sample", "token"}, "", "numbers of the words: of the prompt, of its continuation, then 0", true},
    lengths{"lengths", {"sample"}, "", "words of prompt and continuation together", true},
    words{"words", {"word"}, "", model_file::vocabulary_meaning};
const io::Variable word = io::index("word", "word of the model's table");

const io::Variable prompt_length{"prompt_length", {"sample"}, "", "words of the prompt", true},
    log_probability{
        "log_probability",
        {"sample", "token"},
        "nat",
        "log p of each word behind those before it, by the model itself (temperature 1, all words); NaN: "
        "the first word, words of the prompt that are no targets (unknown ones), and no word"},
    token_marches{"token_marches",
                  {"sample"},
                  "",
                  "tokens that were marched through the depth cells for this text",
                  true},
    perplexity{"perplexity", {}, "", "exp of the mean of -log p over all words of all continuations"},
    prompt_perplexity{"prompt_perplexity", {}, "", "the same over the targets in the prompts"};

const io::Attribute model{"model", "the file of the model"}, trained{"trained", "origin of its weights"},
    stop{"stop", "number of the word behind which a continuation ends; -1: none"};

}  // namespace generated

namespace {

/// The keys generate.*, and what they are about.
struct GeneratePlan {
  std::string file;  ///< model.file
  DataPlan data;
  long prompts = 0;  ///< 0: all
  int tokens = 0;    ///< new words of each prompt
  WordChoice choice;
  std::string stop;  ///< word, number of a word, auto or none
  EarlierTokens earlier = EarlierTokens::kept;
  int batch = 1;  ///< prompts of a place
  Precision precision = Precision::float64;
  std::uint64_t seed = 1;
  double memory = 0;
  std::string output;
};

GeneratePlan plan_of_generation(const Settings& settings) {
  return {.file = settings.word("model.file"),
          .data = data_plan(settings),
          .prompts = settings.integer("generate.prompts"),
          .tokens = settings.count("generate.tokens"),
          .choice = {.temperature = settings.real("generate.temperature"),
                     .most = settings.count("generate.top_k")},
          .stop = settings.word("generate.stop"),
          .earlier = settings.flag("generate.keep") ? EarlierTokens::kept : EarlierTokens::again,
          .batch = settings.count("generate.batch"),
          .precision = precision_of(settings),
          .seed = static_cast<std::uint64_t>(settings.integer("run.seed")),
          .memory = settings.real("run.memory"),
          .output = settings.word("output.file")};
}

/// The model of a file, if it can generate words.
struct WordModel {
  /// Collective; throws BadInput (agreed).
  WordModel(const GeneratePlan& plan, MPI_Comm comm);
  /// Throws BadInput unless these are its words, and its positions are enough for lines of `tokens` tokens that
  /// begin with the longest prompt. Not collective.
  void require_prompts(const GeneratePlan& plan, const data::Dataset& prompts, int longest) const;

  std::string key;  ///< key and file, for messages
  ModelOrigin origin;
  Parameters parameters;

 private:
  WordModel(const GeneratePlan& plan, const io::ArchiveReader& file);
};

/// The file to read. Throws BadInput (agreed) if there is none, or if the run would replace it. Collective.
const std::string& checked_file(const GeneratePlan& plan, MPI_Comm comm) {
  if (plan.file.empty())
    throw BadInput(
        "model.file: no file given; it is the model that continues the prompts, written by train or by "
        "the import command");
  collectively(comm, [&] {
    std::error_code not_there;
    if (std::filesystem::equivalent(plan.file, plan.output, not_there))
      throw BadInput("model.file = " + plan.file + ": is output.file, too, which would replace the model");
  });
  return plan.file;
}

WordModel::WordModel(const GeneratePlan& plan, MPI_Comm comm)
    : WordModel(plan, io::ArchiveReader(comm, checked_file(plan, comm), "model.file = ")) {}

WordModel::WordModel(const GeneratePlan& plan, const io::ArchiveReader& file)
    : key("model.file = " + plan.file), origin(file), parameters(read_model(file)) {
  auto& spec = parameters.spec;
  if (!spec.word_head.present) throw BadInput(key + ": guesses no words: it has no word head");
  if (!spec.causal)
    throw BadInput(
        key +
        ": a token of it sees those behind it, which are not there yet; words are generated by models "
        "with attention.causal = true");
  if (!guesses_next_words(spec, origin))
    throw BadInput(key + ": was trained to guess masked words (train.objective), not next ones");
  origin.require_comparable(key, Marches::layer_map);
  if (spec.cells == 0) spec.cells = spec.layers;
}

void WordModel::require_prompts(const GeneratePlan& plan, const data::Dataset& prompts, int longest) const {
  const auto& spec = parameters.spec;
  const std::string set = "data.set = " + prompts.title();
  if (prompts.vocabulary() == 0)
    throw BadInput(set + ": its tokens are not words, so that it has no prompts");
  if (prompts.vocabulary() != spec.vocabulary)
    throw BadInput(set + ": its vocabulary has " + std::to_string(prompts.vocabulary()) + " words, that of " +
                   key + " " + std::to_string(spec.vocabulary));
  if (prompts.segments() != spec.segments)
    throw BadInput(set + ": its tokens are of " + std::to_string(prompts.segments()) + " segments, " + key +
                   " has a table of " + std::to_string(spec.segments));
  require_real_tokens(prompts, spec);
  if (spec.tokens > 0 && longest + plan.tokens > spec.tokens)
    throw BadInput("generate.tokens = " + std::to_string(plan.tokens) + ": behind a prompt of " +
                   std::to_string(longest) + " words these are " + std::to_string(longest + plan.tokens) +
                   ", and " + key + " has positions for " + std::to_string(spec.tokens) +
                   "; take fewer, or cut the prompts by data.length");
}

/// The word behind which a continuation ends; -1: none. `stop` is generate.stop. Throws BadInput.
int stop_word(const std::string& stop, const data::Dataset& prompts) {
  const auto names = prompts.words();
  const auto number_of = [&](const std::string& word) -> int {
    const auto place = std::ranges::find(names, word);
    return place == names.end() ? -1 : static_cast<int>(place - names.begin());
  };
  if (stop == "none") return -1;
  if (stop == "auto") {
    for (const auto word : data::end_marks)
      if (const int number = number_of(std::string(word)); number >= 0) return number;
    return -1;
  }
  if (const int number = number_of(stop); number >= 0) return number;
  const bool digits =
      !stop.empty() && stop.size() < 10 && stop.find_first_not_of("0123456789") == std::string::npos;
  if (names.empty() && digits && std::stoi(stop) < prompts.vocabulary()) return std::stoi(stop);
  throw BadInput("generate.stop = " + stop + ": " +
                 (names.empty() ? "the words of the model have no names; give the number of one, below " +
                                      std::to_string(prompts.vocabulary()) + ", auto or none"
                                : "is no word of the model; auto and none are allowed, too"));
}

/// Texts of a place: so many of one length, a row for each.
struct Texts {
  Texts(std::size_t samples, int line)
      : ids(samples * line, 0.0),
        log_p(samples * line, missing_value),
        length(samples, 0.0),
        marches(samples, 0.0) {}

  std::vector<double> ids, log_p;       // [sample][token]
  std::vector<double> length, marches;  // [sample]
};

class Generation final : public Study {
 public:
  Generation(const Settings& settings, MPI_Comm comm);
  static study::Contents contents();

  std::string describe() const override;
  std::vector<Place> places() const override;
  std::string unit() const override { return "batches of prompts"; }
  std::vector<Source> sources() const override;
  std::vector<io::Variable> kept() const override { return {ids_, log_p_, lengths_, marches_}; }
  void begin(StudyRecord& record) override;
  void measure(const Place& place, Results& to) override;
  bool conclude(const Findings& found, RunFrame& frame, StudyRecord& record) override;
  std::string summary(const Findings&) const override { return summary_; }

 private:
  /// A text that is being continued.
  struct Line {
    std::size_t sample;  ///< index in the data set
    int prompt, length, end;
    bool done = false;
  };
  const ModelSpec& spec() const { return model_.parameters.spec; }
  std::string group() const { return to_word(spec().kind); }
  Batch prompt_batch(std::span<const Line> lines, int tokens) const;
  /// Takes what the logits z say of the token at `at` of a line: log p of the next word, which is chosen first
  /// where the line ends there.
  void take(Line& line, Index slot, int at, std::span<const double> z, Batch& batch, Texts& texts) const;
  /// The texts of all prompts, in the order of `samples_`.
  Texts all_texts(const Findings& found) const;
  std::string shown(const Texts& texts) const;

  GeneratePlan plan_;
  WordModel model_;
  std::unique_ptr<data::Dataset> prompts_;
  std::vector<std::size_t> samples_;  // indices in the data set, rising
  std::vector<std::size_t> order_;    // places in samples_ in the order in which they are continued
  int line_ = 0;                      // words of the longest text
  int stop_;
  std::vector<char> possible_;  // 1 for words that are targets
  std::string summary_;
  // Results of a place: its texts in the order of `order_`.
  io::Variable ids_, log_p_, lengths_, marches_;
};

Generation::Generation(const Settings& settings, MPI_Comm comm)
    : plan_(plan_of_generation(settings)),
      model_(plan_, comm),
      prompts_(open_data(plan_.data, "test", known_input(plan_.data, comm), comm)) {
  collectively(comm, [&] {
    if (plan_.prompts > static_cast<long>(prompts_->size()))
      throw BadInput("generate.prompts = " + std::to_string(plan_.prompts) + ": " + prompts_->title() +
                     " has " + std::to_string(prompts_->size()) + " samples");
    samples_ = shuffled(prompts_->size(), plan_.seed, "prompts", 0);
    if (plan_.prompts > 0) samples_.resize(plan_.prompts);
    std::ranges::sort(samples_);
    const auto length = [&](std::size_t place) { return prompts_->length(samples_[place]); };
    order_.resize(samples_.size());
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    // Prompts of one length are read in one march.
    std::ranges::stable_sort(order_, {}, length);
    const int longest = length(order_.back());
    model_.require_prompts(plan_, *prompts_, longest);
    line_ = longest + plan_.tokens;
    if (plan_.choice.most > spec().vocabulary)
      throw BadInput("generate.top_k = " + std::to_string(plan_.choice.most) + ": the model has " +
                     std::to_string(spec().vocabulary) + " words");
    stop_ = stop_word(plan_.stop, *prompts_);
    possible_ = NextWords(*prompts_).possible();
  });
  require_memory(comm, LineReader::bytes(spec(), line_, plan_.batch, plan_.precision, plan_.earlier),
                 "generate.batch = " + std::to_string(plan_.batch) + " lines of " + std::to_string(line_) +
                     " tokens, whose keys and values are kept (generate.keep),",
                 plan_.memory);
  require_length(spec(), line_, "generate.tokens = " + std::to_string(plan_.tokens), model_.key, comm);
  const auto of_batch = [&](const io::Variable& of, Index numbers) {
    return io::Variable{of.name + "_of_batch", {"extent_" + std::to_string(numbers)}, of.unit, of.long_name};
  };
  const Index batch = plan_.batch;
  ids_ = of_batch(generated::ids, batch * line_);
  log_p_ = of_batch(generated::log_probability, batch * line_);
  lengths_ = of_batch(generated::lengths, batch);
  marches_ = of_batch(generated::token_marches, batch);
}

study::Contents Generation::contents() {
  using namespace generated;
  return {
      .coordinates = {axes::test_sample, axes::token, word, ids, lengths, words},
      .notes = {model, trained, stop},
      .measures = {prompt_length, generated::log_probability, token_marches, perplexity, prompt_perplexity}};
}

std::string Generation::describe() const {
  std::ostringstream text;
  text << to_word(spec().kind) << ", " << spec().layers << " layers on " << spec().cells
       << " depth cells, width " << spec().width << ", " << spec().vocabulary << " words; "
       << model_.origin.text() << '\n'
       << prompts_->title() << ": " << samples_.size() << " prompts of "
       << prompts_->length(samples_[order_.front()]) << " to " << line_ - plan_.tokens << " words, up to "
       << plan_.tokens << " new words each, ";
  if (plan_.choice.temperature == 0)
    text << "always the one of the largest logit";
  else
    text << "drawn at temperature " << plan_.choice.temperature;
  if (plan_.choice.most > 0) text << " from the " << plan_.choice.most << " of the largest logits";
  if (stop_ >= 0)
    text << "; a text ends behind word " << stop_
         << (prompts_->words().empty() ? "" : " (" + prompts_->words()[stop_] + ")");
  return text.str();
}

std::vector<Place> Generation::places() const {
  std::vector<Place> all;
  const std::size_t each = plan_.batch;
  for (std::size_t first = 0; first < order_.size(); first += each)
    all.push_back({.group = group(),
                   .name = "prompts " + std::to_string(first + 1) + " to " +
                           std::to_string(std::min(first + each, order_.size())),
                   .index = {{axes::seed.name, 0}, {"first", first}}});
  return all;
}

std::vector<Study::Source> Generation::sources() const {
  return {{.called = model_.key,
           .digest = digest_of(spec()) +
                     io::digest_of(model_.parameters.values.data(), std::ssize(model_.parameters.values))},
          {.called = "data.set = " + prompts_->title(), .digest = digest_of_samples(*prompts_, samples_)}};
}

void Generation::begin(StudyRecord& record) {
  record.seeds({static_cast<long>(plan_.seed)});
  record.samples(samples_);
  record.axis(axes::token, 0, line_ - 1);
  record.note("", generated::model, plan_.file);
  record.note("", generated::trained, model_.origin.text());
  record.note("", generated::stop, static_cast<long>(stop_));
}

Batch Generation::prompt_batch(std::span<const Line> lines, int tokens) const {
  const Index features = prompts_->features();
  std::vector<double> sample(Index{prompts_->tokens_x()} * features);
  Batch batch;
  batch.input.assign(lines.size() * tokens * features, 0.0);
  for (Index slot = 0; slot < std::ssize(lines); ++slot) {
    const auto& line = lines[slot];
    prompts_->tokens(line.sample, sample.data());
    double* const to = batch.input.data() + slot * tokens * features;
    std::copy_n(sample.data(), line.prompt * features, to);
    // New words are of the segment of the last word of the prompt.
    for (Index at = line.prompt; features > 1 && at < tokens; ++at)
      to[at * features + 1] = to[(line.prompt - 1) * features + 1];
  }
  return batch;
}

void Generation::take(Line& line, Index slot, int at, std::span<const double> z, Batch& batch,
                      Texts& texts) const {
  if (line.done || at + 1 > line.length) return;
  const Index features = prompts_->features();
  const Index tokens = batch.input.size() / (texts.length.size() * features);
  double& word = batch.input[(slot * tokens + at + 1) * features];
  const bool chosen = at + 1 == line.length;
  if (const double any = std::accumulate(z.begin(), z.end(), 0.0); !std::isfinite(any))
    throw NumericalFailure("sample " + std::to_string(line.sample) + ": the logits behind word " +
                           std::to_string(at) + " are not finite");
  if (chosen) {
    const RandomStream draws = RandomStream(plan_.seed, "generate").item(line.sample);
    word = next_word(z, plan_.choice, draws.uniform(line.length));
    line.done = ++line.length == line.end || word == stop_;
  }
  if (chosen || possible_[static_cast<int>(word)] != 0)
    texts.log_p[slot * line_ + at + 1] = log_probability(z, static_cast<int>(word));
}

void Generation::measure(const Place& place, Results& to) {
  const std::size_t first = place.index.at("first"), capacity = plan_.batch;
  std::vector<Line> lines;
  for (std::size_t k = first; k < std::min(first + capacity, order_.size()); ++k) {
    const auto sample = samples_[order_[k]];
    const int prompt = prompts_->length(sample);
    lines.push_back({.sample = sample, .prompt = prompt, .length = prompt, .end = prompt + plan_.tokens});
  }
  const Index count = std::ssize(lines), words = spec().vocabulary, width = spec().width;
  const int tokens = lines.back().end;  // they are sorted by length
  auto batch = prompt_batch(lines, tokens);
  Texts texts(count, line_);
  LineReader reader(model_.parameters, tokens, static_cast<int>(count), plan_.precision, plan_.earlier);
  const WordLogits logits(model_.parameters, plan_.precision);
  std::vector<double> z;
  constexpr Index group_of_rows = 128;
  while (!std::ranges::all_of(lines, &Line::done)) {
    // The words that all prompts have are read together; then each line has its next word when it is needed.
    const int from = reader.position(), more = from == 0 ? lines.front().prompt : 1;
    const long before = reader.marched();
    const double* const u = reader.read(batch, more);
    for (Index slot = 0; slot < count; ++slot)
      if (!lines[slot].done) texts.marches[slot] += static_cast<double>(reader.marched() - before);
    for (Index row = 0; row < more * count; row += group_of_rows) {
      const Index rows = std::min(group_of_rows, more * count - row);
      z.resize(rows * words);
      logits(static_cast<int>(rows), u + row * width, z.data());
      for (Index k = 0; k < rows; ++k)  // row [token][sample]
        take(lines[(row + k) % count], (row + k) % count, from + static_cast<int>((row + k) / count),
             std::span(z).subspan(k * words, words), batch, texts);
    }
  }
  for (Index slot = 0; slot < count; ++slot) {
    texts.length[slot] = lines[slot].length;
    for (int at = 0; at < lines[slot].length; ++at)
      texts.ids[slot * line_ + at] = batch.input[(slot * tokens + at) * prompts_->features()];
  }
  texts.ids.resize(capacity * line_);
  texts.log_p.resize(capacity * line_);
  texts.length.resize(capacity);
  texts.marches.resize(capacity);
  to.put(ids_, texts.ids);
  to.put(log_p_, texts.log_p);
  to.put(lengths_, texts.length);
  to.put(marches_, texts.marches);
}

Texts Generation::all_texts(const Findings& found) const {
  Texts all(samples_.size(), line_);
  for (std::size_t place = 0, k = 0; place < found.count(); ++place)
    for (std::size_t slot = 0; slot < static_cast<std::size_t>(plan_.batch) && k < order_.size();
         ++slot, ++k) {
      const auto row = [&](const io::Variable& variable) {
        return found.at(place, variable).begin() + static_cast<std::ptrdiff_t>(slot) * line_;
      };
      std::copy_n(row(ids_), line_, all.ids.begin() + static_cast<std::ptrdiff_t>(order_[k]) * line_);
      std::copy_n(row(log_p_), line_, all.log_p.begin() + static_cast<std::ptrdiff_t>(order_[k]) * line_);
      all.length[order_[k]] = found.at(place, lengths_)[slot];
      all.marches[order_[k]] = found.at(place, marches_)[slot];
    }
  return all;
}

bool Generation::conclude(const Findings& found, RunFrame&, StudyRecord& record) {
  const auto all = all_texts(found);
  std::vector<double> prompt_lengths;
  double sums[2] = {}, counts[2] = {};  // of prompts and of continuations
  for (std::size_t k = 0; k < samples_.size(); ++k) {
    prompt_lengths.push_back(prompts_->length(samples_[k]));
    for (int at = 0; at < all.length[k]; ++at)
      if (const double log_p = all.log_p[k * line_ + at]; !std::isnan(log_p)) {
        const int part = at < prompt_lengths.back() ? 0 : 1;
        sums[part] -= log_p;
        counts[part] += 1;
      }
  }
  const double of_prompts = std::exp(sums[0] / counts[0]), of_texts = std::exp(sums[1] / counts[1]);
  record.array(generated::ids, all.ids);
  record.array(generated::lengths, all.length);
  if (const auto words = prompts_->words(); !words.empty()) {
    record.axis(generated::word, 0, std::ssize(words) - 1);
    record.words(generated::words, words);
  }
  const Place whole{.group = group(), .index = {{axes::seed.name, 0}}};
  record.add(whole, generated::prompt_length, prompt_lengths);
  record.add(whole, generated::log_probability, all.log_p);
  record.add(whole, generated::token_marches, all.marches);
  record.add(whole, generated::perplexity, {of_texts});
  record.add(whole, generated::prompt_perplexity, {of_prompts});
  add_seconds(found, {group()}, record);
  std::ostringstream text;
  text << counts[1] << " words, perplexity " << of_texts << " of the continuations, " << of_prompts
       << " of the prompts; " << std::accumulate(all.marches.begin(), all.marches.end(), 0.0)
       << " token marches" << shown(all);
  summary_ = text.str();
  return true;
}

std::string Generation::shown(const Texts& texts) const {
  constexpr std::size_t most = 4;
  const auto words = prompts_->words();
  if (words.empty()) return "";
  std::ostringstream text;
  for (std::size_t k = 0; k < std::min(most, samples_.size()); ++k) {
    text << "\n  " << samples_[k] << ':';
    for (int at = 0; at < texts.length[k]; ++at)
      text << (at == prompts_->length(samples_[k]) ? " |" : "") << ' '
           << words[static_cast<std::size_t>(texts.ids[k * line_ + at])];
  }
  return text.str();
}

void declare_generation(Options& options) {
  options.declare(
      "model.file", "",
      "HDF5 file of the model that continues the prompts, written by train (train.objective = causal) or "
      "by the import command");
  options.declare(
      "generate.prompts", 0L,
      "number of prompts, drawn by run.seed from the samples of the test split (a token file without "
      "splits: from all); 0: all of them. data.length cuts them",
      {.minimum = 0});
  options.declare("generate.tokens", 64L, "new words behind each prompt, unless it ends before",
                  {.unit = "words", .minimum = 1});
  options.declare(
      "generate.temperature", 1.0,
      "T: a word is drawn with p = softmax(logits / T); 1: as the model says, less: likely words more "
      "often; 0: always the word of the largest logit, the lowest in a tie",
      {.minimum = 0});
  options.declare(
      "generate.top_k", 0L,
      "words among which one is drawn: those of the largest logits, of equal ones the lower words; 0: all",
      {.unit = "words", .minimum = 0});
  options.declare(
      "generate.stop", "auto",
      "word behind which a text ends: its name (or its number, where words have no names), none, or "
      "auto: <eos>, <|endoftext|>, <|end_of_text|> or </s>, the first that the model knows");
  options.declare(
      "generate.keep", true,
      "keep keys and values of earlier words by depth cell, so that a new word costs one token's march; "
      "false: march the whole line again for each, to check that nothing else changes");
  options.declare(
      "generate.batch", 8L,
      "prompts that a rank continues at a time; ranks share such batches, whose size may change round-off",
      {.minimum = 1});
  declare_data_options(options);
  options.declare(seed_option("seed of the draws and of the choice of prompts"));
  options.declare(precision_option());
  options.declare(memory_option());
  declare_study_run(options, "generate.h5");
}

}  // namespace

ExperimentEntry generate_experiment() {
  return study_entry<Generation>(
      {.name = "generate",
       .family = "generate",
       .sentence = "continues texts word by word with a causal model, and says how likely it held each word",
       .cites = "docs/model.md",
       .declare = declare_generation},
      [](Settings settings) {
        leave_data_to_file(settings);
        return settings;
      });
}

}  // namespace fluxformer
